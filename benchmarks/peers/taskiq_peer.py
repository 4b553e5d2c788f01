"""taskiq with a Redis stream as broker and its list source of schedules, whole minutes."""

import asyncio
import os
import sys
from datetime import UTC, datetime

import peer
from taskiq import TaskiqScheduler
from taskiq_redis import ListRedisScheduleSource, RedisStreamBroker

AT_ONCE = 50

broker = RedisStreamBroker(url=peer.REDIS_URL, xread_count=100)
source = ListRedisScheduleSource(peer.REDIS_URL, buffer_size=1000)
scheduler = TaskiqScheduler(broker, [source])


@broker.task(task_name="noop")
async def noop() -> None:
    peer.started()


def load_fires(n: int, due_at: int) -> None:
    due = datetime.fromtimestamp(due_at, UTC)

    async def some(first: int) -> None:
        for _ in range(first, n, AT_ONCE):
            await noop.kicker().schedule_by_cron(source, f"{due.minute} {due.hour} * * *")

    async def run() -> None:
        await source.startup()
        await asyncio.gather(*[some(first) for first in range(AT_ONCE)])

    asyncio.run(run())


def become(*arguments: str) -> None:
    """Go on as taskiq's command line, with this folder on the path."""
    here = os.path.dirname(os.path.abspath(__file__))
    os.environ["PYTHONPATH"] = here
    os.execv(sys.executable, [sys.executable, "-m", "taskiq", *arguments, "--log-level", "ERROR"])


def fire(n: int, due_at: int) -> None:
    become("scheduler", "taskiq_peer:scheduler", "--skip-first-run")


def load_jobs(n: int) -> None:
    async def some(first: int) -> None:
        for _ in range(first, n, AT_ONCE):
            await noop.kiq()

    async def run() -> None:
        await broker.startup()
        await asyncio.gather(*[some(first) for first in range(AT_ONCE)])
        await broker.shutdown()

    asyncio.run(run())


def work(index: int) -> None:
    limits = ["--max-async-tasks", "200", "--max-prefetch", "200"]
    become("worker", "taskiq_peer:broker", "--workers", "1", *limits)


if __name__ == "__main__":
    peer.main({"load-fires": load_fires, "fire": fire, "load-jobs": load_jobs, "work": work})
