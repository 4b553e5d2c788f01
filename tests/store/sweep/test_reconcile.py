"""The audit on a real database: it finds the row deleted by hand and the row added by hand, and nothing else."""

from datetime import datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from rota.base.clock import SystemClock
from rota.base.db import Database
from rota.base.model import RunKey, new_schedule_id
from rota.sweep.fires import Window
from rota.sweep.partitions import start_of
from rota.sweep.reconcile import Auditor, Bounds, Chosen, audit_cell
from rota.sweep.report import Report
from support.keeping import HOUR, Seed, instant

START = instant("2026-03-01T12:00:00Z")
MINUTE = timedelta(minutes=1)
HOURS = Window(from_at=START, until_at=START + 24 * HOUR)
HOURLY = {"cron": "0 * * * *", "time_zone": "UTC"}


@pytest.fixture
async def seed(connection: asyncpg.Connection) -> Seed:
    made = Seed(connection)
    await made.basics()
    await made.planned_through(START + 48 * HOUR)
    return made


async def hourly(seed: Seed, n: int = 1) -> list[UUID]:
    """Schedules at each full hour that ran for a day, but for nothing."""
    cadence_id = await seed.cadence(HOURLY)
    made = [await seed.schedule(active_from=START - HOUR, cadence_id=cadence_id) for _ in range(n)]
    for schedule_id in made:
        for hour in range(24):
            await seed.finished(schedule_id, START + hour * HOUR)
    return made


async def audit(
    database: Database, window: Window = HOURS, *, tenant_id: int | None = None, bounds: Bounds | None = None
) -> Report:
    return await Auditor(database, SystemClock(), bounds=bounds).audit(window, tenant_id)


def told(report: Report) -> dict[str, int]:
    return {str(verdict): n for verdict, n in report.counts.items() if n}


async def test_a_day_that_ran_as_it_should_is_complete(database: Database, seed: Seed):
    await hourly(seed, 3)
    report = await audit(database)
    assert told(report) == {"succeeded": 72}
    assert (report.is_complete, report.n_schedules) == (True, 3)


async def test_a_row_deleted_by_hand_is_absent(database: Database, seed: Seed):
    _, victim = await hourly(seed, 2)
    await seed.connection.execute(
        "DELETE FROM finished_occurrences WHERE schedule_id = $1 AND scheduled_for = $2", victim, START + 5 * HOUR
    )
    report = await audit(database)
    assert told(report) == {"succeeded": 47, "absent": 1}
    assert report.document()["absent"] == [
        {"run_key": f"{victim}.1.20260301T170000Z", "why": "no row and no missed range"}
    ]


@pytest.mark.parametrize("tenant_id", [None, 1])
async def test_rows_added_by_hand_are_extra(database: Database, seed: Seed, tenant_id: int | None):
    (schedule_id,) = await hourly(seed)
    stranger = new_schedule_id()
    await seed.finished(schedule_id, START + HOUR + MINUTE)
    await seed.pending(schedule_id, START + 2 * HOUR, version=2)
    await seed.finished(stranger, START + HOUR)
    report = await audit(database, tenant_id=tenant_id)
    assert told(report) == {"succeeded": 24, "extra": 3}
    assert set(report.run_keys()[1]) == {
        str(RunKey(schedule_id, 1, START + HOUR + MINUTE)),
        str(RunKey(schedule_id, 2, START + 2 * HOUR)),
        str(RunKey(stranger, 1, START + HOUR)),
    }


async def test_another_tenants_rows_are_not_part_of_a_tenants_audit(database: Database, seed: Seed):
    await hourly(seed)
    assert told(await audit(database, tenant_id=2)) == {}


