"""Schedules as stored: versions, states, counts, labels, pages; and that nobody reaches what is another's."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from rota.base.db import Database
from rota.base.errors import Conflict, NotFound, QuotaExceeded, ValidationFailed
from rota.base.model import Actor, ScheduleId, ScheduleState, TenantId, new_schedule_id
from rota.catalog import audit_trail, schedules
from rota.catalog.audit_trail import actor_text, creation
from rota.catalog.calendars import delete_calendar, put_calendar
from rota.catalog.definition import Definition
from rota.catalog.places import place_many, share_many
from rota.catalog.schedules import NewSchedule, Replacement, Schedule, StateChange
from rota.catalog.tenants import Tenant, count_schedules, reserve_schedules, set_tenant

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ACTOR = Actor(kind="key", id="k1")


async def build(db: Database, tenant: Tenant, documents: list[dict[str, Any]]) -> list[NewSchedule]:
    definitions = [Definition.parse(document) for document in documents]
    shared = await share_many(db, tenant.tenant_id, definitions)
    return [
        NewSchedule(schedule_id=new_schedule_id(), definition=definition, place=place)
        for definition, place in zip(definitions, place_many(definitions, shared, NOW), strict=True)
        if not isinstance(place, ValidationFailed)
    ]


async def add(db: Database, tenant: Tenant, *documents: dict[str, Any]) -> list[ScheduleId]:
    new = await build(db, tenant, list(documents))
    async with db.transaction() as tx:
        assert len(await schedules.insert_many(tx, tenant.tenant_id, new, actor="key:k1")) == len(documents)
    return [one.schedule_id for one in new]


async def read(db: Database, tenant: Tenant, schedule_id: UUID) -> Schedule:
    return await schedules.get_schedule(db, tenant.tenant_id, schedule_id)


async def change(
    db: Database, tenant_id: TenantId | None, schedule: Schedule, state: ScheduleState, **more: Any
) -> dict[UUID, int]:
    wanted = StateChange(
        schedule_id=schedule.schedule_id,
        expected_version=schedule.version,
        active_from=schedule.active_from,
        active_until=schedule.active_until,
    )
    async with db.transaction() as tx:
        return await schedules.change_state(tx, tenant_id, [wanted], state, actor="key:k1", **more)


async def replace(db: Database, tenant: Tenant, schedule: Schedule, patch: dict[str, Any]) -> dict[UUID, int]:
    definition = schedule.definition().patched(patch)
    [place] = place_many([definition], await share_many(db, tenant.tenant_id, [definition]), NOW)
    assert not isinstance(place, ValidationFailed)
    wanted = Replacement(
        schedule_id=schedule.schedule_id,
        expected_version=schedule.version,
        state=schedule.state,
        definition=definition,
        place=place,
    )
    async with db.transaction() as tx:
        return await schedules.replace_many(tx, tenant.tenant_id, [wanted], actor="key:k1", reason="asked")


async def test_a_schedule_is_read_back_as_it_was_written_with_secrets_masked(db, tenant, document):
    [schedule_id] = await add(db, tenant, document | {"labels": {"team": "billing"}, "group": "reports"})
    stored = await read(db, tenant, schedule_id)
    assert stored.definition() == Definition.parse(document | {"labels": {"team": "billing"}, "group": "reports"})
    assert (stored.version, stored.state, stored.shard) == (1, ScheduleState.ACTIVE, schedule_id.bytes[15])
    shown = stored.document()
    assert shown["id"] == str(schedule_id)
    assert shown["target"]["http"]["headers"] == {"Authorization": "***"}  # type: ignore[index]
    assert shown["payload"] == {"customer": 123}
    assert "s3cret" not in str(shown)


async def test_another_tenants_schedule_is_not_found_by_any_door(db, tenant, stranger, document):
    [schedule_id] = await add(db, tenant, document)
    stored = await read(db, tenant, schedule_id)
    with pytest.raises(NotFound):
        await read(db, stranger, schedule_id)
    assert await change(db, stranger.tenant_id, stored, ScheduleState.CANCELLED) == {}
    assert await replace(db, stranger, stored, {"name": "mine"}) == {}
    async with db.transaction() as tx:
        assert await schedules.lock_many(tx, stranger.tenant_id, [schedule_id]) == []
    assert await schedules.list_versions(db, stranger.tenant_id, schedule_id) == []
    assert await schedules.list_schedules(db, stranger.tenant_id, name="daily") == []
    assert await schedules.find_named(db, stranger.tenant_id, ["daily"]) == {}
    assert await read(db, tenant, schedule_id) == stored


async def test_an_id_that_exists_is_left_as_it_is(db, tenant, document):
    new = await build(db, tenant, [document, document | {"name": "second"}])
    async with db.transaction() as tx:
        assert await schedules.insert_many(tx, tenant.tenant_id, new[:1], actor="a") == {new[0].schedule_id}
    async with db.transaction() as tx:
        assert await schedules.insert_many(tx, tenant.tenant_id, new, actor="b") == {new[1].schedule_id}
    versions = await schedules.list_versions(db, tenant.tenant_id, new[0].schedule_id)
    assert [(version.version, version.actor) for version in versions] == [(1, "a")]
    assert await count_schedules(db, tenant.tenant_id) == 2


async def test_a_replacement_is_a_new_version_and_the_old_one_stays_in_history(db, tenant, document):
    [schedule_id] = await add(db, tenant, document)
    stored = await read(db, tenant, schedule_id)
    assert await replace(db, tenant, stored, {"timing": {"cron": "0 10 * * *"}}) == {schedule_id: 2}
    later = await read(db, tenant, schedule_id)
    assert later.version == 2
    assert later.cadence_id != stored.cadence_id
    assert later.definition().rule.timing_document["cron"] == "0 10 * * *"
    assert later.definition().target == stored.definition().target
    history = await schedules.list_versions(db, tenant.tenant_id, schedule_id)
    assert [version.version for version in history] == [2, 1]
    assert history[1].document["timing"]["cron"] == "0 9 * * *"  # type: ignore[index]
    assert "s3cret" not in str(history)


async def test_a_replacement_of_a_version_that_has_passed_does_nothing(db, tenant, document):
    [schedule_id] = await add(db, tenant, document)
    stored = await read(db, tenant, schedule_id)
    await replace(db, tenant, stored, {"name": "first"})
    assert await replace(db, tenant, stored, {"name": "second"}) == {}
    assert (await read(db, tenant, schedule_id)).definition().name == "first"
    assert len(await schedules.list_versions(db, tenant.tenant_id, schedule_id)) == 2


async def test_of_twenty_clients_that_add_a_label_each_none_is_lost(db, tenant, document):
    [schedule_id] = await add(db, tenant, document)

    async def add_label(number: int) -> None:
        for _ in range(200):
            stored = await read(db, tenant, schedule_id)
            if await replace(db, tenant, stored, {"labels": {f"tag{number}": "x"}}):
                return
        raise AssertionError("never its turn")

    await asyncio.gather(*(add_label(number) for number in range(20)))
    stored = await read(db, tenant, schedule_id)
    assert sorted(stored.definition().labels) == sorted(f"tag{number}" for number in range(20))
    assert stored.version == 21
    assert [one.schedule_id for one in await schedules.list_schedules(db, tenant.tenant_id, label=("tag7", "x"))]


async def test_a_pause_is_a_version_with_its_reason_and_resuming_ends_it(db, tenant, document):
    [schedule_id] = await add(db, tenant, document)
    until = datetime(2026, 4, 1, tzinfo=UTC)
    stored = await read(db, tenant, schedule_id)
    assert await change(
        db, tenant.tenant_id, stored, ScheduleState.PAUSED, reason="broken", paused_until=until
    ) == {schedule_id: 2}  # fmt: skip
    paused = await read(db, tenant, schedule_id)
    assert (paused.state, paused.pause_reason, paused.paused_until) == (ScheduleState.PAUSED, "broken", until)
    assert paused.document()["paused_until"] == "2026-04-01T00:00:00Z"
    assert paused.definition() == stored.definition()
    assert await replace(db, tenant, paused, {"name": "other"}) == {schedule_id: 3}
    still = await read(db, tenant, schedule_id)
    assert (still.state, still.pause_reason) == (ScheduleState.PAUSED, "broken")
    await change(db, tenant.tenant_id, still, ScheduleState.ACTIVE)
    resumed = await read(db, tenant, schedule_id)
    assert (resumed.state, resumed.pause_reason, resumed.paused_until, resumed.version) == ("active", None, None, 4)


async def test_the_count_follows_what_is_active_or_paused(db, tenant, document):
    ids = await add(db, tenant, *(document | {"name": f"n{number}"} for number in range(5)))
    assert await count_schedules(db, tenant.tenant_id) == 5
    await change(db, tenant.tenant_id, await read(db, tenant, ids[0]), ScheduleState.PAUSED)
    assert await count_schedules(db, tenant.tenant_id) == 5
    for state in (ScheduleState.CANCELLED, ScheduleState.FINISHED):
        await change(db, None, await read(db, tenant, ids[state is ScheduleState.FINISHED]), state)
    assert await count_schedules(db, tenant.tenant_id) == 3


async def test_a_quota_holds_when_many_create_at_once(db, tenant, document):
    async with db.transaction() as tx:
        await set_tenant(tx, tenant.tenant_id, {"max_schedules": 5}, ACTOR)

    async def create(number: int) -> bool:
        new = await build(db, tenant, [document | {"name": f"n{number}"}])
        try:
            async with db.transaction() as tx:
                await reserve_schedules(tx, tenant.tenant_id, 1)
                await schedules.insert_many(tx, tenant.tenant_id, new, actor="a")
        except QuotaExceeded:
            return False
        return True

    assert sum(await asyncio.gather(*(create(number) for number in range(20)))) == 5
    assert await count_schedules(db, tenant.tenant_id) == 5


async def test_labels_are_found_and_follow_a_change(db, tenant, stranger, document):
    [one] = await add(db, tenant, document | {"labels": {"team": "a", "tier": "1"}})
    await add(db, stranger, document | {"labels": {"team": "a"}})
    found = await schedules.list_schedules(db, tenant.tenant_id, label=("team", "a"))
    assert [schedule.schedule_id for schedule in found] == [one]
    await replace(db, tenant, found[0], {"labels": {"team": "b", "tier": "1"}})
    assert await schedules.list_schedules(db, tenant.tenant_id, label=("team", "a")) == []
    for label in (("team", "b"), ("tier", "1")):
        assert len(await schedules.list_schedules(db, tenant.tenant_id, label=label)) == 1


async def test_pages_walk_all_schedules_once_by_whatever_is_asked_for(db, tenant, document):
    ids = await add(
        db, tenant, *(document | {"name": f"n{number % 3}", "group": "g" if number % 2 else ""} for number in range(30))
    )
    await change(db, tenant.tenant_id, await read(db, tenant, ids[4]), ScheduleState.PAUSED)

    async def walk(**asked: Any) -> list[UUID]:
        seen: list[UUID] = []
        while page := await schedules.list_schedules(
            db, tenant.tenant_id, after_id=seen[-1] if seen else None, limit=7, **asked
        ):
            seen += [schedule.schedule_id for schedule in page]
        return seen

    assert await walk() == sorted(ids)
    assert await walk(name="n1") == sorted(ids[1::3])
    assert await walk(group="g") == sorted(ids[1::2])
    assert await walk(state=ScheduleState.PAUSED) == [ids[4]]
    assert await walk(state=ScheduleState.ACTIVE) == sorted(set(ids) - {ids[4]})
    assert await walk(name="n0", group="g", state=ScheduleState.ACTIVE) == sorted(ids[3::6])
    assert await schedules.find_named(db, tenant.tenant_id, ["n0", "no"]) == {"n0": sorted(ids[0::3])}


async def test_a_one_shot_has_its_instant_and_no_cadence(db, tenant, document):
    [schedule_id] = await add(
        db, tenant, document | {"timing": {"at": "2026-12-24T09:00:00", "time_zone": "America/New_York"}}
    )
    stored = await read(db, tenant, schedule_id)
    assert (stored.cadence_id, stored.fire_at) == (None, datetime(2026, 12, 24, 14, tzinfo=UTC))


async def test_thousands_of_schedules_take_a_fixed_number_of_statements(db, tenant, document):
    new = await build(db, tenant, [document | {"name": f"n{number}"} for number in range(3000)])
    assert len({one.place.cadence_id for one in new}) == 1
    async with db.transaction() as tx:
        assert len(await schedules.insert_many(tx, tenant.tenant_id, new, actor="a")) == 3000
    assert await count_schedules(db, tenant.tenant_id) == 3000


async def test_a_limit_that_a_definition_names_is_set_and_not_touched_again(db, tenant, document, connection):
    limited = document | {"limit": {"key": "mail", "rate": "10/s", "max_concurrency": 3}}
    await add(db, tenant, limited)
    before = await connection.fetchrow("SELECT scope, max_concurrency, rate, burst, xmin::text FROM limits")
    await add(db, tenant, limited, document | {"limit": {"key": "mail"}})
    after = await connection.fetchrow("SELECT scope, max_concurrency, rate, burst, xmin::text FROM limits")
    assert tuple(before)[:4] == ("key:mail", 3, 10.0, 10.0)
    assert before == after


async def test_why_a_schedule_is_set_aside_is_shown_and_costs_no_version(db, tenant, document):
    [schedule_id] = await add(db, tenant, document)
    async with db.transaction() as tx:
        await schedules.set_aside(tx, {schedule_id: "unknown zone Mars/Phobos"})
    stored = await read(db, tenant, schedule_id)
    assert (stored.version, stored.document()["set_aside"]) == (1, "unknown zone Mars/Phobos")


async def test_a_stored_definition_that_is_not_understood_can_still_be_shown(db, tenant, document, connection):
    [schedule_id] = await add(db, tenant, document)
    await connection.execute(
        "UPDATE schedule_versions SET definition = jsonb_set(definition, '{timing,time_zone}', '\"Mars/Phobos\"')"
    )
    stored = await read(db, tenant, schedule_id)
    assert stored.document()["timing"]["time_zone"] == "Mars/Phobos"  # type: ignore[index]
    with pytest.raises(ValidationFailed):
        stored.definition()


async def test_a_calendar_is_part_of_the_cadence_and_cannot_be_removed_while_it_is_used(db, tenant, document):
    await put_calendar(db, tenant.tenant_id, "holidays", ["2026-12-25"], ACTOR)
    [plain, free] = await add(db, tenant, document, document | {"calendar": "holidays"})
    assert (await read(db, tenant, plain)).cadence_id != (await read(db, tenant, free)).cadence_id
    with pytest.raises(Exception, match="schedules use the calendar"):
        await delete_calendar(db, tenant.tenant_id, "holidays", ACTOR)
    unknown = Definition.parse(document | {"calendar": "none"})
    [fault] = await share_many(db, tenant.tenant_id, [unknown])
    assert isinstance(fault, ValidationFailed)
    assert fault.errors[0].field == "calendar"


async def test_a_day_list_that_changes_meanwhile_is_noticed(db, tenant, document):
    await put_calendar(db, tenant.tenant_id, "holidays", ["2026-12-25"], ACTOR)
    new = await build(db, tenant, [document | {"calendar": "holidays"}])
    await put_calendar(db, tenant.tenant_id, "holidays", ["2026-12-26"], ACTOR)

    async def write() -> None:
        async with db.transaction() as tx:
            await schedules.insert_many(tx, tenant.tenant_id, new, actor="a")

    with pytest.raises(Conflict, match="holidays was changed meanwhile"):
        await write()
    assert await schedules.list_schedules(db, tenant.tenant_id) == []


async def test_who_made_one_of_many_is_told_by_the_trail(db, tenant, stranger, document):
    many = await build(db, tenant, [document | {"name": f"n{number}"} for number in range(3)])
    [single] = await build(db, tenant, [document])
    for group in (many, [single]):
        async with db.transaction() as tx:
            await schedules.insert_many(tx, tenant.tenant_id, group, actor=actor_text(ACTOR), reason="moving in")
            made = creation(tenant.tenant_id, [one.schedule_id for one in group])
            await audit_trail.record(tx, ACTOR, made)
    by_actor = await audit_trail.list_entries(db, tenant.tenant_id, actor_id="k1", action="schedule.create")
    assert [entry.object_kind for entry in by_actor] == ["schedule", "schedules"]
    assert by_actor[1].after["n_created"] == 3  # type: ignore[index]
    for one in (many[1], single):
        entries = await audit_trail.list_entries(db, tenant.tenant_id, object_id=str(one.schedule_id))
        assert [(entry.action, entry.actor_kind, entry.actor_id) for entry in entries] == [
            ("schedule.create", "key", "k1")
        ]
        assert await audit_trail.list_entries(db, stranger.tenant_id, object_id=str(one.schedule_id)) == []
        assert await audit_trail.list_entries(
            db, tenant.tenant_id, object_id=str(one.schedule_id), before_id=entries[-1].audit_id
        ) == []  # fmt: skip


async def test_nothing_of_a_create_that_fails_is_left(db, tenant, document):
    new = await build(db, tenant, [document | {"labels": {"a": "b"}}])

    async def create_and_fail() -> None:
        async with db.transaction() as tx:
            await schedules.insert_many(tx, tenant.tenant_id, new, actor="a")
            raise RuntimeError("died")

    with pytest.raises(RuntimeError, match="died"):
        await create_and_fail()
    assert await schedules.get_many(db, tenant.tenant_id, [new[0].schedule_id]) == []
    assert await schedules.list_schedules(db, tenant.tenant_id, label=("a", "b")) == []
    assert await count_schedules(db, tenant.tenant_id) == 0
