"""Edits while nobody plans: what a shard's cursor has not reached when a schedule is changed is not lost in silence.

A change that keeps the timing hands these fires on to the new version (see `writing`). Any other change ends them:
they are recorded as missed, with the change as the reason, before the planner comes back and knows nothing of them.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from rota.base.db import Transaction
from rota.base.model import CadenceId, ScheduleState, shard_of
from rota.calendar import TimingError
from rota.catalog import cadences
from rota.catalog.schedules import Schedule
from rota.plan import occurrences
from rota.plan.decide import Once, Rhythm, missed_between
from rota.plan.passed import Instant


async def miss_unplanned(tx: Transaction, current: Sequence[Schedule], instant: Instant, reason: str) -> None:
    """Record what the locked schedules should have fired up to now and no planner has reached."""
    behind = [
        one
        for one in current
        if one.state is ScheduleState.ACTIVE
        and max(one.active_from, instant.through[shard_of(one.schedule_id)]) < instant.now
    ]
    if not behind:
        return
    rhythms = await stored_rhythms(tx, behind)
    missed = [
        (
            one.schedule_id,
            missed_between(
                rhythms[one.schedule_id],
                max(one.active_from, instant.through[shard_of(one.schedule_id)]),
                instant.now if one.active_until is None else min(instant.now, one.active_until),
                reason,
            ),
        )
        for one in behind
        if one.schedule_id in rhythms
    ]
    await occurrences.put_missed(tx, [(schedule_id, one) for schedule_id, one in missed if one is not None])


async def stored_rhythms(tx: Transaction, current: Sequence[Schedule]) -> Mapping[UUID, Rhythm]:
    """When each of the schedules fires, as stored; those that cannot be computed are left out."""
    found: dict[UUID, Rhythm] = {}
    timings: dict[CadenceId, Rhythm] = {}
    for cadence_id in {one.cadence_id for one in current if one.cadence_id is not None}:
        try:
            timings |= {key: cadence.timing for key, cadence in (await cadences.get_cadences(tx, [cadence_id])).items()}
        except TimingError:
            continue  # it is set aside by the planner, which says why; the schedule is changed all the same
    for one in current:
        if one.fire_at is not None:
            found[one.schedule_id] = Once(one.fire_at)
        elif one.cadence_id in timings:
            found[one.schedule_id] = timings[one.cadence_id]
    return found
