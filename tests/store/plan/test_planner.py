"""Planning on PostgreSQL: windows, cursors, what is late, what is broken, who may write."""

import asyncpg
import pytest

from rota.base.failpoints import FailpointError, set_failpoints
from rota.base.telemetry import CadenceSetAside, recorded
from support.planning import Cell, instant

MINUTELY = {"cron": "* * * * *", "time_zone": "UTC"}


@pytest.fixture
def failpoints():
    yield set_failpoints
    set_failpoints("")


async def test_a_window_is_planned_up_to_the_horizon_and_not_again(cell: Cell):
    schedule = await cell.create(timing=MINUTELY)
    await cell.plan()
    assert await cell.fires(schedule) == [f"2026-06-01T12:0{m}:00Z" for m in (1, 2, 3, 4, 5)]
    await cell.plan()
    await cell.after(60)
    await cell.plan()
    assert await cell.fires(schedule) == [f"2026-06-01T12:0{m}:00Z" for m in (1, 2, 3, 4, 5, 6)]
    cursors = await cell.connection.fetch("SELECT DISTINCT planned_through FROM shards")
    assert [row[0] for row in cursors] == [instant("2026-06-01T12:06:00Z")]


async def test_rows_carry_what_the_claim_needs(cell: Cell):
    schedule = await cell.create(
        timing={"cron": "2 12 * * *", "time_zone": "UTC"}, overlap="queue_one", misfire={"max_lateness": "10m"}
    )
    await cell.plan()
    (row,) = await cell.pending(schedule)
    assert (row["version"], row["tenant_id"], row["lane_id"]) == (1, 1, schedule.lane_id)
    assert (row["trigger"], row["is_exclusive"], row["attempt"], row["lease_until"]) == ("timing", True, 0, None)
    assert row["available_at"] == instant("2026-06-01T12:02:00Z")
    assert row["planned_at"] == instant("2026-06-01T12:00:00Z")
    assert row["expires_at"] == instant("2026-06-01T12:12:00Z")


async def test_a_flexible_window_moves_the_start_and_not_the_nominal_time(cell: Cell):
    schedules = [await cell.create(f"s{n}", timing=MINUTELY, window="50s") for n in range(8)]
    await cell.plan()
    offsets = set()
    for schedule in schedules:
        for row in await cell.pending(schedule):
            offset = (row["available_at"] - row["scheduled_for"]).total_seconds()
            assert 0 <= offset < 50
            offsets.add(offset)
    assert len(offsets) > 30


async def test_starts_at_ends_at_and_max_runs_are_held_to(cell: Cell):
    until = await cell.create(
        "bounded", timing=MINUTELY, starts_at="2026-06-01T12:02:00Z", ends_at="2026-06-01T12:04:00Z"
    )
    twice = await cell.create("twice", timing=MINUTELY, max_runs=2)
    await cell.plan()
    assert await cell.fires(until) == [f"2026-06-01T12:0{m}:00Z" for m in (2, 3, 4)]
    assert await cell.fires(twice) == [f"2026-06-01T12:0{m}:00Z" for m in (1, 2)]
    await cell.after(600)
    await cell.plan()
    assert await cell.fires(twice) == [f"2026-06-01T12:0{m}:00Z" for m in (1, 2)]
    assert await cell.missed(twice) == []


async def test_one_shots_and_intervals_are_planned_with_the_rest(cell: Cell):
    once = await cell.create("once", timing={"at": "2026-06-01T12:03:07Z"})
    far = await cell.create("far", timing={"at": "2026-06-01T14:00:00Z"})
    every = await cell.create("every", timing={"every": "90s", "anchor": "2026-01-01T00:00:00Z"})
    await cell.plan()
    assert await cell.fires(once) == ["2026-06-01T12:03:07Z"]
    assert await cell.fires(far) == []
    assert await cell.fires(every) == ["2026-06-01T12:01:30Z", "2026-06-01T12:03:00Z", "2026-06-01T12:04:30Z"]
    await cell.after(7000)
    await cell.plan()
    assert await cell.fires(far) == ["2026-06-01T14:00:00Z"]


async def test_a_horizon_beyond_one_window_is_planned_piece_by_piece(cell: Cell):
    schedule = await cell.create(timing={"cron": "*/15 * * * *", "time_zone": "UTC"})
    await cell.coordinator.renew()
    await cell.new_planner(cell.coordinator, horizon_s=7200).tick()
    assert len(await cell.fires(schedule)) == 8


async def test_what_is_a_little_late_is_planned_as_if_in_time(cell: Cell):
    schedule = await cell.create(timing=MINUTELY, misfire={"policy": "skip"})
    await cell.at("2026-06-01T12:01:01.776Z")
    await cell.plan()
    first = (await cell.pending(schedule))[0]
    assert first["scheduled_for"] == instant("2026-06-01T12:01:00Z")
    assert (first["trigger"], first["available_at"]) == ("timing", instant("2026-06-01T12:01:01.776Z"))
    assert await cell.missed(schedule) == []