async def test_what_waits_runs_or_is_dead_is_told_apart(database: Database, seed: Seed):
    now: datetime = await seed.connection.fetchval("SELECT now()")
    await seed.planned_through(now + HOUR)
    cadence_id = await seed.cadence({"every": "1m", "anchor": "2026-01-01T00:00:00Z"})
    schedule_id = await seed.schedule(active_from=now - 5 * MINUTE, cadence_id=cadence_id)
    first = now.replace(second=0, microsecond=0) - 4 * MINUTE
    await seed.leased(schedule_id, first, ago_s=-30)
    await seed.pending(schedule_id, first + MINUTE, failures=1, available_at=now + HOUR)
    await seed.pending(schedule_id, first + 2 * MINUTE)
    await seed.connection.execute(
        "INSERT INTO dead_letters (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, planned_at, "
        "trigger, attempt, failures, losses, token, died_at, reason) "
        "VALUES ($1, $2, $3, 1, 1, 1, $3, 'timing', 5, 5, 0, 5, $3, 'rejected')",
        *(schedule_id.int & 255, schedule_id, first + 3 * MINUTE),
    )
    await seed.pending(schedule_id, first + 6 * MINUTE)
    report = await audit(database, Window(from_at=first, until_at=first + 7 * MINUTE))
    assert told(report) == {"running": 1, "retry_wait": 1, "enqueued": 1, "dead": 1, "scheduled": 1, "absent": 2}


async def test_missed_ranges_explain_their_slots(database: Database, seed: Seed):
    (schedule_id,) = await hourly(seed)
    await seed.connection.execute("DELETE FROM finished_occurrences WHERE scheduled_for < $1", START + 10 * HOUR)
    await seed.connection.execute(
        "INSERT INTO missed_ranges (shard, schedule_id, version, first_at, last_at, n_missed, tenant_id, reason, "
        "recorded_at) VALUES ($1, $2, 1, $3, $4, 9, 1, 'misfire_skip', $4)",
        *(schedule_id.int & 255, schedule_id, START, START + 8 * HOUR),
    )
    assert told(await audit(database)) == {"succeeded": 14, "missed": 9, "absent": 1}


async def test_slots_are_judged_up_to_the_cursor_of_their_own_shard(database: Database, seed: Seed):
    (schedule_id,) = await hourly(seed)
    await seed.connection.execute("DELETE FROM finished_occurrences WHERE scheduled_for >= $1", START + 20 * HOUR)
    assert told(await audit(database)) == {"succeeded": 20, "absent": 4}
    await seed.connection.execute(
        "UPDATE shards SET planned_through = $1 WHERE shard = $2", START + 21 * HOUR, schedule_id.int & 255
    )
    assert told(await audit(database)) == {"succeeded": 20, "absent": 2}


async def test_one_shots_are_expected_once(database: Database, seed: Seed):
    ran = await seed.schedule(active_from=START - HOUR, fire_at=START + HOUR)
    await seed.finished(ran, START + HOUR)
    lost = await seed.schedule(active_from=START - HOUR, fire_at=START + 2 * HOUR)
    report = await audit(database)
    assert told(report) == {"succeeded": 1, "absent": 1}
    assert report.run_keys()[0] == (str(RunKey(lost, 1, START + 2 * HOUR)),)


async def test_a_change_is_judged_by_both_versions(database: Database, seed: Seed):
    (schedule_id,) = await hourly(seed)
    half_past = await seed.cadence({"cron": "30 * * * *", "time_zone": "UTC"})
    change = START + 12 * HOUR + 10 * MINUTE
    await seed.version(schedule_id, version=2, active_from=change, activated_at=change, cadence_id=half_past)
    await seed.connection.execute("DELETE FROM finished_occurrences WHERE scheduled_for > $1", change)
    await seed.finished(schedule_id, START + 13 * HOUR, state="cancelled", reason="superseded", started_at=None)
    for hour in range(12, 24):
        await seed.finished(schedule_id, START + hour * HOUR + 30 * MINUTE, version=2)
    assert told(await audit(database)) == {"succeeded": 25, "cancelled": 1}


async def test_a_rule_that_cannot_be_computed_is_named_and_does_not_end_the_audit(database: Database, seed: Seed):
    await hourly(seed)
    broken = await seed.connection.fetchval(
        "INSERT INTO cadences (digest, timing, tzdata_version) VALUES ('x', $1, '') RETURNING cadence_id",
        '{"cron": "boom"}',
    )
    await seed.schedule(active_from=START, cadence_id=broken)
    report = await audit(database)
    assert told(report) == {"succeeded": 24}
    assert report.document()["set_aside_cadences"] == 1


