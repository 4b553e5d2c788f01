"""Real keeper processes that freeze or die in the middle of a rescue: the others go on, and nothing is left leased."""

import asyncio
import random
import signal
from datetime import datetime

import asyncpg
import pytest

from support.keeping import HOUR, Seed
from support.processes import Process, Processes
from support.waiting import eventually

KEEPER = """
import asyncio, sys
from rota.base.clock import SystemClock
from rota.base.db import Database
from rota.base.service import Supervisor
from rota.base.settings import Settings
from rota.sweep import bounds
from rota.sweep.keeper import keeper_services

async def main() -> None:
    bounds.IDLE_MS = 1000
    db = await Database.connect(sys.argv[1], max_size=4)
    supervisor = Supervisor(keeper_services(db, Settings(node="k", rescue_tick_s=0.1), SystemClock()))
    await supervisor.start()
    print("keeping", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
STILL_LEASED = "SELECT count(*) FROM occurrences WHERE lease_until IS NOT NULL"


@pytest.fixture
async def seed(connection: asyncpg.Connection) -> Seed:
    made = Seed(connection)
    await made.basics()
    return made


async def keeper(processes: Processes, dsn: str, failpoints: str = "") -> Process:
    started = await processes.python(KEEPER, dsn, env={"ROTA_FAILPOINTS": failpoints})
    await started.says("keeping")
    return started


async def orphans(seed: Seed, n: int, *, worker: str = "gone") -> None:
    now: datetime = await seed.connection.fetchval("SELECT now()")
    schedule_id = await seed.schedule(active_from=now, cadence_id=1)
    for number in range(n):
        await seed.leased(schedule_id, now - number * HOUR, worker=worker)


async def all_rescued(seed: Seed) -> None:
    async def rescued() -> bool:
        return await seed.connection.fetchval(STILL_LEASED) == 0

    await eventually(rescued)


async def test_orphans_of_a_keeper_that_was_killed_in_the_middle_are_rescued_by_the_next(
    processes: Processes, seed: Seed, dsn: str
):
    doomed = await keeper(processes, dsn, "rescue.before_write=kill")
    await orphans(seed, 20)
    assert await doomed.ends() == -signal.SIGKILL
    await keeper(processes, dsn)
    await all_rescued(seed)
    assert await seed.connection.fetchval("SELECT count(*) FROM occurrences WHERE losses = 1") == 20
    assert await seed.connection.fetchval("SELECT count(*) FROM attempts") == 20


async def test_a_frozen_keeper_holds_its_rows_for_some_seconds_and_no_longer(
    processes: Processes, seed: Seed, dsn: str
):
    frozen = await keeper(processes, dsn, "rescue.before_write=stop:1")
    await orphans(seed, 20)
    locked = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"
    )
    await eventually(lambda: _is(seed, locked, 1))
    await keeper(processes, dsn)
    await all_rescued(seed)
    frozen.signal(signal.SIGCONT)
    await orphans(seed, 5, worker="gone-too")
    await all_rescued(seed)
    assert await seed.connection.fetchval("SELECT count(*) FROM occurrences WHERE losses = 1") == 25
    assert await seed.connection.fetchval("SELECT max(losses) FROM occurrences") == 1


async def _is(seed: Seed, query: str, wanted: int) -> bool:
    return await seed.connection.fetchval(query) == wanted


async def test_keepers_killed_at_random_moments_rescue_every_orphan_once(processes: Processes, seed: Seed, dsn: str):
    number = random.randrange(10**6)
    print(f"seed {number}")
    chance = random.Random(number)
    survivor = await keeper(processes, dsn)
    for round_number in range(3):
        victim = await keeper(processes, dsn)
        await orphans(seed, 60, worker=f"w{round_number}")
        await asyncio.sleep(chance.random() * 0.2)
        await victim.kill()
    await all_rescued(seed)
    assert survivor.is_running
    assert await seed.connection.fetchval("SELECT count(*) FROM occurrences WHERE losses = 1") == 180
    assert await seed.connection.fetchval("SELECT count(*) FROM attempts WHERE outcome = 'lost'") == 180
