"""New schedules, set-based: a fixed number of statements for any number, planned when they are committed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from uuid import UUID

from rota.base.db import Transaction
from rota.base.errors import Conflict, ValidationFailed
from rota.base.model import Actor, ScheduleId, TenantId
from rota.catalog import audit_trail, schedules, tenants
from rota.catalog.audit_trail import Change
from rota.catalog.definition import Definition
from rota.catalog.fields import format_instant
from rota.catalog.places import Shared, place_many
from rota.catalog.schedules import NewSchedule, Place, Schedule
from rota.plan.answers import Created
from rota.plan.decide import Rhythm
from rota.plan.passed import Passed, open_shards, plan_passed
from rota.plan.writing import actor_text, rhythm_of

N_NEXT_FIRES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A schedule to create under a chosen id, who asks for it, and the shared rows its definition points to."""

    schedule_id: ScheduleId
    definition: Definition
    shared: Shared | ValidationFailed
    actor: Actor


async def insert(
    tx: Transaction, tenant_id: TenantId, wanted: Sequence[Creation], *, is_brief: bool = False
) -> list[Created]:
    """Write and plan new schedules; an id that exists is answered as it is. Raises the first refusal, if any.

    is_brief: the answer to a new one is its id and version alone, which spares reading it again and its next fires.
    """
    if not wanted:
        return []
    await tenants.reserve_schedules(tx, tenant_id, len(wanted))
    instant = await open_shards(tx, [one.schedule_id for one in wanted])
    places = place_many([one.definition for one in wanted], [one.shared for one in wanted], instant.now)
    placed: dict[UUID, Place] = {}
    for one, place in zip(wanted, places, strict=True):
        if isinstance(place, ValidationFailed):
            raise place
        placed[one.schedule_id] = place
    added = await _add(tx, tenant_id, wanted, placed)
    rhythms = {
        one.schedule_id: rhythm_of(one.shared, placed[one.schedule_id])
        for one in wanted
        if one.schedule_id in added and isinstance(one.shared, Shared)
    }
    passed = [
        Passed(schedule_id=key, rhythm=rhythm, after=placed[key].active_from, until=placed[key].active_until)
        for key, rhythm in rhythms.items()
    ]
    await plan_passed(tx, passed, instant)
    shown = [one.schedule_id for one in wanted if not (is_brief and one.schedule_id in added)]
    stored = await schedules.get_many(tx, tenant_id, shown) if shown else []
    by_id: dict[UUID, Schedule] = {schedule.schedule_id: schedule for schedule in stored}
    return [
        Created(document={"id": str(one.schedule_id), "version": 1})
        if is_brief and one.schedule_id in added
        else _created(by_id, one, rhythms.get(one.schedule_id), instant.now)
        for one in wanted
    ]


async def _add(
    tx: Transaction, tenant_id: TenantId, wanted: Sequence[Creation], placed: Mapping[UUID, Place]
) -> set[UUID]:
    """Write them, those of one actor together, with their entries in the audit trail; the ids that are new."""
    by_actor: dict[tuple[str, str | None], list[Creation]] = {}
    for one in wanted:
        # Not by actor as such: every request is an actor of its own, and would be a statement of its own.
        by_actor.setdefault((actor_text(one.actor), one.actor.reason), []).append(one)
    added: set[UUID] = set()
    for (actor, reason), group in by_actor.items():
        rows = [
            NewSchedule(schedule_id=one.schedule_id, definition=one.definition, place=placed[one.schedule_id])
            for one in group
        ]
        added |= await schedules.insert_many(tx, tenant_id, rows, actor=actor, reason=reason)
    await audit_trail.record_each(
        tx, [(one.actor, _entry(tenant_id, one)) for one in wanted if one.schedule_id in added]
    )
    return added


def _entry(tenant_id: TenantId, one: Creation) -> Change:
    return Change(
        tenant_id=tenant_id,
        action="schedule.create",
        object_kind="schedule",
        object_id=str(one.schedule_id),
        after={"version": 1, "name": one.definition.name},
    )


def _created(by_id: Mapping[UUID, Schedule], one: Creation, rhythm: Rhythm | None, now: datetime) -> Created:
    stored = by_id.get(one.schedule_id)
    if stored is None:
        raise Conflict(f"the schedule id {one.schedule_id} is taken", hint="choose another name or namespace")
    document: dict[str, object] = {"paused_until": None, "pause_reason": None, "set_aside": None, **stored.document()}
    document["next_fires"] = [] if rhythm is None else _next_fires(rhythm, stored, now)
    return Created(document=document, is_replayed=rhythm is None)


def _next_fires(rhythm: Rhythm, stored: Schedule, now: datetime) -> list[str]:
    after = now if stored.fire_at is not None else max(now, stored.active_from)
    until = stored.active_until or datetime.max.replace(tzinfo=now.tzinfo)
    return [format_instant(fire) for fire in islice(rhythm.fires(after, until), N_NEXT_FIRES)]
