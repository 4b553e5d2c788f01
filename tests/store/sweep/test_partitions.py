"""Day partitions on a real database, with writers and readers in the way."""

import asyncio
import random
from datetime import date, timedelta

import asyncpg
import pytest

from rota.base.clock import SystemClock
from rota.base.db import Database
from rota.base.settings import Settings
from rota.sweep.partitions import Partitions, days_ahead, oldest_kept, parents, start_of, wanted_days
from rota.sweep.retire import Retire
from support.keeping import DAY, HOUR, Seed
from support.waiting import eventually

FINISHED, ATTEMPTS = "finished_occurrences", "attempts"


def keeper(database: Database, table: str = FINISHED, *, retention_days: int = 30) -> Partitions:
    parent = next(p for p in parents(retention_days=retention_days, dead_letter_days=90) if p.table == table)
    return Partitions(database, SystemClock(), parent, pick=lambda low, _high: low)


@pytest.fixture
async def today(connection: asyncpg.Connection) -> date:
    return await connection.fetchval("SELECT (now() AT TIME ZONE 'UTC')::date")


@pytest.fixture
async def seed(connection: asyncpg.Connection) -> Seed:
    made = Seed(connection)
    await made.basics()
    return made


async def days_of(connection: asyncpg.Connection, table: str = FINISHED) -> list[date]:
    return [row[0] for row in await connection.fetch("SELECT rota_partition_days($1)", table)]


async def in_default(connection: asyncpg.Connection) -> int:
    return await connection.fetchval("SELECT count(*) FROM finished_occurrences_default")


async def move_days(connection: asyncpg.Connection, days: int) -> None:
    """Turn the cell's clock."""
    await connection.execute(
        "CREATE OR REPLACE FUNCTION rota_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE "
        f"AS $$ SELECT now() + interval '{days} days' $$"
    )


def test_the_days_that_must_be_there_reach_from_yesterday_to_a_week_ahead():
    days = wanted_days(date(2026, 3, 1))
    assert (days[0], days[-1], len(days)) == (date(2026, 2, 28), date(2026, 3, 8), 9)


def test_days_ahead_are_counted_up_to_the_first_gap():
    today = date(2026, 3, 1)
    assert days_ahead(today, [date(2026, 3, n) for n in (1, 2, 3, 5)]) == 2
    assert days_ahead(today, [date(2026, 3, 2)]) == -1


def test_thirty_days_are_kept_whole():
    assert oldest_kept(date(2026, 3, 31), 30) == date(2026, 3, 1)


async def test_a_new_cell_has_its_days_and_a_pass_changes_nothing(database: Database, today: date, seed: Seed):
    assert await days_of(seed.connection) == wanted_days(today)
    kept = await keeper(database).keep()
    assert (kept.made, kept.dropped, kept.days_ahead, kept.is_done) == (0, 0, 7, True)


async def test_after_a_long_absence_of_keepers_nothing_fails_and_rows_end_up_where_they_belong(
    database: Database, today: date, seed: Seed
):
    await move_days(seed.connection, 10)
    then = start_of(today) + 10 * DAY
    schedule_id = await seed.schedule(active_from=then, fire_at=then)
    for day in (9, 10, 11):
        await seed.finished(schedule_id, start_of(today) + day * DAY + HOUR)
    assert await in_default(seed.connection) == 3
    kept = await keeper(database).keep()
    assert (kept.days_ahead, kept.is_done) == (7, True)
    assert await in_default(seed.connection) == 0
    found = await seed.connection.fetch("SELECT tableoid::regclass::text AS t FROM finished_occurrences ORDER BY 1")
    assert [row["t"] for row in found] == [
        f"finished_occurrences_{today + timedelta(days=day):%Y%m%d}" for day in (9, 10, 11)
    ]


async def test_days_of_a_backfill_within_retention_become_partitions(database: Database, today: date, seed: Seed):
    day = today - timedelta(days=12)
    schedule_id = await seed.schedule(active_from=start_of(day), fire_at=start_of(day))
    await seed.finished(schedule_id, start_of(day) + HOUR)
    await keeper(database).keep()
    assert day in await days_of(seed.connection)
    assert await in_default(seed.connection) == 0


async def test_old_days_are_dropped_with_all_their_rows_and_the_edge_is_kept(
    database: Database, today: date, seed: Seed
):
    for ago in (29, 30, 31, 40):
        await seed.connection.execute("SELECT rota_make_partition($1, $2)", FINISHED, today - timedelta(days=ago))
    schedule_id = await seed.schedule(active_from=start_of(today), fire_at=start_of(today))
    for ago in (30, 40):
        await seed.finished(schedule_id, start_of(today) - ago * DAY)
    kept = await keeper(database).keep()
    assert (kept.dropped, kept.is_done) == (2, True)
    assert (await days_of(seed.connection))[:2] == [today - timedelta(days=30), today - timedelta(days=29)]
    assert await seed.connection.fetchval("SELECT count(*) FROM finished_occurrences") == 1


async def test_attempts_are_kept_as_long_as_dead_letters(database: Database, today: date, seed: Seed):
    for ago in (40, 91):
        await seed.connection.execute("SELECT rota_make_partition($1, $2)", ATTEMPTS, today - timedelta(days=ago))
    assert (await keeper(database, ATTEMPTS).keep()).dropped == 1
    assert (await days_of(seed.connection, ATTEMPTS))[0] == today - timedelta(days=40)


async def test_a_long_reader_holds_up_the_drop_but_no_writer(database: Database, today: date, seed: Seed, dsn: str):
    for ago in (40, 41):
        await seed.connection.execute("SELECT rota_make_partition($1, $2)", FINISHED, today - timedelta(days=ago))
    schedule_id = await seed.schedule(active_from=start_of(today), fire_at=start_of(today))
    reader = await asyncpg.connect(dsn)
    transaction = reader.transaction()
    await transaction.start()
    await reader.fetch("SELECT count(*) FROM finished_occurrences")
    dropping = asyncio.create_task(keeper(database).keep())
    n_written = 0
    while not dropping.done():
        await seed.finished(schedule_id, start_of(today) + n_written * timedelta(seconds=1))
        n_written += 1
    kept = await dropping
    assert (kept.dropped, kept.is_done) == (0, False)
    assert n_written > 10
    await transaction.rollback()
    await reader.close()
    assert (await keeper(database).keep()).dropped == 2


async def test_eight_keepers_at_once_make_each_day_once_and_never_deadlock(
    database: Database, today: date, seed: Seed, dsn: str
):
    await move_days(seed.connection, 20)
    schedule_id = await seed.schedule(active_from=start_of(today), fire_at=start_of(today))
    pools = [await Database.connect(dsn, min_size=1, max_size=2) for _ in range(8)]
    settings = Settings(retention_days=5, dead_letter_days=5)
    retires = [Retire(pool, SystemClock(), settings, pick=random.Random(7).uniform) for pool in pools]
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"

    async def write() -> None:
        for n in range(200):
            await seed.finished(schedule_id, start_of(today) + (15 + n % 8) * DAY + n * timedelta(seconds=1))

    passes = [retire.tick() for retire in retires for _ in range(5)]
    await asyncio.gather(write(), *passes)

    async def settled() -> bool:
        await retires[0].tick()
        assert await in_default(seed.connection) == 0
        assert len(await days_of(seed.connection)) == 9 + 4
        return True

    await eventually(settled)
    assert await seed.connection.fetchval("SELECT count(*) FROM finished_occurrences") == 200
    assert await seed.connection.fetchval(deadlocks) == 0
    for pool in pools:
        await pool.close()
