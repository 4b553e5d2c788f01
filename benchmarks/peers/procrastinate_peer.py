"""procrastinate on psycopg's pool with uvloop. Schedules are registered in code, one periodic_id each."""

import asyncio
import logging
from datetime import UTC, datetime

import peer
import procrastinate
import uvloop

CONCURRENCY = 100
LOAD_BATCH = 2000

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=peer.DSN, min_size=4, max_size=20))


@app.task(name="noop", queue="noop")
async def noop(timestamp: int = 0, number: int = 0) -> None:
    peer.started()


async def install() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


def load_fires(n: int, due_at: int) -> None:
    asyncio.run(install())


def fire(n: int, due_at: int) -> None:
    due = datetime.fromtimestamp(due_at, UTC)
    for number in range(n):
        app.periodic(cron=f"{due.minute} {due.hour} * * * {due.second}", periodic_id=str(number))(noop)

    async def run() -> None:
        async with app.open_async():
            await app.run_worker_async(queues=["elsewhere"], install_signal_handlers=False)

    uvloop.run(run())


def load_jobs(n: int) -> None:
    async def run() -> None:
        await install()
        async with app.open_async():
            for start in range(0, n, LOAD_BATCH):
                numbers = range(start, min(n, start + LOAD_BATCH))
                await noop.batch_defer_async(*[{"number": number} for number in numbers])

    asyncio.run(run())


def work(index: int) -> None:
    async def run() -> None:
        async with app.open_async():
            peer.wait_for_gate(index)
            await app.run_worker_async(
                queues=["noop"],
                concurrency=CONCURRENCY,
                listen_notify=True,
                fetch_job_polling_interval=1,
                install_signal_handlers=False,
            )

    uvloop.run(run())


if __name__ == "__main__":
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    peer.main({"load-fires": load_fires, "fire": fire, "load-jobs": load_jobs, "work": work})
