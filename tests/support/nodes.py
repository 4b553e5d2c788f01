"""Several real `rota serve` nodes on one database, killed in turn, and the proof that nothing was lost or added."""

import asyncio
import itertools
import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import asyncpg

from rota.base.clock import SystemClock
from rota.base.db import Database
from rota.base.model import Actor, TenantId
from rota.catalog.definition import Definition
from rota.plan import edits
from rota.sweep.fires import Window
from rota.sweep.reconcile import Auditor
from rota.sweep.report import Report
from support.http_target import HttpTarget
from support.processes import Process, Processes
from support.waiting import eventually

ROLES = "planner,worker,keeper"
ENVIRONMENT = {
    "ROTA_ALLOW_PRIVATE_TARGETS": "true",
    "ROTA_HORIZON_S": "20",
    "ROTA_PLAN_TICK_S": "1",
    "ROTA_SHARD_LEASE_S": "3",
    "ROTA_LEASE_S": "3",
    "ROTA_HEARTBEAT_S": "1",
    "ROTA_RESCUE_TICK_S": "0.5",
    "ROTA_LOG_FORMAT": "json",
}
N_SCHEDULES = 30
WAITING = "SELECT count(*) FROM occurrences WHERE available_at <= now()"
BEHIND = "SELECT now() - min(planned_through) FROM shards"
DOUBLED = (
    "SELECT count(*) FROM (SELECT schedule_id, version, scheduled_for FROM finished_occurrences "
    "UNION ALL SELECT schedule_id, version, scheduled_for FROM dead_letters "
    "UNION ALL SELECT schedule_id, version, scheduled_for FROM occurrences) AS r "
    "GROUP BY schedule_id, version, scheduled_for HAVING count(*) > 1"
)


async def node(processes: Processes, dsn: str) -> Process:
    """Start one node."""
    return await processes.rota("serve", "--roles", ROLES, env={**ENVIRONMENT, "ROTA_DATABASE_URL": dsn})


async def load(database: Database, url: str) -> None:
    """Schedules that fire each second or two, at one target."""
    documents = [
        {
            "name": f"s{n}",
            "timing": {"every": f"{1 + n % 2}s", "anchor": "2026-01-01T00:00:00Z"},
            "misfire": {"policy": "catch_up", "max_catch_up": 1000, "max_lateness": "1h"},
            "retry": {"max_attempts": 50, "base": "1s", "cap": "2s"},
            "target": {"http": {"url": url}},
            "payload": {"n": n},
        }
        for n in range(N_SCHEDULES)
    ]
    actor = Actor(kind="cli", id="test")
    await edits.create_schedules(
        database, TenantId(1), [Definition.parse(document) for document in documents], [actor] * len(documents)
    )


async def alternately_killed(
    processes: Processes, target: HttpTarget, dsn: str, *, seconds: float, every_s: float
) -> None:
    """Kill one of three nodes every `every_s` for `seconds`, start it again, let the rest settle, and prove it."""
    number = random.randrange(10**6)
    print(f"seed {number}")
    chance = random.Random(number)
    watcher = await asyncpg.connect(dsn)
    await watcher.execute("INSERT INTO tenants (tenant_id, name) VALUES (1, 'acme')")
    database = await Database.connect(dsn, max_size=4)
    began = datetime.now(UTC)
    await load(database, target.tell("/tick"))
    nodes = [await node(processes, dsn) for _ in range(3)]
    await target.receives(1, "/tick", within=60)
    for turn in itertools.cycle(range(3)):
        if datetime.now(UTC) - began > timedelta(seconds=seconds):
            break
        await asyncio.sleep(every_s * (0.5 + chance.random()))  # the moment of the next murder
        await nodes[turn].kill()
        nodes[turn] = await node(processes, dsn)
    report = await settled(watcher, database, began)
    assert all(one.is_running for one in nodes)
    document = report.document()
    assert (document["absent"], document["extra"], report.n_expected > N_SCHEDULES * seconds / 2) == ([], [], True)
    assert await watcher.fetch(DOUBLED) == []
    await called_once_or_again(watcher, target)
    await database.close()
    await watcher.close()


async def settled(watcher: asyncpg.Connection, database: Database, began: datetime) -> Report:
    """Wait until what was due by now is over, then audit up to then."""
    until: datetime = await watcher.fetchval("SELECT now()")
    unfinished = "SELECT count(*) FROM occurrences WHERE scheduled_for < $1"

    async def over() -> bool:
        assert await watcher.fetchval("SELECT min(planned_through) >= $1 FROM shards", until)
        return await watcher.fetchval(unfinished, until) == 0

    await eventually(over, within=90, every=0.2)
    return await Auditor(database, SystemClock()).audit(Window(from_at=began - timedelta(minutes=1), until_at=until))


async def called_once_or_again(watcher: asyncpg.Connection, target: HttpTarget) -> None:
    """Each finished run key was called; more than once only when the attempts tell of a loss."""
    calls = Counter(request.key for request in target.on("/tick"))
    rows = await watcher.fetch(
        "SELECT rota_run_key(schedule_id, version, scheduled_for) AS key, losses + failures AS again "
        "FROM finished_occurrences WHERE state = 'succeeded'"
    )
    for row in rows:
        assert 1 <= calls[row["key"]] <= 1 + row["again"], (row["key"], calls[row["key"]], row["again"])
