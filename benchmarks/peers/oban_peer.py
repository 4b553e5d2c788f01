"""Oban for Python with uvloop. Schedules stand in code, whole minutes; the leader inserts all that are due at once."""

import asyncio
import logging
from datetime import UTC, datetime

import peer
import uvloop
from oban import Job, Oban, worker
from oban.schema import install

LIMIT = 200
LOAD_BATCH = 1000


@worker(queue="default")
class Noop:
    """The job: it does nothing."""

    async def process(self, job: Job) -> None:
        peer.started()


async def prepare() -> None:
    pool = await Oban.create_pool(peer.DSN, min_size=1, max_size=2)
    await install(pool)
    await pool.close()


def load_fires(n: int, due_at: int) -> None:
    asyncio.run(prepare())


def fire(n: int, due_at: int) -> None:
    due = datetime.fromtimestamp(due_at, UTC)
    for _ in range(n):
        worker(queue="default", cron=f"{due.minute} {due.hour} * * *")(type("Noop", (), {"process": Noop.process}))

    async def run() -> None:
        pool = await Oban.create_pool(peer.DSN, min_size=2, max_size=10)
        async with Oban(pool=pool, queues={"elsewhere": 1}, leadership=True):
            await asyncio.Event().wait()

    uvloop.run(run())


def load_jobs(n: int) -> None:
    async def run() -> None:
        await prepare()
        pool = await Oban.create_pool(peer.DSN, min_size=1, max_size=2)
        oban = Oban(pool=pool)
        for start in range(0, n, LOAD_BATCH):
            await oban.enqueue_many([Noop.new({"number": i}) for i in range(start, min(n, start + LOAD_BATCH))])
        await pool.close()

    asyncio.run(run())


def work(index: int) -> None:
    async def run() -> None:
        pool = await Oban.create_pool(peer.DSN, min_size=2, max_size=10)
        peer.wait_for_gate(index)
        async with Oban(pool=pool, node=f"node-{index}", queues={"default": LIMIT}):
            await asyncio.Event().wait()

    uvloop.run(run())


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    peer.main({"load-fires": load_fires, "fire": fire, "load-jobs": load_jobs, "work": work})
