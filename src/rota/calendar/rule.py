"""A cron expression compiled: which days, which times of a day; the next matching wall time in a few look-ups.

Wall times are integers: seconds since 1970-01-01T00:00 of the local clock, whatever zone. No zone, no clock here.
"""

from bisect import bisect_left
from calendar import monthrange
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import cached_property
from typing import Final

DAY: Final = 86_400
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
CYCLE_YEARS: Final = 400  # the Gregorian calendar repeats, weekdays included
LAST_YEAR: Final = 9980


class DayRule(StrEnum):
    """How day-of-month and day-of-week go together."""

    BOTH = "both"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class DayOfMonth:
    """Days of the month: plain ones, the n-th before the last, and Monday-to-Friday days nearest to them."""

    days: frozenset[int]
    before_last: frozenset[int] = frozenset()
    nearest: frozenset[int] = frozenset()
    nearest_before_last: frozenset[int] = frozenset()
    last_weekday: bool = False

    def of(self, year: int, month: int, first: int, length: int) -> set[int]:
        """The days of one month; `first` is the weekday of its first day, 0 = Monday."""
        found = {day for day in self.days if day <= length}
        found |= {length - n for n in self.before_last if length - n >= 1}
        found |= {_nearest(day, first, length) for day in self.nearest if day <= length}
        found |= {_nearest(length - n, first, length) for n in self.nearest_before_last if length - n >= 1}
        if self.last_weekday:
            found.add(_nearest_back(length, first))
        return found