async def test_an_outage_is_decided_by_each_policy(cell: Cell):
    policies = {
        "skip": {"policy": "skip", "max_lateness": None},
        "once": {"policy": "fire_once", "max_lateness": None},
        "three": {"policy": "catch_up", "max_lateness": None, "max_catch_up": 3},
        "young": {"policy": "catch_up", "max_lateness": "10m", "max_catch_up": 100},
    }
    made = {name: await cell.create(name, timing=MINUTELY, misfire=policy) for name, policy in policies.items()}
    await cell.at("2026-06-01T13:00:30Z")
    await cell.plan()
    late = {name: [f for f in await cell.fires(made[name]) if f <= "2026-06-01T13:00:30Z"] for name in made}
    assert late["skip"] == []
    assert late["once"] == ["2026-06-01T13:00:00Z"]
    assert late["three"] == [f"2026-06-01T12:0{m}:00Z" for m in (1, 2, 3)]
    assert late["young"] == [f"2026-06-01T12:{m}:00Z" for m in range(51, 60)] + ["2026-06-01T13:00:00Z"]
    assert await cell.missed(made["skip"]) == [("2026-06-01T12:01:00Z", "2026-06-01T13:00:00Z", 60, "misfire_skip")]
    assert await cell.missed(made["once"]) == [("2026-06-01T12:01:00Z", "2026-06-01T12:59:00Z", 59, "fire_once")]
    assert await cell.missed(made["three"]) == [("2026-06-01T12:04:00Z", "2026-06-01T13:00:00Z", 57, "catch_up_limit")]
    assert await cell.missed(made["young"]) == [("2026-06-01T12:01:00Z", "2026-06-01T12:50:00Z", 50, "too_late")]
    for schedule in made.values():
        assert (await cell.fires(schedule))[-1] == "2026-06-01T13:05:00Z"
    caught = (await cell.pending(made["once"]))[0]
    assert (caught["trigger"], caught["priority"]) == ("catch_up", 3)
    assert caught["available_at"] == instant("2026-06-01T13:00:30Z")


async def test_a_schedule_made_during_an_outage_is_late_for_its_own_part_only(cell: Cell):
    await cell.at("2026-06-01T12:30:10Z")
    young = await cell.create("young", timing=MINUTELY, misfire={"policy": "skip"})
    ending = await cell.create("ending", timing=MINUTELY, misfire={"policy": "skip"}, ends_at="2026-06-01T12:40:00Z")
    await cell.at("2026-06-01T13:00:30Z")
    await cell.plan()
    assert await cell.missed(young) == [("2026-06-01T12:31:00Z", "2026-06-01T13:00:00Z", 30, "misfire_skip")]
    assert await cell.missed(ending) == [("2026-06-01T12:31:00Z", "2026-06-01T12:40:00Z", 10, "misfire_skip")]
    assert await cell.fires(ending) == []


async def test_a_late_one_shot_runs_or_is_recorded(cell: Cell):
    runs = await cell.create("runs", timing={"at": "2026-06-01T12:10:00Z"})
    skipped = await cell.create("skipped", timing={"at": "2026-06-01T12:10:00Z"}, misfire={"policy": "skip"})
    old = await cell.create("old", timing={"at": "2026-06-01T12:10:00Z"}, misfire={"max_lateness": "5m"})
    await cell.at("2026-06-01T12:30:00Z")
    await cell.plan()
    assert await cell.fires(runs) == ["2026-06-01T12:10:00Z"]
    assert (await cell.fires(skipped), await cell.fires(old)) == ([], [])
    assert await cell.missed(skipped) == [("2026-06-01T12:10:00Z", "2026-06-01T12:10:00Z", 1, "misfire_skip")]
    assert await cell.missed(old) == [("2026-06-01T12:10:00Z", "2026-06-01T12:10:00Z", 1, "too_late")]


async def test_two_years_of_outage_leave_one_range(cell: Cell):
    schedule = await cell.create(timing={"every": "5s", "anchor": "2026-01-01T00:00:00Z"}, misfire={"policy": "skip"})
    await cell.at("2028-06-01T12:00:02Z")
    await cell.plan()
    ((first, last, count, reason),) = await cell.missed(schedule)
    assert (first, last, reason) == ("2026-06-01T12:00:05Z", "2028-06-01T11:59:55Z", "misfire_skip")
    assert count == 731 * 86_400 // 5 - 1
    assert (await cell.fires(schedule))[:2] == ["2028-06-01T12:00:00Z", "2028-06-01T12:00:05Z"]


