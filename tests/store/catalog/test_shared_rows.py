"""Cadences, policies and lanes: found or made in batch, once each, without burning identity values."""

import asyncio
from datetime import timedelta

import pytest

from rota.base.model import LaneKey, MisfirePolicy, Overlap, Policy, Priority
from rota.calendar import Timing
from rota.catalog.cadences import ensure_cadences, get_cadences
from rota.catalog.lanes import ensure_lanes, get_lanes
from rota.catalog.policies import ensure_policies, get_policies

CRONS = [Timing.parse({"cron": f"{minute} 9 * * *", "time_zone": "Europe/Paris"}) for minute in range(40)]


async def test_equal_timings_share_a_cadence_and_a_second_asking_adds_nothing(db, connection):
    twin = Timing.parse({"cron": "0 9 * * *", "time_zone": "Europe/Paris"})
    first = await ensure_cadences(db, [*CRONS, twin])
    assert len(first) == 40
    last = max(first.values())
    for _ in range(5):
        assert await ensure_cadences(db, CRONS) == first
    added = await ensure_cadences(db, [Timing.parse({"cron": "0 10 * * *"})])
    assert list(added.values()) == [last + 1]
    assert await connection.fetchval("SELECT count(*) FROM cadences") == 41


async def test_a_cadence_is_stored_with_its_next_fire_and_read_back(db, connection):
    [cadence_id] = (await ensure_cadences(db, CRONS[:1])).values()
    cadence = (await get_cadences(db, [cadence_id]))[cadence_id]
    assert cadence.timing.key() == CRONS[0].key()
    assert cadence.time_zone == "Europe/Paris"
    now = await connection.fetchval("SELECT rota_now()")
    assert cadence.next_fire_at is not None
    assert now - timedelta(seconds=60) < cadence.next_fire_at <= now + timedelta(hours=25)


async def test_many_who_ask_for_the_same_at_once_get_the_same(db, tenant):
    policies = [Policy(window=timedelta(seconds=number)) for number in range(40)]
    keys = [
        LaneKey(tenant_id=tenant.tenant_id, queue=f"q{number}", priority=Priority.NORMAL, target_key="nats")
        for number in range(20)
    ]
    answers = await asyncio.gather(
        *(ensure_cadences(db, CRONS if number % 2 else CRONS[::-1]) for number in range(6)),
        *(ensure_policies(db, policies if number % 2 else policies[::-1]) for number in range(6)),
        *(ensure_lanes(db, keys if number % 2 else keys[::-1]) for number in range(6)),
    )
    assert all(answer == answers[0] for answer in answers[:6])
    assert all(answer == answers[6] for answer in answers[6:12])
    assert all(answer == answers[12] for answer in answers[12:])


async def test_a_policy_is_read_back_as_it_was(db):
    policy = Policy(
        window=timedelta(minutes=5),
        misfire=MisfirePolicy(max_lateness=None, max_catch_up=3),
        overlap=Overlap.QUEUE_ONE,
        priority=Priority.HIGH,
    )
    [policy_id] = (await ensure_policies(db, [policy, policy])).values()
    assert await get_policies(db, [policy_id]) == {policy_id: policy}


async def test_each_lane_has_one_lane_for_its_late_work(db, tenant):
    keys = [
        LaneKey(tenant_id=tenant.tenant_id, queue="default", priority=priority, target_key="nats")
        for priority in (Priority.HIGH, Priority.NORMAL, Priority.LOW)
    ]
    lane_ids = await ensure_lanes(db, keys)
    lanes = await get_lanes(db, lane_ids.values())
    recovery_ids = {lane.recovery_lane_id for lane in lanes.values()}
    assert len(recovery_ids) == 1
    [recovery_id] = recovery_ids
    assert recovery_id is not None
    recovery = (await get_lanes(db, [recovery_id]))[recovery_id]
    assert (recovery.key.priority, recovery.recovery_lane_id) == (Priority.RECOVERY, None)
    assert await ensure_lanes(db, keys) == lane_ids


async def test_lanes_of_other_places_are_other_lanes(db, tenant, stranger):
    usual = {"tenant_id": tenant.tenant_id, "queue": "a", "priority": Priority.NORMAL, "target_key": "handler:x"}
    keys = [
        LaneKey(**(usual | other))
        for other in (
            {}, {"queue": "b"}, {"target_key": "handler:y"}, {"limit_key": "k"}, {"overlap": Overlap.QUEUE_ONE},
            {"tenant_id": stranger.tenant_id},
        )
    ]  # fmt: skip
    assert len(set((await ensure_lanes(db, keys)).values())) == 6


@pytest.mark.parametrize("start", [2_147_483_640, 5_000_000_000])
async def test_ids_beyond_32_bits_are_ordinary_ids(db, tenant, connection, start):
    for table, column in (("cadences", "cadence_id"), ("policies", "policy_id"), ("lanes", "lane_id")):
        await connection.execute(f"ALTER TABLE {table} ALTER COLUMN {column} RESTART WITH {start}")
    cadence_ids = await ensure_cadences(db, CRONS)
    assert max(cadence_ids.values()) == start + 39
    assert await ensure_cadences(db, CRONS) == cadence_ids
    [policy_id] = (await ensure_policies(db, [Policy(window=timedelta(days=1))])).values()
    assert policy_id >= start
    key = LaneKey(tenant_id=tenant.tenant_id, queue="q", priority=Priority.LOW, target_key="nats")
    [lane_id] = (await ensure_lanes(db, [key])).values()
    assert (await get_lanes(db, [lane_id]))[lane_id].recovery_lane_id == start
