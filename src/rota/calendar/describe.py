"""A timing in plain words."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from rota.calendar.core import TimingCore
from rota.calendar.durations import format_duration
from rota.calendar.instants import write_instant
from rota.calendar.preview import GAP_SKIPPED, preview
from rota.calendar.rule import CronRule

_WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS: Final = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_MAX_TIMES: Final = 4


def describe(timing: TimingCore) -> str:
    """For example `every weekday at 09:00 in America/New_York`."""
    match timing.kind:
        case "every":
            assert timing.period is not None
            assert timing.anchor is not None
            text = f"every {format_duration(timing.period)}, counted from {write_instant(timing.anchor)}"
        case "at":
            assert timing.at is not None
            text = f"once at {write_instant(timing.at)}"
        case "interval":
            text = _interval(timing)
        case _:
            assert isinstance(timing.pattern, CronRule)
            text = f"{_days(timing.pattern)} {_times(timing.pattern)} in {timing.time_zone}".strip()
    if timing.exclusions:
        text += f"; not on {len(timing.exclusions.ranges)} excluded ranges of days"
    lost = _next_lost(timing)
    return f"{text}; not on {lost}" if lost else text


def _next_lost(timing: TimingCore) -> str:
    if timing.kind not in ("cron", "interval") or timing.walk is None:
        return ""
    lost = [fire for fire in preview(timing, datetime.now(UTC), 1) if GAP_SKIPPED in fire.marks]
    return f"{lost[0].wall[:10]}, when the clock jumps over {lost[0].wall[11:16]}" if lost else ""


def _interval(timing: TimingCore) -> str:
    unit, n = next(iter(timing.document["every"].items()))
    each = f"every {unit[:-1]}" if n == 1 else f"every {n} {unit}"
    return f"{each} at {timing.document['at'][:5]} in {timing.time_zone}, counted from {timing.document['anchor']}"


def _times(rule: CronRule) -> str:
    if len(rule.seconds) == 1 and rule.seconds[0] == 0:
        if rule.times_a_day <= _MAX_TIMES:
            return "at " + ", ".join(f"{minute // 60:02d}:{minute % 60:02d}" for minute in rule.day_minutes)
        minutes = "every minute" if len(rule.minutes) == 60 else "at minute " + _numbers(rule.minutes, 60)
    else:
        minutes = f"at second {_numbers(rule.seconds, 60)} of minute {_numbers(rule.minutes, 60)}"
    return minutes + (" of every hour" if len(rule.hours) == 24 else f" of hour {_numbers(rule.hours, 24)}")


def _numbers(values: tuple[int, ...], full: int) -> str:
    if len(values) == full:
        return "every"
    steps = {later - earlier for earlier, later in pairwise(values)}
    if len(values) > 3 and len(steps) == 1:
        return f"{values[0]}-{values[-1]} in steps of {steps.pop()}"
    return ", ".join(str(value) for value in values)


def _days(rule: CronRule) -> str:
    parts = []
    if rule.day_of_week is not None:
        parts.append(_weekdays(rule))
    if rule.day_of_month is not None:
        parts.append(_month_days(rule))
    days = (" or " if rule.day_rule == "either" else " that is also ").join(parts) or "every day"
    if len(rule.months) < 12:
        days += " in " + ", ".join(_MONTHS[month - 1] for month in sorted(rule.months))
    return days


def _weekdays(rule: CronRule) -> str:
    week = rule.day_of_week
    assert week is not None
    words = []
    if week.days == frozenset({1, 2, 3, 4, 5}):
        words.append("every weekday")
    elif week.days:
        words.append("every " + ", ".join(_WEEKDAYS[day] for day in sorted(week.days)))
    words += [f"the {_ordinal(k)} {_WEEKDAYS[day]} of the month" for day, k in sorted(week.nth)]
    words += [f"the last {_WEEKDAYS[day]} of the month" for day in sorted(week.last)]
    return " and ".join(words)


def _month_days(rule: CronRule) -> str:
    month = rule.day_of_month
    assert month is not None
    words = ["day " + ", ".join(str(day) for day in sorted(month.days)) + " of the month"] if month.days else []
    words += [
        "the last day of the month" if n == 0 else f"{n} days before the last of the month"
        for n in sorted(month.before_last)
    ]
    words += [f"the weekday nearest to day {day}" for day in sorted(month.nearest)]
    words += [f"the weekday nearest to {n} days before the last" for n in sorted(month.nearest_before_last)]
    words += ["the last weekday of the month"] if month.last_weekday else []
    return " and ".join(words)


def _ordinal(n: int) -> str:
    return ("first", "second", "third", "fourth", "fifth")[n - 1]