async def test_a_broken_cadence_is_set_aside_and_the_shard_goes_on(cell: Cell):
    good = await cell.create("good", timing={"cron": "*/2 * * * *", "time_zone": "America/New_York"})
    bad = await cell.create("bad", timing={"cron": "*/3 * * * *", "time_zone": "America/New_York"})
    await cell.connection.execute(
        "UPDATE cadences SET timing = jsonb_set(timing, '{time_zone}', '\"America/New_Yrok\"') WHERE cadence_id = $1",
        bad.cadence_id,
    )
    with recorded() as events:
        await cell.plan()
    assert await cell.fires(good) == ["2026-06-01T12:02:00Z", "2026-06-01T12:04:00Z"]
    assert await cell.fires(bad) == []
    assert [event.cadence_id for event in events if isinstance(event, CadenceSetAside)] == [bad.cadence_id]
    shown = (await cell.read(bad)).document()
    assert "America/New_Yrok" in str(shown["set_aside"])
    await cell.after(120)
    await cell.plan()
    assert "2026-06-01T12:06:00Z" in await cell.fires(good)


async def test_a_planner_whose_shard_was_taken_writes_nothing(cell: Cell):
    schedule = await cell.create(timing=MINUTELY)
    await cell.coordinator.renew()
    await cell.connection.execute("UPDATE shards SET owner = 'other', generation = generation + 1")
    await cell.planner.tick()
    assert await cell.fires(schedule) == []
    assert await cell.connection.fetchval("SELECT max(planned_through) FROM shards") == instant("2026-06-01T12:00:00Z")


async def test_a_shard_taken_in_the_middle_of_a_window_takes_the_rows_back(cell: Cell, monkeypatch):
    schedule = await cell.create(timing=MINUTELY)
    await cell.coordinator.renew()
    insert = cell.planner._insert

    async def robbed(tx, shards, window):
        n = await insert(tx, shards, window)
        await cell.connection.execute("UPDATE shards SET owner = 'other', generation = generation + 1")
        return n

    monkeypatch.setattr(cell.planner, "_insert", robbed)
    await cell.planner.tick()
    assert await cell.fires(schedule) == []
    assert await cell.connection.fetchval("SELECT max(planned_through) FROM shards") == instant("2026-06-01T12:00:00Z")


async def test_a_region_that_is_no_longer_in_charge_plans_nothing(cell: Cell):
    schedule = await cell.create(timing=MINUTELY)
    await cell.coordinator.renew()
    await cell.connection.execute("UPDATE regions SET region = 'west', generation = generation + 1")
    await cell.planner.tick()
    assert await cell.fires(schedule) == []
    await cell.coordinator.renew()
    assert dict(cell.coordinator.held()) == {}


@pytest.mark.parametrize("point", ["plan.after_due_read", "plan.before_insert", "plan.before_commit"])
async def test_a_window_that_fails_before_commit_is_planned_whole_by_the_next(cell: Cell, failpoints, point: str):
    schedule = await cell.create(timing=MINUTELY)
    failpoints(f"{point}=error:1")
    with pytest.raises(FailpointError):
        await cell.plan()
    assert await cell.fires(schedule) == []
    await cell.plan()
    assert len(await cell.fires(schedule)) == 5


async def test_a_window_whose_commit_was_not_noticed_is_not_planned_twice(cell: Cell, failpoints):
    schedule = await cell.create(timing=MINUTELY)
    failpoints("plan.after_commit=error:3")
    with pytest.raises(FailpointError):
        await cell.plan()
    await cell.plan()
    assert len(await cell.fires(schedule)) == 5


async def test_a_shard_that_an_edit_holds_is_left_for_the_next_tick(cell: Cell, connection: asyncpg.Connection):
    schedule = await cell.create(timing=MINUTELY)
    shard = schedule.shard
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock_shared(7411, $1)", shard)
        await cell.plan()
        assert await cell.fires(schedule) == []
        behind = await connection.fetch(
            "SELECT shard FROM shards WHERE planned_through = $1", instant("2026-06-01T12:00:00Z")
        )
        assert [row["shard"] for row in behind] == [shard]
    await cell.plan()
    assert len(await cell.fires(schedule)) == 5


async def test_the_lower_bound_of_a_cadence_never_passes_a_lagging_shard(cell: Cell):
    schedule = await cell.create(timing={"cron": "3 12 * * *", "time_zone": "UTC"})
    await cell.connection.execute(
        "UPDATE shards SET planned_through = $1 WHERE shard = $2", instant("2026-06-01T12:00:00Z"), schedule.shard
    )
    await cell.coordinator.renew()
    await cell.connection.execute(
        "UPDATE shards SET generation = generation + 1, owner = 'x' WHERE shard = $1", schedule.shard
    )
    await cell.planner.tick()
    bound = await cell.connection.fetchval(
        "SELECT next_fire_at FROM cadences WHERE cadence_id = $1", schedule.cadence_id
    )
    assert bound == instant("2026-06-01T12:03:00Z")
    await cell.connection.execute("UPDATE shards SET owner = NULL WHERE shard = $1", schedule.shard)
    await cell.plan()
    assert await cell.fires(schedule) == ["2026-06-01T12:03:00Z"]
    bound = await cell.connection.fetchval(
        "SELECT next_fire_at FROM cadences WHERE cadence_id = $1", schedule.cadence_id
    )
    assert bound == instant("2026-06-02T12:03:00Z")
