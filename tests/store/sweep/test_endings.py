"""Schedules that are over, and pauses whose end has come."""

from datetime import datetime

import asyncpg
import pytest

from rota.base.db import Database
from rota.base.model import N_SHARDS
from rota.sweep import endings as endings_module
from rota.sweep.endings import SQL, Endings
from support.keeping import DAY, HOUR, Seed


@pytest.fixture
async def seed(connection: asyncpg.Connection) -> Seed:
    made = Seed(connection)
    await made.basics()
    return made


@pytest.fixture
async def now(connection: asyncpg.Connection) -> datetime:
    return await connection.fetchval("SELECT now()")


def endings(database: Database) -> Endings:
    return Endings(database, node="n1", tick_s=5.0)


async def round_of(service: Endings) -> None:
    """Once over all shards."""
    for _ in range(N_SHARDS // endings_module.SHARDS_A_TICK):
        await service.tick()


async def states(seed: Seed) -> list[str]:
    rows = await seed.connection.fetch("SELECT state FROM schedules ORDER BY schedule_id")
    return [row["state"] for row in rows]


async def test_a_schedule_past_its_end_is_finished_with_its_version_unchanged_and_a_trail(
    database: Database, seed: Seed, now: datetime
):
    schedule_id = await seed.schedule(active_from=now - DAY, active_until=now - HOUR, cadence_id=1)
    assert await endings(database).tick() == 5.0
    row = await seed.connection.fetchrow("SELECT state, version FROM schedules")
    assert (row["state"], row["version"]) == ("finished", 1)
    entry = await seed.connection.fetchrow("SELECT * FROM audit_trail")
    assert (entry["actor_kind"], entry["action"], entry["object_id"]) == ("keeper", "schedule.finish", str(schedule_id))
    assert await seed.connection.fetchval("SELECT sum(n_schedules) FROM tenant_usage") == -1


async def test_one_that_is_not_planned_to_its_end_or_has_work_left_goes_on(
    database: Database, seed: Seed, now: datetime
):
    busy = await seed.schedule(active_from=now - DAY, active_until=now - HOUR, cadence_id=1)
    await seed.pending(busy, now - HOUR)
    await seed.schedule(active_from=now - DAY, active_until=now + HOUR, cadence_id=1)
    await endings(database).tick()
    assert await states(seed) == ["active", "active"]
    await seed.connection.execute("DELETE FROM occurrences")
    await seed.planned_through(now - 2 * HOUR)
    await endings(database).tick()
    assert await states(seed) == ["active", "active"]
    await seed.planned_through(now)
    await endings(database).tick()
    assert await states(seed) == ["finished", "active"]


async def test_a_one_shot_is_finished_when_it_has_run_died_or_was_missed(database: Database, seed: Seed, now: datetime):
    ran = await seed.schedule(active_from=now - DAY, fire_at=now - HOUR)
    await seed.finished(ran, now - HOUR)
    missed = await seed.schedule(active_from=now - DAY, fire_at=now - HOUR)
    await seed.connection.execute(
        "INSERT INTO missed_ranges (shard, schedule_id, version, first_at, last_at, n_missed, tenant_id, reason, "
        "recorded_at) VALUES ($1, $2, 1, $3, $3, 1, 1, 'too_late', $3)",
        *(missed.int & 255, missed, now - HOUR),
    )
    await seed.schedule(active_from=now - DAY, fire_at=now + HOUR)
    await round_of(endings(database))
    assert await states(seed) == ["finished", "finished", "active"]


async def test_many_one_shots_that_wait_do_not_keep_those_behind_them_from_being_finished(
    database: Database, seed: Seed, now: datetime, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(endings_module, "PAGE", 2)
    monkeypatch.setattr(endings_module, "SHARDS_A_TICK", 256)
    shard = "UPDATE schedules SET shard = 7"
    for _ in range(5):
        await seed.schedule(active_from=now - DAY, fire_at=now - 2 * HOUR)
    ran = await seed.schedule(active_from=now - DAY, fire_at=now - HOUR)
    await seed.finished(ran, now - HOUR)
    await seed.connection.execute(shard)
    service = endings(database)
    found = [await service.finish_once() for _ in range(6)]
    assert found == [False, False, True, False, False, False]
    assert (await states(seed)).count("finished") == 1


async def test_a_one_shot_that_left_no_trace_stays_active_for_the_audit_to_find(
    database: Database, seed: Seed, now: datetime
):
    lost = await seed.schedule(active_from=now - DAY, fire_at=now - HOUR)
    await seed.finished(lost, now - HOUR, version=0, state="cancelled", reason="superseded")
    await round_of(endings(database))
    assert await states(seed) == ["active"]


async def test_a_schedule_somebody_is_changing_is_left_for_later(
    database: Database, seed: Seed, now: datetime, dsn: str
):
    await seed.schedule(active_from=now - DAY, active_until=now - HOUR, cadence_id=1)
    other = await asyncpg.connect(dsn)
    transaction = other.transaction()
    await transaction.start()
    await other.execute("SELECT 1 FROM schedules FOR UPDATE")
    assert await endings(database).finish(SQL["schedule_finish"], 10) == 0
    await transaction.rollback()
    await other.close()
    assert await endings(database).finish(SQL["schedule_finish"], 10) == 1


async def test_pauses_that_have_run_out_are_lifted_and_named_in_the_trail(
    database: Database, seed: Seed, now: datetime
):
    for value, until in (("mail", now - HOUR), ("slow", now + HOUR), ("ever", None)):
        await seed.connection.execute(
            "INSERT INTO pauses (tenant_id, scope, value, actor, paused_until) VALUES (1, 'queue', $1, 'key:k', $2)",
            *(value, until),
        )
    await endings(database).tick()
    left = await seed.connection.fetch("SELECT value FROM pauses ORDER BY value")
    assert [row["value"] for row in left] == ["ever", "slow"]
    entry = await seed.connection.fetchrow("SELECT * FROM audit_trail")
    assert (entry["action"], entry["object_id"], entry["actor_id"]) == ("pause.end", "mail", "n1")
