"""Pause, resume and cancel: edits that change nothing but what may run. Each is one transaction, as in `edits`.

pause   what has not started becomes cancelled (reason `paused`), what waits for another attempt waits for the end
resume  a new version from now on; `missed` decides about what was due meanwhile, see `resuming`
cancel  what has not started, or waits for another attempt, becomes cancelled; what runs goes on unless asked to stop

Doing what is done already changes nothing and answers the schedule as it is.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol
from uuid import UUID

from rota.base.db import Database, Transaction
from rota.base.errors import FieldError, ValidationFailed
from rota.base.model import Actor, ScheduleState, TenantId
from rota.catalog import audit_trail, schedules
from rota.catalog.audit_trail import Change
from rota.catalog.fields import format_instant
from rota.catalog.schedules import Schedule, StateChange
from rota.plan import occurrences
from rota.plan.lagging import miss_unplanned
from rota.plan.opening import committed, open_many, open_one, refuse_ended
from rota.plan.passed import Instant, plan_passed
from rota.plan.resuming import MissedChoice, resumptions
from rota.plan.writing import actor_text

# Later than this after its time counts as late, as for the planner.
THRESHOLD_S = 5.0
_BATCH = 1000


class _GroupWork(Protocol):
    async def __call__(self, tx: Transaction, schedule_ids: Sequence[UUID]) -> int: ...


async def pause_schedule(
    db: Database,
    tenant_id: TenantId,
    schedule_id: UUID,
    actor: Actor,
    *,
    until: datetime | None = None,
    expected_version: int | None = None,
) -> Schedule:
    """Start nothing of it until it is resumed, by somebody or at `until`. What runs goes on."""

    async def work(tx: Transaction) -> Schedule:
        current, instant = await open_one(tx, tenant_id, schedule_id, expected_version)
        refuse_ended(current)
        if current.state is ScheduleState.PAUSED and (current.pause_reason, current.paused_until) == (
            actor.reason,
            until,
        ):
            return current
        return (await _pause(tx, tenant_id, [current], actor, until, instant))[0]

    return await committed(db, work)


async def resume_schedule(
    db: Database,
    tenant_id: TenantId,
    schedule_id: UUID,
    actor: Actor,
    *,
    missed: MissedChoice = "skip",
    expected_version: int | None = None,
    reason: str | None = None,
    misfire_threshold_s: float = THRESHOLD_S,
) -> Schedule:
    """Go on from now. `missed` decides about what came during the pause, see `resuming`."""

    async def work(tx: Transaction) -> Schedule:
        current, instant = await open_one(tx, tenant_id, schedule_id, expected_version)
        refuse_ended(current)
        if current.state is ScheduleState.ACTIVE:
            return current
        threshold = timedelta(seconds=misfire_threshold_s)
        return (await _resume(tx, tenant_id, [current], actor, missed, instant, threshold, reason))[0]

    return await committed(db, work)


async def cancel_schedule(
    db: Database,
    tenant_id: TenantId,
    schedule_id: UUID,
    actor: Actor,
    *,
    expected_version: int | None = None,
    stop_running: bool = False,
) -> Schedule:
    """End it for good; its history stays. Not even a retry starts any more; what runs is asked to stop on demand."""

    async def work(tx: Transaction) -> Schedule:
        current, instant = await open_one(tx, tenant_id, schedule_id, expected_version)
        if current.state is not ScheduleState.CANCELLED:
            change = _same_times(current)
            await miss_unplanned(tx, [current], instant, "schedule_cancelled")
            await schedules.change_state(
                tx,
                tenant_id,
                [change],
                ScheduleState.CANCELLED,
                actor=actor_text(actor),
                reason=actor.reason,
            )
            await occurrences.cancel_unstarted(tx, [schedule_id], "schedule_cancelled", with_retries=True)
            await _record(tx, actor, [current], "schedule.cancel", {"state": "cancelled"}, actor.reason)
        if stop_running:
            await occurrences.ask_stop(tx, [schedule_id])
        return await schedules.get_schedule(tx, tenant_id, schedule_id)

    return await committed(db, work)


async def pause_group(
    db: Database, tenant_id: TenantId, group: str, actor: Actor, *, until: datetime | None = None
) -> int:
    """Pause every active schedule of a group; how many were paused. In batches: each schedule whole, not the group."""

    async def work(tx: Transaction, schedule_ids: Sequence[UUID]) -> int:
        found, instant = await open_many(tx, tenant_id, schedule_ids)
        active = [one for one in found if one.state is ScheduleState.ACTIVE]
        return len(await _pause(tx, tenant_id, active, actor, until, instant)) if active else 0

    return await _by_group(db, tenant_id, group, ScheduleState.ACTIVE, work)


async def resume_group(
    db: Database,
    tenant_id: TenantId,
    group: str,
    actor: Actor,
    *,
    missed: MissedChoice = "skip",
    misfire_threshold_s: float = THRESHOLD_S,
) -> int:
    """Resume every paused schedule of a group; how many were resumed."""
    threshold = timedelta(seconds=misfire_threshold_s)

    async def work(tx: Transaction, schedule_ids: Sequence[UUID]) -> int:
        found, instant = await open_many(tx, tenant_id, schedule_ids)
        paused = [one for one in found if one.state is ScheduleState.PAUSED]
        return len(await _resume(tx, tenant_id, paused, actor, missed, instant, threshold, None)) if paused else 0

    return await _by_group(db, tenant_id, group, ScheduleState.PAUSED, work)


async def _pause(
    tx: Transaction,
    tenant_id: TenantId,
    current: Sequence[Schedule],
    actor: Actor,
    until: datetime | None,
    instant: Instant,
) -> list[Schedule]:
    if until is not None and until <= instant.now:
        fault = FieldError(field="until", message="must be later than now", value=format_instant(until))
        raise ValidationFailed((fault,))
    ids = [one.schedule_id for one in current]
    await miss_unplanned(tx, current, instant, "paused")
    await schedules.change_state(
        tx,
        tenant_id,
        [_same_times(one) for one in current],
        ScheduleState.PAUSED,
        actor=actor_text(actor),
        reason=actor.reason,
        paused_until=until,
    )
    await occurrences.cancel_unstarted(tx, ids, "paused")
    await occurrences.hold_retries(tx, ids)
    after = {"state": "paused", "until": None if until is None else format_instant(until)}
    await _record(tx, actor, current, "schedule.pause", after, actor.reason)
    return await schedules.get_many(tx, tenant_id, ids)


async def _resume(
    tx: Transaction,
    tenant_id: TenantId,
    paused: Sequence[Schedule],
    actor: Actor,
    missed: MissedChoice,
    instant: Instant,
    threshold: timedelta,
    reason: str | None,
) -> list[Schedule]:
    plans = await resumptions(tx, paused, missed, instant, threshold)
    ids = [one.schedule_id for one in paused]
    why = reason or actor.reason
    await schedules.change_state(
        tx, tenant_id, [plan.change for plan in plans], ScheduleState.ACTIVE, actor=actor_text(actor), reason=why
    )
    await occurrences.cancel_unstarted(tx, ids, "superseded")
    await occurrences.release_retries(tx, ids)
    await occurrences.put(tx, [put for plan in plans for put in plan.pending])
    await occurrences.put_missed(
        tx, [(plan.change.schedule_id, plan.missed) for plan in plans if plan.missed is not None]
    )
    await plan_passed(tx, [plan.passed for plan in plans], instant, threshold=threshold)
    await _record(tx, actor, paused, "schedule.resume", {"state": "active", "missed": missed}, why)
    return await schedules.get_many(tx, tenant_id, ids)


async def _by_group(
    db: Database,
    tenant_id: TenantId,
    group: str,
    state: ScheduleState,
    work: _GroupWork,
) -> int:
    total, after_id = 0, None
    while page := await schedules.list_schedules(
        db, tenant_id, group=group, state=state, after_id=after_id, limit=_BATCH
    ):
        after_id = page[-1].schedule_id
        ids = [one.schedule_id for one in page]
        total += await committed(db, partial(work, schedule_ids=ids))
    return total


async def _record(
    tx: Transaction,
    actor: Actor,
    before: Sequence[Schedule],
    action: str,
    after: Mapping[str, object],
    reason: str | None,
) -> None:
    changes = [
        Change(
            tenant_id=one.tenant_id,
            action=action,
            object_kind="schedule",
            object_id=str(one.schedule_id),
            before={"state": str(one.state), "version": one.version},
            after={**after, "version": one.version + 1},
            reason=reason,
        )
        for one in before
    ]
    await audit_trail.record_many(tx, actor, changes)


def _same_times(current: Schedule) -> StateChange:
    return StateChange(
        schedule_id=current.schedule_id,
        expected_version=current.version,
        active_from=current.active_from,
        active_until=current.active_until,
    )
