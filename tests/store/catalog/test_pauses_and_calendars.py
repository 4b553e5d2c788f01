"""Pauses by scope, day lists and the trail that tells of them."""

from datetime import UTC, datetime

import pytest

from rota.base.errors import NotFound, ValidationFailed
from rota.base.model import Actor
from rota.catalog import audit_trail, calendars, pauses
from rota.catalog.audit_trail import Change
from rota.catalog.pauses import PauseScope

from .conftest import ACTOR

KEEPER = Actor(kind="keeper", id="keeper", node="node-1")


async def test_a_pause_holds_until_it_is_lifted_and_both_are_told(db, tenant, stranger):
    await pauses.put_pause(db, tenant.tenant_id, PauseScope.QUEUE, "mail", ACTOR, reason="full")
    await pauses.put_pause(db, tenant.tenant_id, PauseScope.QUEUE, "mail", ACTOR, reason="still full")
    [pause] = await pauses.list_pauses(db, tenant.tenant_id)
    assert (pause.scope, pause.value, pause.reason, pause.actor) == (PauseScope.QUEUE, "mail", "still full", "key:k1")
    assert await pauses.list_pauses(db, stranger.tenant_id) == []
    with pytest.raises(NotFound):
        await pauses.lift_pause(db, stranger.tenant_id, PauseScope.QUEUE, "mail", ACTOR)
    await pauses.lift_pause(db, tenant.tenant_id, PauseScope.QUEUE, "mail", ACTOR, reason="empty again")
    assert await pauses.list_pauses(db, tenant.tenant_id) == []
    entries = await audit_trail.list_entries(db, tenant.tenant_id, object_id="mail")
    assert [(entry.action, entry.reason) for entry in entries] == [
        ("pause.lift", "empty again"), ("pause.set", "still full"), ("pause.set", "full"),
    ]  # fmt: skip


async def test_a_pause_whose_end_has_come_holds_no_more_and_the_keeper_says_so(db, tenant):
    await pauses.put_pause(db, tenant.tenant_id, PauseScope.TENANT, "", ACTOR, until=datetime(2020, 1, 1, tzinfo=UTC))
    await pauses.put_pause(
        db, tenant.tenant_id, PauseScope.TARGET, "nats", ACTOR, until=datetime(2999, 1, 1, tzinfo=UTC)
    )
    assert [pause.value for pause in await pauses.list_pauses(db, tenant.tenant_id)] == ["nats"]
    assert [pause.scope for pause in await pauses.expire_pauses(db, KEEPER)] == [PauseScope.TENANT]
    assert await pauses.expire_pauses(db, KEEPER) == []
    [entry] = await audit_trail.list_entries(db, tenant.tenant_id, action="pause.end")
    assert (entry.actor_kind, entry.reason, entry.object_id) == ("keeper", "its end has come", "tenant")


async def test_a_calendar_keeps_its_days_in_order_and_counts_its_versions(db, tenant):
    days = ["2026-12-26", {"from": "2026-12-24", "to": "2027-01-02"}, "2026-01-01", "2026-12-26"]
    made = await calendars.put_calendar(db, tenant.tenant_id, "de", days, ACTOR)
    assert made.days == ["2026-01-01", {"from": "2026-12-24", "to": "2027-01-02"}, "2026-12-26"]
    again = await calendars.put_calendar(db, tenant.tenant_id, "de", [], ACTOR)
    assert (made.version, again.version, again.days) == (1, 2, [])
    assert await calendars.get_calendar(db, tenant.tenant_id, "de") == again
    assert [one.name for one in await calendars.list_calendars(db, tenant.tenant_id)] == ["de"]
    await calendars.delete_calendar(db, tenant.tenant_id, "de", ACTOR)
    with pytest.raises(NotFound):
        await calendars.get_calendar(db, tenant.tenant_id, "de")
    entries = await audit_trail.list_entries(db, tenant.tenant_id, object_id="de")
    assert [entry.action for entry in entries] == ["calendar.delete", "calendar.set", "calendar.set"]


@pytest.mark.parametrize(
    ("days", "field"),
    [
        ("2026-12-25", "days"),
        (["2026-02-30"], "days[0]"),
        (["2026-12-25", 5], "days[1]"),
        ([{"from": "2026-12-26", "to": "2026-12-25"}], "days[0].to"),
        ([{"from": "2026-12-26"}], "days[0].to"),
        ([{"from": "2026-12-26", "to": "2026-12-26", "x": 1}], "days[0].x"),
    ],
)
async def test_days_that_are_none_are_refused_by_their_place(db, tenant, days, field):
    with pytest.raises(ValidationFailed) as refused:
        await calendars.put_calendar(db, tenant.tenant_id, "de", days, ACTOR)
    assert field in {error.field for error in refused.value.errors}


async def test_the_trail_is_read_newest_first_by_object_and_actor_of_one_tenant(db, tenant, stranger):
    changes = [
        Change(tenant_id=tenant.tenant_id, action="schedule.pause", object_kind="schedule", object_id=f"s{number % 2}",
               after={"n": number, "odd": "a\0b\ud800"})
        for number in range(6)
    ]  # fmt: skip
    await audit_trail.record_many(db, Actor(kind="breaker", id="b1", reason="5 failures in a row"), changes)
    seen = await audit_trail.list_entries(db, tenant.tenant_id, object_id="s1", limit=2)
    assert [entry.after["n"] for entry in seen] == [5, 3]
    more = await audit_trail.list_entries(db, tenant.tenant_id, object_id="s1", before_id=seen[-1].audit_id)
    assert [entry.after["n"] for entry in more] == [1]
    by_actor = await audit_trail.list_entries(db, tenant.tenant_id, actor_id="b1")
    assert [entry.after["n"] for entry in by_actor] == [5, 4, 3, 2, 1, 0]
    assert {entry.reason for entry in by_actor} == {"5 failures in a row"}
    assert await audit_trail.list_entries(db, stranger.tenant_id, object_id="s1") == []
