"""Expired leases on a real database: nothing but the lease row is needed, and nobody who lost one can still write."""

import asyncio
from datetime import datetime, timedelta

import asyncpg
import pytest

from rota.base.db import Database
from rota.base.model import RetryPolicy, new_schedule_id
from rota.base.telemetry import LeaseExpired, OccurrenceDied, recorded
from rota.sweep.rescue import Rescue, poisoned
from support.keeping import HOUR, Seed, instant

NOON = instant("2026-03-01T12:00:00Z")


def rescuer(database: Database) -> Rescue:
    return Rescue(database, max_losses=10, pick=lambda _low, high: high, tick_s=1.0)


@pytest.fixture
async def seed(connection: asyncpg.Connection) -> Seed:
    made = Seed(connection)
    await made.basics()
    return made


async def test_a_lost_occurrence_goes_back_to_its_lane_as_a_loss_and_not_as_a_failure(database: Database, seed: Seed):
    schedule_id = await seed.schedule(active_from=NOON, fire_at=NOON)
    await seed.leased(schedule_id, NOON, token=4, attempt=3)
    assert await rescuer(database).rescue(100) == 1
    row = await seed.connection.fetchrow("SELECT *, available_at - now() AS wait FROM occurrences")
    assert (row["lease_until"], row["worker"], row["losses"], row["failures"], row["attempt"]) == (None, None, 1, 0, 3)
    assert row["token"] == 5
    assert row["wait"] <= timedelta(seconds=1)
    attempt = await seed.connection.fetchrow("SELECT * FROM attempts")
    assert (attempt["outcome"], attempt["number"], attempt["token"], attempt["worker"]) == ("lost", 3, 4, "w1")
    assert attempt["error_class"] == "lease_expired"


async def test_a_lease_that_is_renewed_is_left_alone_however_long_it_runs(database: Database, seed: Seed):
    schedule_id = await seed.schedule(active_from=NOON, fire_at=NOON)
    await seed.leased(schedule_id, NOON, ago_s=-20, started_at=NOON)
    assert await rescuer(database).rescue(100) == 0


async def test_no_row_of_a_worker_or_node_is_needed(database: Database, seed: Seed):
    await seed.connection.execute("DELETE FROM nodes")
    await seed.leased(new_schedule_id(), NOON)
    assert await rescuer(database).rescue(100) == 1


async def test_a_row_locked_by_a_heartbeat_is_neither_waited_for_nor_taken(database: Database, seed: Seed, dsn: str):
    held, free = [await seed.schedule(active_from=NOON, fire_at=NOON) for _ in range(2)]
    for schedule_id in (held, free):
        await seed.leased(schedule_id, NOON)
    worker = await asyncpg.connect(dsn)
    transaction = worker.transaction()
    await transaction.start()
    await worker.execute("UPDATE occurrences SET lease_until = now() + interval '30 s' WHERE schedule_id = $1", held)
    assert await rescuer(database).rescue(100) == 1
    await transaction.commit()
    await worker.close()
    leased = await seed.connection.fetch("SELECT schedule_id FROM occurrences WHERE lease_until IS NOT NULL")
    assert [row["schedule_id"] for row in leased] == [held]


async def test_the_lost_worker_finds_its_token_overtaken(database: Database, seed: Seed):
    schedule_id = await seed.schedule(active_from=NOON, fire_at=NOON)
    await seed.leased(schedule_id, NOON, token=7)
    await rescuer(database).rescue(100)
    late = "UPDATE occurrences SET lease_until = now() + interval '30 s' WHERE schedule_id = $1 AND token = 7"
    assert await seed.connection.execute(late, schedule_id) == "UPDATE 0"


async def test_eight_keepers_share_many_losses_without_rescuing_any_twice(database: Database, seed: Seed):
    schedule_id = await seed.schedule(active_from=NOON, fire_at=NOON)
    for minute in range(400):
        await seed.leased(schedule_id, NOON + timedelta(minutes=minute), worker=f"w{minute % 7}")
    counts = await asyncio.gather(*(rescue_all(database) for _ in range(8)))
    assert sum(counts) == 400
    rows = await seed.connection.fetch("SELECT losses, count(*) AS n FROM occurrences GROUP BY losses")
    assert [(row["losses"], row["n"]) for row in rows] == [(1, 400)]
    assert await seed.connection.fetchval("SELECT count(*) FROM attempts WHERE lost_with BETWEEN 1 AND 58") == 400


async def rescue_all(database: Database) -> int:
    total = 0
    while n := await rescuer(database).rescue(20):
        total += n
    return total


