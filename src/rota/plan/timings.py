"""The rules of cadences, parsed once and kept; what cannot be computed is set aside with its reason."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import datetime

from rota.base.db import Database, load_queries
from rota.base.json import load_json
from rota.base.telemetry import CadenceSetAside, emit
from rota.calendar import Timing

_QUERIES = load_queries(__file__, "planner.sql")
MAX_KEPT = 200_000


class Timings:
    """A bounded memory of parsed rules by cadence. A cadence never changes its meaning, so nothing goes stale."""

    def __init__(self, db: Database, *, most: int = MAX_KEPT) -> None:
        self._db = db
        self._most = most
        self._known: OrderedDict[int, Timing] = OrderedDict()

    async def learn(self, cadence_ids: Iterable[int]) -> None:
        """Read those that are not known; what cannot be parsed is set aside."""
        wanted = set(cadence_ids)
        for cadence_id in wanted & self._known.keys():
            self._known.move_to_end(cadence_id)
        missing = sorted(wanted - self._known.keys())
        rows = await self._db.fetch(_QUERIES["cadence_learn"], missing) if missing else ()
        for row in rows:
            try:
                self._known[row["cadence_id"]] = Timing.from_json(load_json(row["timing"]))
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one rule must not stop the others
                await self.set_aside(row["cadence_id"], f"cannot be read: {_said(error)}")
        while len(self._known) > max(self._most, len(wanted)):
            self._known.popitem(last=False)

    def get(self, cadence_id: int) -> Timing | None:
        """The rule of a cadence that was learnt; None if it is set aside."""
        return self._known.get(cadence_id)

    async def fires(self, cadence_id: int, after: datetime, through: datetime) -> Sequence[datetime]:
        """Its fires in (after, through]; none, and it is set aside, if they cannot be computed."""
        timing = self._known.get(cadence_id)
        if timing is None:
            return ()
        try:
            return list(timing.fires(after, through))
        except Exception as error:  # noqa: BLE001 - as above
            await self.set_aside(cadence_id, f"cannot be computed: {_said(error)}")
            return ()

    async def following(self, cadence_id: int, moment: datetime) -> tuple[bool, datetime | None]:
        """Whether its rule can be computed, and its first fire after the moment, if there is one."""
        timing = self._known.get(cadence_id)
        if timing is None:
            return False, None
        try:
            return True, timing.next_after(moment)
        except Exception as error:  # noqa: BLE001 - as above
            await self.set_aside(cadence_id, f"cannot be computed: {_said(error)}")
            return False, None

    async def set_aside(self, cadence_id: int, reason: str) -> None:
        """Plan it no more; its schedules say why."""
        self._known.pop(cadence_id, None)
        if await self._db.execute(_QUERIES["cadence_set_aside"], cadence_id, reason):
            await self._db.execute(_QUERIES["cadence_set_aside_schedules"], cadence_id, reason)
            emit(CadenceSetAside(cadence_id=cadence_id, reason=reason))


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]
