"""All that keepers do, by many keepers at once, with work going on."""

import asyncio
from datetime import datetime, timedelta

import asyncpg
import pytest

from rota.base.clock import SystemClock
from rota.base.db import Database
from rota.base.service import Service, Supervisor
from rota.base.settings import Settings
from rota.base.telemetry import LeaseExpired, ServiceFailed, recorded
from rota.sweep.keeper import keeper_services
from rota.sweep.rescue import Rescue
from support.keeping import DAY, HOUR, Seed
from support.waiting import eventually

DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


@pytest.fixture
async def seed(connection: asyncpg.Connection) -> Seed:
    made = Seed(connection)
    await made.basics()
    return made


def test_the_keeper_is_made_of_services_with_names_of_their_own():
    services = keeper_services(None, Settings(), SystemClock())  # type: ignore[arg-type]
    assert [service.name for service in services] == ["rescue", "endings", "retire", "audit"]


async def test_eight_keepers_doing_everything_without_pause_neither_deadlock_nor_fail(
    database: Database, seed: Seed, dsn: str
):
    pools = [await Database.connect(dsn, min_size=1, max_size=3) for _ in range(8)]
    settings = Settings(retention_days=3, dead_letter_days=3, audit_tick_s=0.05, rescue_tick_s=0.05)
    now: datetime = await seed.connection.fetchval("SELECT now()")
    ending = asyncio.Event()

    async def repeat(service: Service) -> None:
        while not ending.is_set():
            await service.tick()
            await asyncio.sleep(0)

    async def live(number: int) -> None:
        writer = await asyncpg.connect(dsn)
        own = Seed(writer)
        own.lane_id, own.policy_id = seed.lane_id, seed.policy_id
        for n in range(30):
            over = now - HOUR - timedelta(seconds=30 * number + n)
            schedule_id = await own.schedule(active_from=over - DAY, fire_at=over)
            await own.leased(schedule_id, over)
            await own.schedule(active_from=over - DAY, active_until=over, cadence_id=1)
            await own.finished(schedule_id, now - timedelta(days=n % 8), version=n + 2)
        await writer.close()

    keepers = [keeper_services(pool, settings, SystemClock()) for pool in pools]
    with recorded() as events:
        async with asyncio.TaskGroup() as group:
            for keeper in keepers:
                for service in keeper:
                    group.create_task(repeat(service))
            await asyncio.gather(*(live(number) for number in range(4)))
            n_leased = "SELECT count(*) FROM occurrences WHERE lease_until IS NOT NULL"
            await eventually(lambda: seed_is(seed, n_leased, 0))
            finished = "SELECT count(*) FROM schedules WHERE state = 'finished' AND active_until IS NOT NULL"
            await eventually(lambda: seed_is(seed, finished, 120))
            ending.set()
    assert await seed.connection.fetchval(DEADLOCKS) == 0
    assert await seed.connection.fetchval("SELECT count(*) FROM occurrences WHERE losses = 1") == 120
    assert sum(isinstance(event, LeaseExpired) for event in events) == 120
    trail = "SELECT count(*) FROM audit_trail WHERE action = 'schedule.finish'"
    assert await seed.connection.fetchval(trail) == 120
    for pool in pools:
        await pool.close()


async def seed_is(seed: Seed, query: str, wanted: int) -> bool:
    return await seed.connection.fetchval(query) == wanted


async def test_keepers_go_on_while_one_of_them_is_held_in_the_middle_of_a_pass(
    database: Database, seed: Seed, dsn: str
):
    """Its death, not a time-out, frees the rows it has locked; everything else is rescued meanwhile."""
    schedule_id = await seed.schedule(active_from=datetime.now().astimezone(), cadence_id=1)
    now: datetime = await seed.connection.fetchval("SELECT now()")
    for n in range(20):
        await seed.leased(schedule_id, now - n * HOUR)
    held = await asyncpg.connect(dsn)
    transaction = held.transaction()
    await transaction.start()
    await held.fetch("SELECT 1 FROM occurrences ORDER BY scheduled_for LIMIT 5 FOR UPDATE")
    rescue = Rescue(database, max_losses=10, pick=lambda low, _high: low, tick_s=1.0)
    assert await rescue.rescue(100) == 15
    held.terminate()
    still_leased = "SELECT count(*) FROM occurrences WHERE lease_until IS NOT NULL"

    async def rescued() -> bool:
        await rescue.tick()
        return await seed.connection.fetchval(still_leased) == 0

    await eventually(rescued)


async def test_a_supervised_keeper_survives_the_loss_of_all_its_connections(database: Database, seed: Seed, dsn: str):
    settings = Settings(rescue_tick_s=0.05)
    pool = await Database.connect(dsn, min_size=1, max_size=3, application_name="keeper-under-test")
    supervisor = Supervisor(keeper_services(pool, settings, SystemClock()))
    now: datetime = await seed.connection.fetchval("SELECT now()")
    schedule_id = await seed.schedule(active_from=now, cadence_id=1)
    with recorded() as events:
        await supervisor.start()
        await seed.connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'keeper-under-test'"
        )
        await seed.leased(schedule_id, now)
        query = "SELECT count(*) FROM occurrences WHERE losses = 1"
        await eventually(lambda: seed_is(seed, query, 1))
        await supervisor.stop()
    assert all(event.service != "rescue" or event.retry_s > 0 for event in events if isinstance(event, ServiceFailed))
    await pool.close()
