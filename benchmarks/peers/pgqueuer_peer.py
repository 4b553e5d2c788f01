"""pgqueuer on asyncpg with uvloop. Schedules are registered in code; each enqueues one job when it fires."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import asyncpg
import peer
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job, Schedule
from pgqueuer.queries import Queries

BATCH = 1000
LOAD_BATCH = 1000


async def install() -> None:
    connection = await asyncpg.connect(peer.DSN)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


async def manager() -> PgQueuer:
    return PgQueuer.from_asyncpg_pool(await asyncpg.create_pool(peer.DSN, min_size=4, max_size=10))


def load_fires(n: int, due_at: int) -> None:
    asyncio.run(install())


def fire(n: int, due_at: int) -> None:
    due = datetime.fromtimestamp(due_at, UTC)

    async def run() -> None:
        queuer = await manager()

        async def enqueue(schedule: Schedule) -> None:
            await queuer.qm.queries.enqueue("noop", b"x")

        for number in range(n):
            queuer.sm.schedule(f"s{number}", f"{due.minute} {due.hour} * * * {due.second}")(enqueue)
        await queuer.sm.run()

    uvloop.run(run())


def load_jobs(n: int) -> None:
    async def run() -> None:
        await install()
        connection = await asyncpg.connect(peer.DSN)
        queries = Queries(AsyncpgDriver(connection))
        for start in range(0, n, LOAD_BATCH):
            size = min(LOAD_BATCH, n - start)
            await queries.enqueue(["noop"] * size, [b"x"] * size, [0] * size)
        await connection.close()

    asyncio.run(run())


def work(index: int) -> None:
    async def run() -> None:
        queuer = await manager()

        @queuer.entrypoint("noop")
        async def noop(job: Job) -> None:
            peer.started()

        peer.wait_for_gate(index)
        await queuer.qm.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=1))

    uvloop.run(run())


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    peer.main({"load-fires": load_fires, "fire": fire, "load-jobs": load_jobs, "work": work})
