"""What is kept only for a time, removed in bounded steps."""

import random
from datetime import datetime

import asyncpg
import pytest

from rota.base.clock import SystemClock
from rota.base.db import Database
from rota.base.settings import Settings
from rota.base.telemetry import partition_days_ahead, recorded
from rota.sweep import retire as retire_module
from rota.sweep.retire import FewPartitions, HistoryKept, Retire
from support.keeping import DAY, HOUR, Seed


@pytest.fixture
async def seed(connection: asyncpg.Connection) -> Seed:
    made = Seed(connection)
    await made.basics()
    return made


@pytest.fixture
async def now(connection: asyncpg.Connection) -> datetime:
    return await connection.fetchval("SELECT now()")


def retire(database: Database, **settings: int) -> Retire:
    values = Settings(**{"retention_days": 30, "dead_letter_days": 90, **settings})
    return Retire(database, SystemClock(), values, pick=random.Random(1).uniform)


async def count(seed: Seed, table: str) -> int:
    return await seed.connection.fetchval(f"SELECT count(*) FROM {table}")


async def letter(seed: Seed, at: datetime, died_at: datetime) -> None:
    schedule_id = await seed.schedule(active_from=at, fire_at=at)
    await seed.connection.execute(
        "INSERT INTO dead_letters (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, planned_at, "
        "trigger, attempt, failures, losses, token, died_at, reason) "
        "VALUES ($1, $2, $3, 1, 1, 1, $3, 'timing', 5, 5, 0, 5, $4, 'attempts_exhausted')",
        *(schedule_id.int & 255, schedule_id, at, died_at),
    )


async def test_history_outside_the_days_ages_out_by_when_it_finished(database: Database, seed: Seed, now: datetime):
    schedule_id = await seed.schedule(active_from=now, fire_at=now)
    await seed.finished(schedule_id, now - 400 * DAY, finished_at=now - 31 * DAY)
    await seed.finished(schedule_id, now - 401 * DAY, finished_at=now - 29 * DAY)
    await retire(database).tick()
    left = await seed.connection.fetch("SELECT finished_at FROM finished_occurrences")
    assert [row["finished_at"] for row in left] == [now - 29 * DAY]


async def test_dead_letters_go_after_their_own_time(database: Database, seed: Seed, now: datetime):
    await letter(seed, now - 95 * DAY, now - 91 * DAY)
    await letter(seed, now - 95 * DAY, now - 89 * DAY)
    await retire(database).tick()
    assert await count(seed, "dead_letters") == 1


async def test_a_dead_letter_that_is_retired_early_stays_in_history(database: Database, seed: Seed, now: datetime):
    await letter(seed, now - 9 * DAY, now - 8 * DAY)
    await retire(database, dead_letter_days=7).tick()
    row = await seed.connection.fetchrow("SELECT * FROM finished_occurrences")
    assert (row["state"], row["reason"], row["finished_at"]) == ("dead", "attempts_exhausted", now - 8 * DAY)
    assert await count(seed, "dead_letters") == 0


async def test_idempotency_keys_go_after_a_day_and_nodes_a_day_after_their_lease(
    database: Database, seed: Seed, now: datetime
):
    for key, age in (("old", 25 * HOUR), ("new", 23 * HOUR)):
        await seed.connection.execute(
            "INSERT INTO idempotency_keys (tenant_id, key, fingerprint, status, response, created_at) "
            "VALUES (1, $1, '', 201, '{}', $2)",
            *(key, now - age),
        )
        await seed.connection.execute(
            "INSERT INTO nodes (node_id, roles, lease_until) VALUES ($1, '{}', $2)", key, now - age
        )
    await retire(database).tick()
    assert await seed.connection.fetchval("SELECT string_agg(key, ',') FROM idempotency_keys") == "new"
    assert await seed.connection.fetchval("SELECT string_agg(node_id, ',') FROM nodes") == "new"


async def test_missed_ranges_go_with_the_history_they_belong_to(database: Database, seed: Seed, now: datetime):
    schedule_id = await seed.schedule(active_from=now, fire_at=now)
    for age in (31, 29):
        await seed.connection.execute(
            "INSERT INTO missed_ranges (shard, schedule_id, version, first_at, last_at, n_missed, tenant_id, reason, "
            "recorded_at) VALUES (0, $1, 1, $2, $2, 1, 1, 'too_late', $2)",
            *(schedule_id, now - age * DAY),
        )
    await retire(database).tick()
    assert await count(seed, "missed_ranges") == 1


async def test_much_is_removed_in_many_short_steps_and_a_pass_that_runs_out_of_time_comes_back_soon(
    database: Database, seed: Seed, now: datetime, monkeypatch: pytest.MonkeyPatch
):
    await seed.connection.execute(
        "INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, tenant_id, state, trigger, "
        "finished_at) SELECT 0, gen_random_uuid(), $1, 1, 1, 'succeeded', 'timing', $2 FROM generate_series(1, 5000)",
        *(now - 400 * DAY, now - 31 * DAY),
    )
    keeper = retire(database)
    monkeypatch.setattr(retire_module, "BUDGET_S", 0.0)
    assert await keeper.tick() == 1.0
    assert await count(seed, "finished_occurrences") == 3000
    monkeypatch.setattr(retire_module, "BUDGET_S", 30.0)
    assert await keeper.tick() == 300.0
    assert await count(seed, "finished_occurrences") == 0


async def test_days_ahead_are_shown_and_an_alarm_is_raised_when_they_run_out(
    database: Database, seed: Seed, dsn: str, now: datetime
):
    with recorded() as events:
        await retire(database).tick()
    assert events == []
    assert partition_days_ahead._value.get() == 7
    for table in ("finished_occurrences", "attempts"):
        await seed.connection.execute("SELECT rota_drop_partition($1, $2)", table, (now + DAY).date())
    blocker = await asyncpg.connect(dsn)
    transaction = blocker.transaction()
    await transaction.start()
    await blocker.execute("SELECT pg_advisory_xact_lock(7412, 1)")
    with recorded() as events:
        assert await retire(database).tick() == 1.0
    assert events == [
        FewPartitions(table="finished_occurrences", days_ahead=0),
        FewPartitions(table="attempts", days_ahead=0),
    ]
    await transaction.rollback()
    await blocker.close()
    with recorded() as events:
        await retire(database).tick()
    assert events == [
        HistoryKept(table="finished_occurrences", made=1, dropped=0, days_ahead=7),
        HistoryKept(table="attempts", made=1, dropped=0, days_ahead=7),
    ]
