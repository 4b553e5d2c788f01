"""Pause, resume and cancel: edits that change nothing but what may run. Each is one transaction, as in `edits`.

pause   what has not started becomes cancelled (reason `paused`), what waits for another attempt waits for the end
resume  a new version from now on; `missed` decides about what was due meanwhile
cancel  what has not started, or waits for another attempt, becomes cancelled; what runs goes on unless asked to stop
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from rota.base.db import Database, Transaction, load_queries
from rota.base.errors import Conflict, NotFound, VersionMismatch
from rota.base.failpoints import failpoint
from rota.base.model import Actor, ScheduleState, TenantId
from rota.calendar import Timing
from rota.catalog import audit_trail, schedules
from rota.catalog.audit_trail import Change
from rota.catalog.cadences import get_cadences
from rota.catalog.policies import get_policies
from rota.catalog.schedules import Schedule, StateChange
from rota.plan import occurrences
from rota.plan.decide import Decision, Missed, decide
from rota.plan.passed import plan_passed

_QUERIES = load_queries(__file__, "states.sql")
_PAUSABLE: Final = (ScheduleState.ACTIVE, ScheduleState.PAUSED)
MissedChoice = Literal["skip", "misfire"]


async def pause_schedule(
    db: Database,
    tenant_id: TenantId,
    schedule_id: UUID,
    actor: Actor,
    *,
    until: datetime | None = None,
    expected_version: int | None = None,
) -> Schedule:
    """Start nothing of it any more, until `until` or until it is resumed. Pausing a paused one changes reason and end."""

    async def work(tx: Transaction) -> Schedule:
        _, now = await occurrences.share_shards(tx, [schedule_id])
        current = await _locked(tx, tenant_id, schedule_id, expected_version)
        if current.state not in _PAUSABLE:
            raise Conflict(f"schedule {schedule_id} is {current.state}", hint="only active schedules can be paused")
        # The start of the pause is remembered as active_from: resuming with `misfire` counts from there.
        started = now if current.state is ScheduleState.ACTIVE else current.active_from
        change = _state_change(current, started)
        await schedules.change_state(
            tx,
            tenant_id,
            [change],
            ScheduleState.PAUSED,
            actor=_named(actor),
            reason=actor.reason,
            paused_until=until,
        )
        await occurrences.cancel_unstarted(tx, [schedule_id], "paused")
        await occurrences.hold(tx, [schedule_id])
        return await _recorded(tx, tenant_id, current, actor, "schedule.pause")

    return await _run(db, work)


async def resume_schedule(
    db: Database,
    tenant_id: TenantId,
    schedule_id: UUID,
    actor: Actor,
    *,
    missed: MissedChoice = "skip",
    expected_version: int | None = None,
    reason: str | None = None,
) -> Schedule:
    """Go on from now. `skip`: what was due during the pause was not wanted. `misfire`: the pause counts as downtime, and
    the schedule's misfire policy decides. Resuming an active schedule changes nothing."""

    async def work(tx: Transaction) -> Schedule:
        cursors, now = await occurrences.share_shards(tx, [schedule_id])
        current = await _locked(tx, tenant_id, schedule_id, expected_version)
        if current.state is ScheduleState.ACTIVE:
            return current
        if current.state is not ScheduleState.PAUSED:
            raise Conflict(f"schedule {schedule_id} is {current.state}", hint="only paused schedules can be resumed")
        since = now if current.fire_at is None else min(now, current.fire_at)
        start = max(since, _starts(current))
        await schedules.change_state(
            tx,
            tenant_id,
            [_state_change(current, start)],
            ScheduleState.ACTIVE,
            actor=_named(actor),
            reason=reason or actor.reason,
        )
        place = current.place
        timing = await _timing(tx, current)
        if missed == "misfire" and timing is not None:
            await _catch_up(tx, current, timing, now)
        fresh = (current.schedule_id, timing, _moved(place, start))
        await plan_passed(tx, [fresh], cursors)
        await occurrences.release(tx, [schedule_id])
        return await _recorded(tx, tenant_id, current, actor, "schedule.resume", reason)

    return await _run(db, work)


async def cancel_schedule(
    db: Database,
    tenant_id: TenantId,
    schedule_id: UUID,
    actor: Actor,
    *,
    expected_version: int | None = None,
    stop_running: bool = False,
) -> Schedule:
    """Cancel it for good; its history stays. Cancelling a cancelled one changes nothing."""

    async def work(tx: Transaction) -> Schedule:
        _, now = await occurrences.share_shards(tx, [schedule_id])
        current = await _locked(tx, tenant_id, schedule_id, expected_version)
        if current.state is ScheduleState.CANCELLED:
            return current
        change = _state_change(current, now)
        await schedules.change_state(
            tx, tenant_id, [change], ScheduleState.CANCELLED, actor=_named(actor), reason=actor.reason
        )
        await occurrences.cancel_unstarted(tx, [schedule_id], "schedule_cancelled", with_retries=True)
        if stop_running:
            await occurrences.stop_running(tx, [schedule_id])
        return await _recorded(tx, tenant_id, current, actor, "schedule.cancel")

    return await _run(db, work)