@dataclass(frozen=True, slots=True)
class DayOfWeek:
    """Weekdays, 0 = Sunday: every one, the k-th of the month, the last of the month."""

    days: frozenset[int]
    nth: frozenset[tuple[int, int]] = frozenset()
    last: frozenset[int] = frozenset()

    def of(self, first: int, length: int) -> set[int]:
        """The days of one month."""
        found: set[int] = set()
        for weekday in self.days:
            found.update(range(_first_of(weekday, first), length + 1, 7))
        for weekday, k in self.nth:
            day = _first_of(weekday, first) + 7 * (k - 1)
            if day <= length:
                found.add(day)
        for weekday in self.last:
            day = _first_of(weekday, first)
            found.add(day + (length - day) // 7 * 7)
        return found


def _first_of(weekday: int, first: int) -> int:
    """The first day of a month that is the weekday (0 = Sunday); `first` has 0 = Monday."""
    return (weekday - 1 - first) % 7 + 1


def _nearest(day: int, first: int, length: int) -> int:
    weekday = (first + day - 1) % 7
    if weekday == 5:
        return day - 1 if day > 1 else day + 2
    if weekday == 6:
        return day + 1 if day < length else day - 2
    return day


def _nearest_back(day: int, first: int) -> int:
    weekday = (first + day - 1) % 7
    return day - (weekday - 4) if weekday > 4 else day


@dataclass(frozen=True)
class CronRule:
    """The compiled expression. `is_wildcard`: its minute or hour field begins with `*` (Vixie's rule for DST)."""

    text: str
    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: frozenset[int]
    day_of_month: DayOfMonth | None
    day_of_week: DayOfWeek | None
    day_rule: DayRule
    is_wildcard: bool
    years: frozenset[int] | None = None
    _months: dict[int, tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def day_minutes(self) -> tuple[int, ...]:
        """The matching minutes of a day."""
        return tuple(hour * 60 + minute for hour in self.hours for minute in self.minutes)

    @property
    def times_a_day(self) -> int:
        """How often it matches on a matching day."""
        return len(self.day_minutes) * len(self.seconds)

    def days_in(self, year: int, month: int) -> tuple[int, ...]:
        """The matching days of a month, ascending."""
        key = year * 12 + month - 1
        found = self._months.get(key)
        if found is None:
            if len(self._months) > 4800:
                self._months.clear()
            found = self._months[key] = self._days_in(year, month)
        return found

    def _days_in(self, year: int, month: int) -> tuple[int, ...]:
        if month not in self.months or (self.years is not None and year not in self.years):
            return ()
        first, length = monthrange(year, month)
        if self.day_of_month is None and self.day_of_week is None:
            return tuple(range(1, length + 1))
        if self.day_of_week is None:
            assert self.day_of_month is not None
            return tuple(sorted(self.day_of_month.of(year, month, first, length)))
        by_week = self.day_of_week.of(first, length)
        if self.day_of_month is None:
            return tuple(sorted(by_week))
        by_month = self.day_of_month.of(year, month, first, length)
        both = self.day_rule is DayRule.BOTH
        return tuple(sorted(by_month & by_week if both else by_month | by_week))

    def next_day(self, day: int) -> int | None:
        """The first matching day at or after `day` (days since 1970-01-01); None: never, decided over a whole cycle."""
        here = date.fromordinal(day + _EPOCH_DAY)
        year, month = here.year, here.month
        days = self.days_in(year, month)
        i = bisect_left(days, here.day)
        if i < len(days):
            return day + days[i] - here.day
        stop = min(year + CYCLE_YEARS, LAST_YEAR)
        if self.years is not None:
            stop = min(stop, max(self.years))
        while True:
            month += 1
            if month == 13:
                year, month = year + 1, 1
            if year > stop:
                return None
            if self.years is not None and year not in self.years:
                month = 12
                continue
            if month in self.months:
                days = self.days_in(year, month)
                if days:
                    return date(year, month, days[0]).toordinal() - _EPOCH_DAY

    def next_wall(self, wall: int) -> int | None:
        """The first matching wall time at or after `wall`."""
        day, second = divmod(wall, DAY)
        found = self.next_day(day)
        if found is None:
            return None
        minutes, seconds = self.day_minutes, self.seconds
        if found == day:
            minute, second = divmod(second, 60)
            i = bisect_left(minutes, minute)
            if i < len(minutes):
                if minutes[i] != minute:
                    return day * DAY + minutes[i] * 60 + seconds[0]
                j = bisect_left(seconds, second)
                if j < len(seconds):
                    return day * DAY + minute * 60 + seconds[j]
                if i + 1 < len(minutes):
                    return day * DAY + minutes[i + 1] * 60 + seconds[0]
            found = self.next_day(day + 1)
            if found is None:
                return None
        return found * DAY + minutes[0] * 60 + seconds[0]

    def count_walls(self, low: int, high: int) -> int:
        """How many wall times match in `[low, high)`; whole days are counted, not walked."""
        if low >= high:
            return 0
        first, second = divmod(low, DAY)
        last, rest = divmod(high, DAY)
        if first == last:
            return self._count_in_day(first, second, rest)
        return (
            self._count_in_day(first, second, DAY)
            + self._count_days(first + 1, last) * self.times_a_day
            + self._count_in_day(last, 0, rest)
        )

    def _count_in_day(self, day: int, low: int, high: int) -> int:
        if low >= high or self.next_day(day) != day:
            return 0
        return self._times_before(high) - self._times_before(low)

    def _times_before(self, second: int) -> int:
        minute, rest = divmod(second, 60)
        i = bisect_left(self.day_minutes, minute)
        n = i * len(self.seconds)
        if i < len(self.day_minutes) and self.day_minutes[i] == minute:
            n += bisect_left(self.seconds, rest)
        return n

    def _count_days(self, low: int, high: int) -> int:
        if low >= high:
            return 0
        here, end = date.fromordinal(low + _EPOCH_DAY), date.fromordinal(high + _EPOCH_DAY)
        n, year, month = 0, here.year, here.month
        while (year, month) <= (end.year, end.month):
            days = self.days_in(year, month)
            start = bisect_left(days, here.day) if (year, month) == (here.year, here.month) else 0
            stop = bisect_left(days, end.day) if (year, month) == (end.year, end.month) else len(days)
            n += max(stop - start, 0)
            year, month = (year + 1, 1) if month == 12 else (year, month + 1)
        return n
