"""rota: its own processes as one would run them, `rota serve --roles planner` and `rota worker`.

Schedules are created by the edit that the API's bulk creation uses, and planned by the planner: nothing is written past
it. The jobs of W3 are the occurrences of as many schedules, planned and then left until they are due.
"""

import asyncio
import os
import subprocess
import sys
import time
from datetime import UTC, datetime

import asyncpg
import peer

from rota import Attempt, Rota
from rota.base.db import Database
from rota.base.migrations import migrate
from rota.base.model import Actor
from rota.catalog.definition import Definition
from rota.catalog.tenants import create_tenant
from rota.plan.edits import create_schedules

LOAD_BATCH = 5000
SETTINGS = {"ROTA_DATABASE_URL": peer.DSN, "ROTA_LOG_LEVEL": "error", "ROTA_CLAIM_BATCH": "2000"}
PLANNER = [sys.executable, "-m", "rota", "serve", "--roles", "planner"]

app = Rota()


@app.handler("noop")
async def noop(attempt: Attempt) -> None:
    peer.started()


async def create(n: int, due_at: int) -> None:
    """n schedules of one tenant, every hour from that instant on."""
    await migrate(peer.DSN)
    database = await Database.connect(peer.DSN)
    actor = Actor(kind="cli", id="peers")
    tenant = await create_tenant(database, "peers", actor)
    rule = {
        "timing": {"every": "1h", "anchor": datetime.fromtimestamp(due_at, UTC).isoformat()},
        "target": {"handler": {"name": "noop"}},
    }
    for start in range(0, n, LOAD_BATCH):
        numbers = range(start, min(n, start + LOAD_BATCH))
        definitions = [Definition.parse({"name": f"s{number}", **rule}) for number in numbers]
        await create_schedules(database, tenant.tenant_id, definitions, [actor] * len(definitions))
    await database.close()


def load_fires(n: int, due_at: int) -> None:
    asyncio.run(create(n, due_at))


def fire(n: int, due_at: int) -> None:
    os.execve(PLANNER[0], PLANNER, {**os.environ, **SETTINGS})


def load_jobs(n: int) -> None:
    due_at = int(time.time() + 10 + n / 2000)
    load_fires(n, due_at)
    planner = subprocess.Popen(PLANNER, env={**os.environ, **SETTINGS})
    try:
        asyncio.run(planned(n, due_at))
    finally:
        planner.terminate()
        planner.wait()


async def planned(n: int, due_at: int) -> None:
    """Return when n occurrences are there and their instant has passed."""
    connection = await asyncpg.connect(peer.DSN)
    query = "SELECT count(*) FROM occurrences WHERE scheduled_for = $1 AND available_at < now() - interval '10 ms'"
    async with asyncio.timeout(120):
        while await connection.fetchval(query, datetime.fromtimestamp(due_at, UTC)) < n:
            await asyncio.sleep(0.05)
    await connection.close()


def work(index: int) -> None:
    os.environ["PYTHONPATH"] = os.path.dirname(os.path.abspath(__file__))
    worker = [sys.executable, "-m", "rota", "worker", "rota_peer:app"]
    os.execve(worker[0], worker, {**os.environ, **SETTINGS})


if __name__ == "__main__":
    peer.main({"load-fires": load_fires, "fire": fire, "load-jobs": load_jobs, "work": work})
