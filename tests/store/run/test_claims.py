"""Claims on a real database: fair, exact, held back where they must be."""

import asyncio
from collections import Counter

from rota.base.model import TenantId
from rota.catalog import limits, pauses
from rota.catalog.limits import ScopeLimit
from rota.catalog.pauses import PauseScope
from support.running import ACTOR, Running

HANDLER = "target:handler:work"


async def test_two_claimers_never_take_the_same_row(running: Running) -> None:
    await running.due(await running.create(300))
    one, two = running.claimer("w1"), running.claimer("w2")
    taken: list[tuple[object, ...]] = []
    while True:
        claims = await asyncio.gather(one.claim(20), two.claim(20))
        rows = [row for claim in claims for row in claim.rows]
        if not rows:
            break
        taken += [(row["schedule_id"], row["scheduled_for"]) for row in rows]
    assert len(taken) == len(set(taken)) == 300


async def test_a_small_tenant_is_served_beside_one_with_a_huge_backlog(running: Running) -> None:
    await running.due(await running.create(400, tenant=1), age_s=100)
    await running.due(await running.create(5, tenant=2), age_s=1)
    rows = (await running.claimer().claim(40)).rows
    assert Counter(row["tenant_id"] for row in rows)[2] == 5


async def test_a_concurrency_limit_by_key_holds_over_all_claimers_and_hides_nobody(running: Running) -> None:
    limited = await running.create(50, limit={"key": "crm", "max_concurrency": 3})
    free = await running.create(50)
    await running.due(limited, age_s=50)
    await running.due(free, age_s=1)
    claims = await asyncio.gather(*(running.claimer(f"w{n}").claim(30) for n in range(4)))
    ids = [row["schedule_id"] for claim in claims for row in claim.rows]
    assert sum(one in set(limited) for one in ids) <= 3
    later = await running.claimer().claim(100)
    ids += [row["schedule_id"] for row in later.rows]
    assert sum(one in set(limited) for one in ids) == 3
    assert sum(one in set(free) for one in ids) == 50


async def test_a_rate_limit_gives_out_its_burst_and_no_more(running: Running) -> None:
    await running.due(await running.create(50))
    async with running.db.transaction() as tx:
        limit = ScopeLimit(scope=HANDLER, max_concurrency=None, rate=0.001, burst=4.0)
        await limits.put_limits(tx, TenantId(1), [limit])
    await running.connection.execute("UPDATE limits SET tokens = 4, refilled_at = now()")
    claimer = running.claimer()
    first, second = await claimer.claim(20), await claimer.claim(20)
    assert (len(first.rows), len(second.rows)) == (4, 0)


async def test_quotas_in_flight_make_a_tenant_wait_and_nobody_else(running: Running) -> None:
    await running.connection.execute("UPDATE tenants SET max_in_flight = 2 WHERE tenant_id = 1")
    await running.due(await running.create(10, tenant=1))
    await running.due(await running.create(10, tenant=2))
    rows = (await running.claimer().claim(100)).rows
    assert Counter(row["tenant_id"] for row in rows) == {1: 2, 2: 10}
    assert not (await running.claimer().claim(100)).rows


async def test_pauses_and_open_breakers_hold_lanes_back(running: Running) -> None:
    await running.due(await running.create(3, tenant=1))
    async with running.db.transaction() as tx:
        await pauses.put_pause(tx, TenantId(1), PauseScope.TARGET, "handler:work", ACTOR, reason="maintenance")
    assert not (await running.claimer().claim(10)).rows
    async with running.db.transaction() as tx:
        await pauses.lift_pause(tx, TenantId(1), PauseScope.TARGET, "handler:work", ACTOR)
    await running.connection.execute(
        "INSERT INTO breakers (tenant_id, target_key, state, open_until) VALUES (1, 'handler:work', 'open', now() + "
        "interval '1 hour')"
    )
    assert not (await running.claimer().claim(10)).rows
    await running.connection.execute("UPDATE breakers SET open_until = now() - interval '1 s'")
    assert len((await running.claimer().claim(10)).rows) == 1  # a probe
    await running.connection.execute("DELETE FROM breakers")
    assert len((await running.claimer().claim(10)).rows) == 2


async def test_schedules_that_skip_run_one_at_a_time_and_say_what_they_skipped(running: Running) -> None:
    ids = await running.create(overlap="skip_if_running")
    await running.due(ids, n=1, age_s=10)
    assert len((await running.claimer().claim(10)).rows) == 1
    await running.due(ids, n=3, age_s=1)
    assert not (await running.claimer().claim(10)).rows
    assert await running.states() == {"running": 1, "skipped_overlap": 3}


async def test_queue_one_keeps_one_waiting_and_skips_the_rest(running: Running) -> None:
    ids = await running.create(overlap="queue_one")
    await running.due(ids, n=1, age_s=10)
    assert len((await running.claimer().claim(10)).rows) == 1
    await running.due(ids, n=3, age_s=1)
    assert not (await running.claimer().claim(10)).rows
    assert await running.states() == {"running": 1, "pending": 1, "skipped_overlap": 2}


async def test_cancel_running_asks_the_running_one_to_stop(running: Running) -> None:
    ids = await running.create(overlap="cancel_running")
    await running.due(ids, age_s=10)
    assert len((await running.claimer().claim(10)).rows) == 1
    await running.due(ids, age_s=1)
    assert not (await running.claimer().claim(10)).rows
    asked = await running.connection.fetchval(
        "SELECT cancel_requested_at FROM occurrences WHERE lease_until IS NOT NULL"
    )
    assert asked is not None
    assert await running.states() == {"running": 1, "pending": 1}


async def test_an_exclusive_schedule_never_runs_twice_whatever_the_race(running: Running) -> None:
    ids = await running.create(20, overlap="queue_one")
    await running.due(ids, n=3)
    for _ in range(5):
        await asyncio.gather(*(running.claimer(f"w{n}").claim(50) for n in range(4)))
        most = await running.connection.fetchval(
            "SELECT max(n) FROM (SELECT count(*) AS n FROM occurrences WHERE lease_until IS NOT NULL "
            "GROUP BY schedule_id) AS c"
        )
        assert most == 1
        await running.connection.execute(
            "DELETE FROM occurrences WHERE lease_until IS NOT NULL AND schedule_id = ANY ($1)", ids[:10]
        )
