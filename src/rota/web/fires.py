"""The next fires of schedules, for people to see: computed from the cadence, as planning does.

Cadences never change what they mean, so their parsed timings are kept.
"""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from rota.base.db import Database
from rota.base.model import CadenceId, ScheduleState
from rota.calendar import Timing
from rota.catalog import cadences
from rota.catalog.schedules import Schedule

KEEP_MOST = 50_000


class NextFires:
    """Finds next fires; keeps the timings it has seen."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._timings: OrderedDict[CadenceId, Timing] = OrderedDict()

    async def of(self, schedules: Sequence[Schedule], now: datetime, n: int) -> dict[UUID, list[datetime]]:
        """Up to `n` fires later than `now` (cell time) of each schedule; none for one that is not active."""
        active = [schedule for schedule in schedules if schedule.state is ScheduleState.ACTIVE]
        wanted = {schedule.cadence_id for schedule in active if schedule.cadence_id is not None}
        missing = wanted - self._timings.keys()
        if missing:
            for cadence_id, cadence in (await cadences.get_cadences(self._db, missing)).items():
                self._timings[cadence_id] = cadence.timing
        found: dict[UUID, list[datetime]] = {schedule.schedule_id: self._next(schedule, now, n) for schedule in active}
        while len(self._timings) > KEEP_MOST:
            self._timings.popitem(last=False)
        return found

    def _next(self, schedule: Schedule, now: datetime, n: int) -> list[datetime]:
        if schedule.cadence_id is None:
            return [schedule.fire_at] if schedule.fire_at is not None and schedule.fire_at > now else []
        timing = self._timings.get(schedule.cadence_id)
        fires: list[datetime] = []
        if timing is None or schedule.set_aside is not None:
            return fires
        after = max(now, schedule.active_from)
        while len(fires) < n:
            fire = timing.next_after(after)
            if fire is None or (schedule.active_until is not None and fire > schedule.active_until):
                break
            fires.append(fire)
            after = fire
        return fires