async def pause_group(
    db: Database, tenant_id: TenantId, group: str, actor: Actor, *, until: datetime | None = None
) -> int:
    """Pause every active schedule of a group; how many. One transaction a schedule: none waits for all."""
    ids = await _group(db, tenant_id, group, ScheduleState.ACTIVE)
    for schedule_id in ids:
        await pause_schedule(db, tenant_id, schedule_id, actor, until=until)
    return len(ids)


async def resume_group(
    db: Database, tenant_id: TenantId, group: str, actor: Actor, *, missed: MissedChoice = "skip"
) -> int:
    """Resume every paused schedule of a group; how many."""
    ids = await _group(db, tenant_id, group, ScheduleState.PAUSED)
    for schedule_id in ids:
        await resume_schedule(db, tenant_id, schedule_id, actor, missed=missed)
    return len(ids)


async def _group(db: Database, tenant_id: TenantId, group: str, state: ScheduleState) -> Sequence[UUID]:
    rows = await db.fetch(_QUERIES["schedule_in_group"], tenant_id, group, str(state))
    return [row["schedule_id"] for row in rows]


async def _run(db: Database, work: object) -> Schedule:
    made: Schedule = await db.run(work)  # type: ignore[arg-type]
    await failpoint("edit.after_commit")
    return made


async def _locked(tx: Transaction, tenant_id: TenantId, schedule_id: UUID, expected_version: int | None) -> Schedule:
    found = await schedules.lock_many(tx, tenant_id, [schedule_id])
    if not found:
        raise NotFound(f"there is no schedule {schedule_id}")
    if expected_version is not None and found[0].version != expected_version:
        raise VersionMismatch(
            f"schedule {schedule_id} has version {found[0].version}, not {expected_version}",
            hint="read it again and repeat your change",
        )
    return found[0]


def _state_change(current: Schedule, active_from: datetime) -> StateChange:
    return StateChange(
        schedule_id=current.schedule_id,
        expected_version=current.version,
        active_from=active_from,
        active_until=current.active_until,
    )


def _starts(current: Schedule) -> datetime:
    """A version whose start lies ahead keeps it over a pause."""
    return current.active_from


def _moved(place: schedules.Place, active_from: datetime) -> schedules.Place:
    return schedules.Place(
        cadence_id=place.cadence_id,
        fire_at=place.fire_at,
        lane_id=place.lane_id,
        policy_id=place.policy_id,
        active_from=active_from,
        active_until=place.active_until,
    )


async def _timing(tx: Transaction, current: Schedule) -> Timing | None:
    if current.cadence_id is None:
        return None
    return (await get_cadences(tx, [current.cadence_id]))[current.cadence_id].timing


async def _catch_up(tx: Transaction, current: Schedule, timing: Timing, now: datetime) -> None:
    """The fires of the pause, as the misfire policy says, run as occurrences of the version that resumes."""
    policy = (await get_policies(tx, [current.policy_id]))[current.policy_id].misfire
    through = now if current.active_until is None else min(now, current.active_until)
    decision: Decision = decide(timing, policy, after=current.active_from, through=through, now=now)
    await occurrences.put(tx, [(current.schedule_id, run.at, run.trigger, True) for run in decision.runs])
    if decision.missed:
        await tx.execute(_QUERIES["missed_put"], current.schedule_id, *_columns(decision.missed))


def _columns(missed: Sequence[Missed]) -> tuple[list[object], ...]:
    return (
        [one.first_at for one in missed],
        [one.last_at for one in missed],
        [one.n for one in missed],
        [one.reason for one in missed],
    )


async def _recorded(
    tx: Transaction, tenant_id: TenantId, before: Schedule, actor: Actor, action: str, reason: str | None = None
) -> Schedule:
    after = (await schedules.get_many(tx, tenant_id, [before.schedule_id]))[0]
    change = Change(
        tenant_id=tenant_id,
        action=action,
        object_kind="schedule",
        object_id=str(before.schedule_id),
        before={"state": str(before.state), "version": before.version},
        after={"state": str(after.state), "version": after.version},
        reason=reason,
    )
    await audit_trail.record(tx, actor, change)
    await failpoint("edit.before_commit")
    return after


def _named(actor: Actor) -> str:
    return f"{actor.kind}:{actor.id}"