async def test_a_payload_that_kills_its_process_twice_becomes_a_dead_letter(database: Database, seed: Seed):
    schedule_id = await seed.schedule(active_from=NOON, fire_at=NOON)
    before = poisoned.labels("default", "report")._value.get()
    await seed.leased(schedule_id, NOON)
    await rescuer(database).rescue(100)
    await seed.connection.execute(
        "UPDATE occurrences SET lease_until = now() - interval '1 s', token = token + 1, attempt = 2, worker = 'w2'"
    )
    with recorded() as events:
        await rescuer(database).rescue(100)
    letter = await seed.connection.fetchrow("SELECT * FROM dead_letters")
    assert (letter["reason"], letter["losses"], letter["attempt"], letter["worker"]) == ("poison", 2, 2, "w2")
    assert letter["last_error"] == "worker lost: its process died 2 times in a row while this ran"
    assert await seed.connection.fetchval("SELECT count(*) FROM occurrences") == 0
    assert await seed.connection.fetchval("SELECT count(*) FROM attempts") == 2
    assert poisoned.labels("default", "report")._value.get() == before + 1
    assert [type(event) for event in events] == [LeaseExpired, OccurrenceDied]


async def test_work_that_died_in_the_company_of_others_is_given_another_chance(database: Database, seed: Seed):
    schedules = [await seed.schedule(active_from=NOON, fire_at=NOON) for _ in range(3)]
    for _ in range(2):
        for schedule_id in schedules:
            await seed.connection.execute("DELETE FROM occurrences WHERE schedule_id = $1", schedule_id)
            token = await seed.connection.fetchval("SELECT count(*) FROM attempts WHERE schedule_id = $1", schedule_id)
            await seed.leased(schedule_id, NOON, token=token + 1, losses=token, worker="crowded")
        await rescuer(database).rescue(100)
    assert await seed.connection.fetchval("SELECT count(*) FROM occurrences WHERE losses = 2") == 3


async def test_a_deadline_counts_for_lost_work_too(database: Database, seed: Seed):
    await seed.basics(RetryPolicy(deadline=timedelta(minutes=5)))
    schedule_id = await seed.schedule(active_from=NOON, fire_at=NOON)
    await seed.leased(schedule_id, NOON)
    await rescuer(database).rescue(100)
    assert await seed.connection.fetchval("SELECT reason FROM dead_letters") == "deadline"


async def test_lost_work_whose_cancellation_was_asked_for_ends_cancelled(database: Database, seed: Seed):
    schedule_id = await seed.schedule(active_from=NOON, fire_at=NOON)
    await seed.leased(schedule_id, NOON, cancel_requested_at=NOON)
    await rescuer(database).rescue(100)
    row = await seed.connection.fetchrow("SELECT * FROM finished_occurrences")
    assert (row["state"], row["reason"], row["losses"]) == ("cancelled", "cancel_requested", 1)
    assert await seed.connection.fetchval("SELECT count(*) FROM occurrences") == 0


async def test_lost_work_of_a_paused_schedule_is_held_until_it_is_resumed(database: Database, seed: Seed):
    schedule_id = await seed.schedule(active_from=NOON, fire_at=NOON, state="paused")
    await seed.leased(schedule_id, NOON)
    await rescuer(database).rescue(100)
    held = "SELECT available_at = 'infinity' FROM occurrences"
    assert await seed.connection.fetchval(held)


async def test_a_keeper_that_dies_before_its_write_leaves_everything_to_the_next(
    database: Database, seed: Seed, monkeypatch: pytest.MonkeyPatch
):
    from rota.base import failpoints

    schedule_id = await seed.schedule(active_from=NOON, fire_at=NOON)
    await seed.leased(schedule_id, NOON)
    failpoints.set_failpoints("rescue.before_write=error")
    try:
        with pytest.raises(failpoints.FailpointError):
            await rescuer(database).rescue(100)
    finally:
        failpoints.set_failpoints("")
    assert await seed.connection.fetchval("SELECT losses FROM occurrences") == 0
    assert await rescuer(database).rescue(100) == 1


async def test_a_full_batch_is_followed_by_the_next_at_once(database: Database, seed: Seed):
    schedule_id = await seed.schedule(active_from=NOON, fire_at=NOON)
    moments: list[datetime] = [NOON + n * HOUR for n in range(3)]
    for moment in moments:
        await seed.leased(schedule_id, moment)
    rescue = rescuer(database)
    assert await rescue.tick() == 1.0
    assert await seed.connection.fetchval("SELECT count(*) FROM occurrences WHERE lease_until IS NOT NULL") == 0
