"""The part of the window that the planner has passed already, for schedules written just now: no fire falls in between."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from rota.base.db import Executor
from rota.base.model import Trigger, shard_of
from rota.calendar import Timing
from rota.catalog.schedules import Place
from rota.plan import occurrences
from rota.plan.occurrences import Fire

MOST_PASSED: Final = 10_000  # of one schedule; the horizon bounds it to less
_MICROSECOND: Final = timedelta(microseconds=1)


def passed_fires(
    schedule_id: UUID,
    timing: Timing | None,
    place: Place,
    planned_through: datetime,
    known: dict[object, list[datetime]],
) -> list[Fire]:
    """The fires of one new version up to its shard's cursor. `known` spares the walk for schedules with one cadence."""
    if place.fire_at is not None:
        due = place.active_from < place.fire_at <= planned_through
        return [(schedule_id, place.fire_at, Trigger.TIMING, False)] if due else []
    if timing is None:
        return []
    through = planned_through if place.active_until is None else min(planned_through, place.active_until)
    if through <= place.active_from:
        return []
    question = (place.cadence_id, place.active_from, through)
    instants = known.get(question)
    if instants is None:
        instants = []
        for at in timing.fires(place.active_from, through):
            instants.append(at)
            if len(instants) == MOST_PASSED:
                break
        known[question] = instants
    return [(schedule_id, at, Trigger.TIMING, False) for at in instants]


async def plan_passed(
    tx: Executor, written: Sequence[tuple[UUID, Timing | None, Place]], cursors: Mapping[int, datetime]
) -> int:
    """Plan, in the caller's transaction and under its shard locks, what the planner will not come back for."""
    known: dict[object, list[datetime]] = {}
    fires: list[Fire] = []
    for schedule_id, timing, place in written:
        fires += passed_fires(schedule_id, timing, place, cursors[shard_of(schedule_id)], known)
    return len(await occurrences.put(tx, fires))
