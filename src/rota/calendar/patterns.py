"""Patterns of wall times beside cron: every N days, weeks, months or years from a date, and one wall time only."""

from calendar import monthrange
from dataclasses import dataclass
from datetime import date
from typing import Final

DAY: Final = 86_400
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
LAST_YEAR: Final = 9980


@dataclass(frozen=True, slots=True)
class EveryDays:
    """Every `n` days at a second of the day, counted from a first day (days since 1970)."""

    n: int
    first_day: int
    second: int
    is_wildcard: bool = False

    def next_wall(self, wall: int) -> int | None:
        """The first match at or after a wall time; none lies before the first day."""
        k = -(-(wall - self.second - self.first_day * DAY) // (self.n * DAY))
        return (self.first_day + max(k, 0) * self.n) * DAY + self.second

    def count_walls(self, low: int, high: int) -> int:
        """Matches in `[low, high)`."""
        return max(self._index(high) - self._index(low), 0)

    def _index(self, wall: int) -> int:
        return max(-(-(wall - self.second - self.first_day * DAY) // (self.n * DAY)), 0)


@dataclass(frozen=True, slots=True)
class EveryMonths:
    """Every `n` months on a day of the month, the last day where a month is shorter; counted from a first month."""

    n: int
    first_month: int  # year * 12 + month - 1
    day: int
    second: int
    is_wildcard: bool = False

    def next_wall(self, wall: int) -> int | None:
        """The first match at or after a wall time; None past the end of the calendar."""
        here = date.fromordinal(wall // DAY + _EPOCH_DAY)
        k = max((here.year * 12 + here.month - 1 - self.first_month) // self.n, 0)
        while (found := self._wall(k)) is not None and found < wall:
            k += 1
        return found

    def _wall(self, k: int) -> int | None:
        year, month = divmod(self.first_month + k * self.n, 12)
        if year > LAST_YEAR:
            return None
        day = min(self.day, monthrange(year, month + 1)[1])
        return (date(year, month + 1, day).toordinal() - _EPOCH_DAY) * DAY + self.second

    def count_walls(self, low: int, high: int) -> int:
        """Matches in `[low, high)`."""
        n, wall = 0, self.next_wall(low)
        while wall is not None and wall < high:
            n, wall = n + 1, self.next_wall(wall + 1)
        return n


@dataclass(frozen=True, slots=True)
class OneWall:
    """A single wall time."""

    wall: int
    is_wildcard: bool = False

    def next_wall(self, wall: int) -> int | None:
        """Itself, if not passed."""
        return self.wall if wall <= self.wall else None

    def count_walls(self, low: int, high: int) -> int:
        """1 or 0."""
        return int(low <= self.wall < high)
