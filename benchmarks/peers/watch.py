"""The watcher: counts what a store durably holds, from a process of its own, the same for every system.

    python watch.py sql "SELECT count(*) FROM t" --until 10000 [--from EPOCH] [--within SECONDS] [--stall SECONDS]
    python watch.py redis celery-queued --until 10000

Polls until the count is reached and prints one JSON line: the moments at which the count had changed, and the usual
distance between two polls, which is the resolution of every figure read from them. A poll may take a tenth of the time.
"""

import argparse
import itertools
import json
import os
import statistics
import time
from collections.abc import Callable

FLOOR_S = 0.01


def sql_counter(query: str) -> Callable[[], int]:
    """Counts by one statement on a connection of its own."""
    import psycopg

    connection = psycopg.connect(os.environ["PEERS_DSN"], autocommit=True, prepare_threshold=1)

    def count() -> int:
        row = connection.execute(query).fetchone()
        return int(row[0]) if row else 0

    return count


def redis_counter(name: str, until: int) -> Callable[[], int]:
    """Counts of the systems whose queue is Redis: what waits, or what was acknowledged."""
    import redis

    store = redis.Redis.from_url(os.environ["PEERS_REDIS_URL"])

    def taskiq_completed() -> int:
        group = store.xinfo_groups("taskiq")[0]
        return int(group.get("entries-read") or 0) - int(group["pending"])

    counters: dict[str, Callable[[], int]] = {
        "celery-queued": lambda: int(store.llen("celery")),
        "celery-completed": lambda: until - int(store.llen("celery")) - int(store.hlen("unacked")),
        "taskiq-queued": lambda: int(store.xlen("taskiq")),
        "taskiq-completed": taskiq_completed,
    }
    return counters[name]


def watch(
    count: Callable[[], int], until: int, *, give_up_at: float, stall_s: float
) -> tuple[list[tuple[float, int]], float]:
    """The (moment, count) pairs where the count had changed, and the median distance of two polls."""
    points: list[tuple[float, int]] = []
    polls: list[float] = []
    while True:
        before = time.time()
        counted = count()
        after = time.time()
        polls.append(after)
        if not points or counted != points[-1][1]:
            points.append((after, counted))
        is_stalled = counted > 0 and after - points[-1][0] > stall_s
        if counted >= until or after > give_up_at or is_stalled:
            gaps = [later - earlier for earlier, later in itertools.pairwise(polls)]
            return points, statistics.median(gaps) if gaps else 0.0
        time.sleep(max(FLOOR_S, 9 * (after - before)))


def main() -> None:
    """Read the order, wait for the first moment worth a look, watch, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", choices=["sql", "redis"])
    parser.add_argument("count")
    parser.add_argument("--until", type=int, required=True)
    parser.add_argument("--from", dest="begin_at", type=float, default=0.0)
    parser.add_argument("--within", type=float, default=100.0)
    parser.add_argument("--stall", type=float, default=20.0)
    order = parser.parse_args()
    count = sql_counter(order.count) if order.store == "sql" else redis_counter(order.count, order.until)
    print("ready", flush=True)
    time.sleep(max(0.0, order.begin_at - time.time()))
    points, poll_s = watch(count, order.until, give_up_at=time.time() + order.within, stall_s=order.stall)
    print(json.dumps({"points": points, "poll_s": round(poll_s, 4)}), flush=True)


if __name__ == "__main__":
    main()
