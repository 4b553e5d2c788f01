"""`rota bench lifecycle`: claim, no-op handler, finish, with fairness and history, against bare statements that do as
much.

The reference is what PostgreSQL gives one connection for the same rows with nothing decided: take a batch of due rows
by one statement, end them by another.
"""

import asyncio
import gc
import time
from typing import Any

from rota.base.db import Database, load_queries
from rota.bench.ground import HANDLER, SEED, Result, Tell, ground, seed_schedules
from rota.run.app import Attempt, Rota
from rota.run.executor import Executor
from rota.run.http_target import HttpCaller
from rota.run.nats_target import NatsPublisher
from rota.run.worker import Worker, WorkerOptions

TARGET_RATIO = 0.5
_BARE = load_queries(__file__, "lifecycle.sql")


async def lifecycle(*, count: int = 200_000, tenants: int = 250, dsn: str | None = None, tell: Tell) -> Result:
    """Run it. The rate is occurrences a second from the first claim to the last row in history."""
    async with ground(dsn) as db:
        tell(f"seeding {count:,}")
        await seed_schedules(db, count, timings=[{"cron": "0 0 1 1 *"}], tenants=tenants, tell=tell)
        reference = await _bare(db, min(count, 100_000), tell)
        await db.execute(SEED["bench_clear_occurrences"])
        await db.execute(SEED["bench_occurrences"], count, -1.0)
        tell("running the worker")
        seconds, n_handled = await run_worker(db, count)
        finished = await db.fetch_value(SEED["bench_count_finished"])
        rate = count / seconds
        return Result(
            scenario="lifecycle",
            rate=rate,
            reference=reference,
            ratio=rate / reference,
            target=f">= 20,000/s, and >= {TARGET_RATIO} of bare batched statements on one connection",
            met=rate >= 20_000 and finished == count,
            rows=[
                {"what": "occurrences", "value": count},
                {"what": "seconds", "value": round(seconds, 3)},
                {"what": "handler calls", "value": n_handled},
                {"what": "rows in history", "value": finished},
                {"what": "tenants", "value": tenants},
            ],
            settings={"slots": 64, "tenants": tenants, "workers": 1},
        )


async def _bare(db: Database, count: int, tell: Tell) -> float:
    await db.execute(SEED["bench_occurrences"], count, -1.0)
    tell("bare statements")
    started = time.perf_counter()
    done = 0
    while True:
        rows = await db.fetch(_BARE["bare_claim"], 2000)
        if not rows:
            break
        columns = [[row[i] for row in rows] for i in range(4)]
        await db.execute(_BARE["bare_finish"], *columns)
        done += len(rows)
    return done / (time.perf_counter() - started)


async def run_worker(db: Database, count: int, *, slots: int = 64, deadline_s: float = 600.0) -> tuple[float, int]:
    """Drain `count` due occurrences with one worker of this process; seconds and handler calls."""
    app = Rota()
    calls = 0

    @app.handler(HANDLER)
    async def noop(attempt: Attempt) -> None:
        nonlocal calls
        calls += 1

    http = HttpCaller(allow_private=True, max_response_bytes=65_536)
    executor = Executor(app.handlers, http, NatsPublisher(), default_timeout_s=300)
    options = WorkerOptions(slots=slots, claim_batch=2000)
    worker = Worker(db, executor, worker="bench", accepts=lambda lane: True, options=options)
    await worker.start()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # as a node does
    started = time.perf_counter()
    try:
        while calls < count and time.perf_counter() - started < deadline_s:
            pause = await worker.tick()
            await asyncio.sleep(min(pause, 0.01))
        await worker.drain()
        return time.perf_counter() - started, calls
    finally:
        await worker.stop()


Row = dict[str, Any]
