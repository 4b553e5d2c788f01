"""New versions of schedules, set-based: written, what has not started taken along, the passed window planned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from rota.base.db import Transaction
from rota.base.errors import ValidationFailed
from rota.base.model import Actor, ScheduleState, TenantId, shard_of
from rota.catalog import audit_trail, schedules
from rota.catalog.audit_trail import Change
from rota.catalog.definition import Definition
from rota.catalog.places import Shared, place_many
from rota.catalog.schedules import Place, Replacement, Schedule
from rota.plan import occurrences
from rota.plan.decide import Once, Rhythm
from rota.plan.lagging import miss_unplanned
from rota.plan.passed import Instant, Passed, plan_passed

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A locked schedule and what it is to become. old None: what is stored is not understood any more."""

    current: Schedule
    old: Definition | None
    definition: Definition
    shared: Shared

    @property
    def keeps_timing(self) -> bool:
        """Whether it fires at the very instants it did."""
        return (
            self.old is not None
            and self.old.has_timing_of(self.definition)
            and self.shared.cadence_id == self.current.cadence_id
        )

    @property
    def state(self) -> ScheduleState:
        """A pause goes on; what is finished begins again only with another timing."""
        if self.current.state is ScheduleState.FINISHED and not self.keeps_timing:
            return ScheduleState.ACTIVE
        return self.current.state


async def rewrite(
    tx: Transaction,
    tenant_id: TenantId,
    rewrites: Sequence[Rewrite],
    actor: Actor,
    instant: Instant,
    *,
    action: str = "schedule.update",
    reason: str | None = None,
) -> list[Schedule]:
    """Write the new versions. The schedules are locked and so are their shards. ValidationFailed if one never runs."""
    ids = [one.current.schedule_id for one in rewrites]
    places = await _places(tx, rewrites, instant)
    await miss_unplanned(tx, [one.current for one in rewrites if not one.keeps_timing], instant, "superseded")
    replacements = [
        Replacement(
            schedule_id=one.current.schedule_id,
            expected_version=one.current.version,
            state=one.state,
            definition=one.definition,
            place=places[one.current.schedule_id],
        )
        for one in rewrites
    ]
    await schedules.replace_many(tx, tenant_id, replacements, actor=actor_text(actor), reason=reason or actor.reason)
    kept: dict[UUID, bool] = {one.current.schedule_id: _keeps_offset(one) for one in rewrites if one.keeps_timing}
    if kept:
        await occurrences.move_unstarted(tx, kept)
    changed = [one for one in rewrites if not one.keeps_timing]
    if changed:
        await occurrences.cancel_unstarted(tx, [one.current.schedule_id for one in changed], "superseded")
        active = [one for one in changed if one.state is ScheduleState.ACTIVE]
        await plan_passed(tx, [_passed(one, places[one.current.schedule_id]) for one in active], instant)
    changes = [_change(tenant_id, one, action, reason) for one in rewrites]
    await audit_trail.record_many(tx, actor, changes)
    return await schedules.get_many(tx, tenant_id, ids)


def rhythm_of(shared: Shared, place: Place) -> Rhythm:
    """The rhythm of a definition that was placed."""
    return Once(place.fire_at) if place.fire_at is not None else shared.timing


def actor_text(actor: Actor) -> str:
    """An actor as the version history names it."""
    return f"{actor.kind}:{actor.id}"


async def _places(tx: Transaction, rewrites: Sequence[Rewrite], instant: Instant) -> dict[UUID, Place]:
    changed = [one for one in rewrites if not one.keeps_timing]
    placed = place_many([one.definition for one in changed], [one.shared for one in changed], instant.now)
    places: dict[UUID, Place] = {}
    for one, place in zip(changed, placed, strict=True):
        if isinstance(place, ValidationFailed):
            raise place
        places[one.current.schedule_id] = place
    kept = [one for one in rewrites if one.keeps_timing]
    lowest = await occurrences.lowest_unstarted(tx, [one.current.schedule_id for one in kept]) if kept else {}
    for one in kept:
        places[one.current.schedule_id] = _kept_place(one, lowest, instant)
    return places


def _kept_place(one: Rewrite, lowest: Mapping[UUID, datetime], instant: Instant) -> Place:
    """As before, from now on; or from the earliest instant that is still to run, which the new version takes over.

    Where no planner has been for a while, the new version begins where the shard is planned to.
    """
    current = one.current
    is_paused = current.state is ScheduleState.PAUSED
    begins = min(instant.now, instant.through[shard_of(current.schedule_id)])
    active_from = current.active_from if is_paused else max(begins, current.active_from)
    if current.schedule_id in lowest:
        active_from = min(active_from, lowest[current.schedule_id] - _MICROSECOND)
    return replace(current.place, lane_id=one.shared.lane_id, policy_id=one.shared.policy_id, active_from=active_from)


def _keeps_offset(one: Rewrite) -> bool:
    return one.old is not None and one.old.policy.window == one.definition.policy.window


def _passed(one: Rewrite, place: Place) -> Passed:
    return Passed(
        schedule_id=one.current.schedule_id,
        rhythm=rhythm_of(one.shared, place),
        after=place.active_from,
        until=place.active_until,
    )


def _change(tenant_id: TenantId, one: Rewrite, action: str, reason: str | None) -> Change:
    before = {} if one.old is None else one.old.document()
    after = one.definition.document()
    differing = [name for name in after if before.get(name) != after[name]]
    return Change(
        tenant_id=tenant_id,
        action=action,
        object_kind="schedule",
        object_id=str(one.current.schedule_id),
        before={"version": one.current.version, **{name: before.get(name) for name in differing}},
        after={"version": one.current.version + 1, **{name: after[name] for name in differing}},
        reason=reason,
    )
