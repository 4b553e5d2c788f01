"""A payload that kills its process is set aside, and the healthy work that shared workers with it succeeds."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import asyncpg

from rota.base.db import Database
from rota.base.model import Actor, TenantId
from rota.catalog.definition import Definition
from rota.plan import edits
from support.processes import Process, Processes
from support.waiting import eventually

APP = """
import asyncio, os
from rota import Rota

app = Rota()

@app.handler("poison")
async def poison(attempt) -> None:
    os._exit(9)

@app.handler("healthy")
async def healthy(attempt) -> None:
    await asyncio.sleep(0.5)
"""
N_HEALTHY = 50
FAST = {"ROTA_LEASE_S": "3", "ROTA_HEARTBEAT_S": "1", "ROTA_RESCUE_TICK_S": "0.2", "ROTA_LOG_FORMAT": "json"}


async def test_a_poison_among_fifty_healthy_ones_ends_dead_and_they_succeed(
    processes: Processes, dsn: str, connection: asyncpg.Connection, tmp_path: Path
):
    (tmp_path / "poisoned.py").write_text(APP)
    env = {**FAST, "ROTA_DATABASE_URL": dsn, "PYTHONPATH": str(tmp_path)}
    await connection.execute("INSERT INTO tenants (tenant_id, name) VALUES (1, 'acme')")
    await work(dsn)
    await processes.rota("serve", "--roles", "planner,keeper", env=env)
    workers = [await start_worker(processes, env) for _ in range(3)]
    ended = asyncio.Event()

    async def restart_the_dead() -> None:
        while not ended.is_set():
            for place, worker in enumerate(workers):
                if not worker.is_running:
                    workers[place] = await start_worker(processes, env)
            await asyncio.sleep(0.1)

    async def over() -> bool:
        letters = await connection.fetch("SELECT reason, last_error, losses FROM dead_letters")
        assert [row["reason"] for row in letters] == ["poison"]
        assert letters[0]["last_error"].startswith("worker lost: its process died")
        done = "SELECT count(*) FROM finished_occurrences WHERE state = 'succeeded'"
        assert await connection.fetchval(done) == N_HEALTHY
        return True

    async with asyncio.TaskGroup() as group:
        group.create_task(restart_the_dead())
        try:
            await eventually(over, within=100, every=0.2)
        finally:
            ended.set()


async def work(dsn: str) -> None:
    """One poison and many healthy ones, all due at once."""
    now = datetime.now(UTC).isoformat()
    names = ["poison", *["healthy"] * N_HEALTHY]
    definitions = [
        Definition.parse({"name": f"s{n}", "timing": {"at": now}, "target": {"handler": {"name": name}}})
        for n, name in enumerate(names)
    ]
    db = await Database.connect(dsn, max_size=2)
    actor = Actor(kind="cli", id="test")
    await edits.create_schedules(db, TenantId(1), definitions, [actor] * len(definitions))
    await db.close()


async def start_worker(processes: Processes, env: dict[str, str]) -> Process:
    return await processes.rota("worker", "poisoned:app", env=env)
