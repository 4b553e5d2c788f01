"""When each cadence fires, for the audit: from the stored rule and the calendar alone, never from what was planned."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.base.db import Transaction, load_queries
from rota.base.json import load_json
from rota.calendar import Timing

SQL = load_queries(__file__, "reconcile.sql")
INSTANT = timedelta(microseconds=1)
MAX_TIMINGS = 20_000
MAX_CACHED_FIRES = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """`from_at` belongs to it, `until_at` does not. Aware UTC."""

    from_at: datetime
    until_at: datetime

    def halves(self) -> tuple["Window", "Window"]:
        """Two windows that together are this one."""
        middle = self.from_at + (self.until_at - self.from_at) / 2
        return Window(from_at=self.from_at, until_at=middle), Window(from_at=middle, until_at=self.until_at)

    def holds(self, instant: datetime) -> bool:
        """Whether the instant lies in it."""
        return self.from_at <= instant < self.until_at


class Fires:
    """Fires by cadence, with bounded caches. A cadence that cannot be computed has none and is named in `set_aside`."""

    def __init__(self) -> None:
        self.set_aside: set[int] = set()
        self._timings: OrderedDict[int, Timing | None] = OrderedDict()
        self._fires: OrderedDict[tuple[int, Window], tuple[datetime, ...]] = OrderedDict()
        self._n_cached = 0

    async def learn(self, tx: Transaction, cadence_ids: Iterable[int]) -> None:
        """Read the rules of those cadences that are not known yet. The rule of a cadence never changes."""
        missing = sorted(set(cadence_ids) - self._timings.keys())
        for row in await tx.fetch(SQL["audit_cadences"], missing) if missing else ():
            self.add(row["cadence_id"], row["timing"], is_set_aside=row["set_aside"] is not None)

    def add(self, cadence_id: int, timing: str, *, is_set_aside: bool) -> None:
        """Take in one rule as stored (JSON), unless it is known."""
        if cadence_id in self._timings and is_set_aside == (cadence_id in self.set_aside):
            return
        self.set_aside.discard(cadence_id)
        parsed = None
        if not is_set_aside:
            try:
                parsed = Timing.from_json(load_json(timing))
            except (ValueError, TypeError, KeyError):  # a broken rule is a finding of its own, not an end of the audit
                parsed = None
        if parsed is None:
            self.set_aside.add(cadence_id)
        self._timings[cadence_id] = parsed

    def count(self, cadence_id: int, window: Window) -> int:
        """How many fires lie in the window."""
        timing = self._timings.get(cadence_id)
        return 0 if timing is None else timing.count_between(window.from_at - INSTANT, window.until_at - INSTANT)

    def between(self, cadence_id: int, window: Window) -> tuple[datetime, ...]:
        """The fires in the window, ascending."""
        key = (cadence_id, window)
        if (known := self._fires.get(key)) is not None:
            self._fires.move_to_end(key)
            return known
        timing = self._timings.get(cadence_id)
        found = () if timing is None else tuple(timing.fires(window.from_at - INSTANT, window.until_at - INSTANT))
        self._fires[key] = found
        self._n_cached += len(found) + 1
        while self._n_cached > MAX_CACHED_FIRES and len(self._fires) > 1:
            _, dropped = self._fires.popitem(last=False)
            self._n_cached -= len(dropped) + 1
        return found

    def trim(self) -> None:
        """Forget the oldest rules beyond the bound; called between stretches, never within one."""
        while len(self._timings) > MAX_TIMINGS:
            self._timings.popitem(last=False)