@pytest.mark.parametrize("bounds", [Bounds(n_versions=2), Bounds(n_keys=5), Bounds(n_versions=1, n_keys=1)])
async def test_small_stretches_and_windows_find_the_same(database: Database, seed: Seed, bounds: Bounds):
    made = await hourly(seed, 5)
    await seed.connection.execute("DELETE FROM finished_occurrences WHERE scheduled_for = $1", START + 7 * HOUR)
    await seed.finished(made[2], START + 7 * HOUR + MINUTE)
    await seed.finished(new_schedule_id(), START + 3 * HOUR)
    report = await audit(database, bounds=bounds)
    assert told(report) == {"succeeded": 115, "absent": 5, "extra": 2}
    assert report.n_schedules == 5


async def test_named_keys_are_bounded_and_counts_are_not(database: Database, seed: Seed):
    await hourly(seed, 2)
    await seed.connection.execute("TRUNCATE finished_occurrences")
    report = await audit(database, bounds=Bounds(n_named=3))
    assert (report.n_absent, len(report.absent)) == (48, 3)


async def test_chosen_schedules_are_audited_alone(database: Database, seed: Seed):
    first, second = await hourly(seed, 2)
    await seed.connection.execute("DELETE FROM finished_occurrences WHERE schedule_id = $1", second)
    auditor = Auditor(database, SystemClock())
    report = auditor.new_report(HOURS)
    await auditor.judge(Chosen(schedule_ids=[first]), report)
    assert told(report) == {"succeeded": 24}


async def test_progress_is_told_after_each_stretch(database: Database, seed: Seed):
    await hourly(seed, 4)
    seen: list[int] = []
    auditor = Auditor(
        database, SystemClock(), bounds=Bounds(n_versions=2), on_progress=lambda report: seen.append(report.n_keys)
    )
    await auditor.audit(HOURS)
    assert seen == [48, 96, 96]


async def test_a_row_that_finishes_while_the_audit_reads_is_seen_exactly_once(database: Database, seed: Seed, dsn: str):
    """Each stretch is one snapshot, so rows moving from pending to history never show twice or not at all."""
    import asyncio

    cadence_id = await seed.cadence({"every": "1m", "anchor": "2026-03-01T00:00:00Z"})
    schedule_id = await seed.schedule(active_from=START - MINUTE, cadence_id=cadence_id)
    for minute in range(240):
        await seed.pending(schedule_id, START + minute * MINUTE)
    mover = await asyncpg.connect(dsn)

    async def move() -> None:
        for minute in range(240):
            await mover.execute(
                "WITH d AS (DELETE FROM occurrences WHERE schedule_id = $1 AND scheduled_for = $2 RETURNING *) "
                "INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, tenant_id, state, "
                "trigger, finished_at) "
                "SELECT shard, schedule_id, scheduled_for, version, 1, 'succeeded', trigger, now() FROM d",
                *(schedule_id, START + minute * MINUTE),
            )

    moving = asyncio.create_task(move())
    window = Window(from_at=START, until_at=START + 240 * MINUTE)
    n_audits = 0
    while not moving.done():
        report = await audit(database, window)
        assert (report.is_complete, report.n_expected) == (True, 240)
        n_audits += 1
    await moving
    await mover.close()
    assert n_audits > 1


async def test_what_retention_may_have_dropped_is_not_judged(database: Database, seed: Seed):
    now: datetime = await seed.connection.fetchval("SELECT now()")
    cadence_id = await seed.cadence(HOURLY)
    await seed.schedule(active_from=now - 90 * 24 * HOUR, cadence_id=cadence_id)
    await seed.planned_through(now)
    day = start_of(now.date())
    report = await audit_cell(
        database, SystemClock(), from_at=now - 90 * 24 * HOUR, until_at=day - 29 * 24 * HOUR, retention_days=30
    )
    assert report.window.from_at == day - 30 * 24 * HOUR
    assert report.n_absent == 24


async def test_a_window_of_which_nothing_is_kept_is_refused(database: Database, seed: Seed):
    with pytest.raises(ValueError, match="nothing to audit: the window ends at 2020-01-02"):
        await audit_cell(
            database,
            SystemClock(),
            from_at=instant("2020-01-01T00:00:00Z"),
            until_at=instant("2020-01-02T00:00:00Z"),
            retention_days=30,
        )
