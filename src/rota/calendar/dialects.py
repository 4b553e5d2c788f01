"""The five dialects: which fields, which forms, how the two day fields go together.

unix5 and seconds6 follow Vixie cron with common additions, quartz7 the Quartz scheduler, aws6 Amazon EventBridge
Scheduler, jenkinsH Jenkins. The exact rules are in docs/time.md.
"""

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from typing import Final

from rota.calendar.days import DayForms, read_day_of_month, read_day_of_week
from rota.calendar.errors import TimingError
from rota.calendar.fields import MONTHS, WEEKDAYS, FieldForm, read_plain, refuse, split_fields
from rota.calendar.hashing import Draws, draws
from rota.calendar.rule import CronRule, DayOfMonth, DayOfWeek, DayRule


class Dialect(StrEnum):
    """The dialects an expression can be written in."""

    UNIX5 = "unix5"
    SECONDS6 = "seconds6"
    QUARTZ7 = "quartz7"
    AWS6 = "aws6"
    JENKINS_H = "jenkinsH"


_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_H_MACROS: Final = {
    "@yearly": "H H H H *",
    "@annually": "H H H H *",
    "@monthly": "H H H * *",
    "@weekly": "H H * * H",
    "@daily": "H H * * *",
    "@midnight": "H H(0-2) * * *",
    "@hourly": "H * * * *",
}

_UNIX_SECOND = FieldForm(name="second", low=0, high=59)
_UNIX_MINUTE = FieldForm(name="minute", low=0, high=59)
_UNIX_HOUR = FieldForm(name="hour", low=0, high=23)
_UNIX_DAY = FieldForm(name="day-of-month", low=1, high=31)
_UNIX_MONTH = FieldForm(name="month", low=1, high=12, names=MONTHS)
_UNIX_WEEKDAY = FieldForm(
    name="day-of-week", low=0, high=7, names=WEEKDAYS, wraps=True, wrap_low=0, wrap_high=6, step_last=6
)
_UNIX_DAYS = DayForms()

_QUARTZ_SECOND = FieldForm(name="second", low=0, high=59, wraps=True, slash_step=True, most_step=59)
_QUARTZ_MINUTE = replace(_QUARTZ_SECOND, name="minute")
_QUARTZ_HOUR = FieldForm(name="hour", low=0, high=23, wraps=True, slash_step=True, most_step=23)
_QUARTZ_DAY = FieldForm(name="day-of-month", low=1, high=31, wraps=True, slash_step=True, most_step=31)
_QUARTZ_MONTH = FieldForm(name="month", low=1, high=12, names=MONTHS, wraps=True, slash_step=True, most_step=12)
_QUARTZ_WEEKDAY = FieldForm(
    name="day-of-week",
    low=1,
    high=7,
    names={name: value + 1 for name, value in WEEKDAYS.items()},
    wraps=True,
    slash_step=True,
    most_step=7,
)
_YEAR = FieldForm(name="year", low=1970, high=2199, slash_step=True)
_QUARTZ_DAYS = DayForms(before_last=True, in_lists=False, alone_last=True, to_sunday0=lambda value: value - 1)
_AWS_DAYS = DayForms(before_last=False, in_lists=False, alone_last=True, to_sunday0=lambda value: value - 1)

_JENKINS = tuple(
    FieldForm(name=name, low=low, high=high, open_step=False, hashed=hashed)
    for name, low, high, hashed in (
        ("minute", 0, 59, (0, 59)),
        ("hour", 0, 23, (0, 23)),
        ("day-of-month", 1, 31, (1, 28)),
        ("month", 1, 12, (1, 12)),
        ("day-of-week", 0, 7, (0, 6)),
    )
)
_JENKINS_DAYS = DayForms(month_specials=False, week_specials=False)


def compile_cron(text: str, dialect: Dialect, *, hash_key: str | None = None, hash_name: str = "jenkins") -> CronRule:
    """Compile an expression. Raises TimingError with field, item and reason. A date that never comes is not an error
    here."""
    if dialect is Dialect.JENKINS_H:
        return _jenkins(text, draws(hash_name, hash_key) if hash_key is not None or hash_name != "jenkins" else None)
    return _compile(text, dialect)


@lru_cache(maxsize=16_384)
def _compile(text: str, dialect: Dialect) -> CronRule:
    match dialect:
        case Dialect.UNIX5:
            return _unix(text, has_seconds=False)
        case Dialect.SECONDS6:
            return _unix(text, has_seconds=True)
        case Dialect.QUARTZ7:
            return _quartz(text)
        case _:
            return _aws(text)


def _expect(fields: list[str], numbers: tuple[int, ...], dialect: str, order: str) -> None:
    if len(fields) not in numbers:
        wanted = " or ".join(str(n) for n in numbers)
        raise TimingError(
            f"{dialect} has {wanted} fields ({order}), this has {len(fields)}", field="timing.cron", code="bad_cron"
        )


def _macro(fields: list[str], macros: dict[str, str], *, ignore_case: bool) -> list[str] | None:
    if len(fields) != 1 or not fields[0].startswith("@"):
        return None
    name = fields[0].lower() if ignore_case else fields[0]
    if name not in macros:
        raise TimingError(
            f"unknown macro {fields[0]!r}", field="timing.cron", code="bad_cron", hint=f"there are {', '.join(macros)}"
        )
    return macros[name].split()


def _unix(text: str, *, has_seconds: bool) -> CronRule:
    fields = split_fields(text)
    macro = _macro(fields, _MACROS, ignore_case=True)
    if macro is not None:
        fields = ["0", *macro] if has_seconds else macro
    if has_seconds:
        _expect(fields, (6,), "seconds6", "second minute hour day-of-month month day-of-week")
        seconds = read_plain(fields.pop(0), _UNIX_SECOND)
    else:
        _expect(fields, (5,), "unix5", "minute hour day-of-month month day-of-week")
        seconds = frozenset({0})
    minute, hour, day, month, weekday = fields
    # A crontab whose step leaves its field once only is a mistake that users met as "every 90 minutes runs hourly".
    minute_form = _UNIX_MINUTE if has_seconds else replace(_UNIX_MINUTE, most_step=59)
    hour_form = _UNIX_HOUR if has_seconds else replace(_UNIX_HOUR, most_step=24)
    open_forms = ("*", "?", "*/1")
    return _rule(
        text,
        fields=fields,
        seconds=seconds,
        minutes=read_plain(minute, minute_form),
        hours=read_plain(hour, hour_form),
        day_of_month=None if day in open_forms else read_day_of_month(day, _UNIX_DAY, _UNIX_DAYS),
        months=read_plain(month, _UNIX_MONTH),
        day_of_week=None if weekday in open_forms else read_day_of_week(weekday, _UNIX_WEEKDAY, _UNIX_DAYS),
        day_rule=DayRule.EITHER,
    )


def _rule(
    text: str,
    *,
    fields: list[str],
    seconds: frozenset[int],
    minutes: frozenset[int],
    hours: frozenset[int],
    day_of_month: DayOfMonth | None,
    months: frozenset[int],
    day_of_week: DayOfWeek | None,
    day_rule: DayRule,
    years: frozenset[int] | None = None,
) -> CronRule:
    """`fields` are those from the minute on: they tell whether the expression is a wildcard one."""
    return CronRule(
        text=text,
        seconds=tuple(sorted(seconds)),
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        months=months,
        day_of_month=day_of_month,
        day_of_week=day_of_week,
        day_rule=day_rule,
        is_wildcard=fields[0].startswith(("*", "/")) or fields[1].startswith(("*", "/")),
        years=years,
    )


def _one_open(day: str, weekday: str) -> None:
    if (day == "?") == (weekday == "?"):
        raise TimingError("exactly one of day-of-month and day-of-week must be ?", field="timing.cron", code="bad_cron")


def _quartz(text: str) -> CronRule:
    fields = split_fields(text)
    _expect(fields, (6, 7), "quartz7", "second minute hour day-of-month month day-of-week [year]")
    second, minute, hour, day, month, weekday, *year = fields
    _one_open(day, weekday)
    return _rule(
        text,
        fields=fields[1:],
        seconds=read_plain(second, _QUARTZ_SECOND),
        minutes=read_plain(minute, _QUARTZ_MINUTE),
        hours=read_plain(hour, _QUARTZ_HOUR),
        day_of_month=_quartz_day(day, _QUARTZ_DAYS),
        months=read_plain(month, _QUARTZ_MONTH),
        day_of_week=_quartz_weekday(weekday, _QUARTZ_DAYS),
        day_rule=DayRule.BOTH,
        years=read_plain(year[0], _YEAR) if year and year[0] != "*" else None if not year else _all_years(),
    )


def _all_years() -> frozenset[int]:
    return frozenset(range(_YEAR.low, _YEAR.high + 1))


def _quartz_day(text: str, forms: DayForms) -> DayOfMonth | None:
    return None if text in ("?", "*") else read_day_of_month(text, _QUARTZ_DAY, forms)


def _quartz_weekday(text: str, forms: DayForms) -> DayOfWeek | None:
    return None if text in ("?", "*") else read_day_of_week(text, _QUARTZ_WEEKDAY, forms)


def _aws(text: str) -> CronRule:
    split_fields(text)
    inner = text.removeprefix("cron(").removesuffix(")")
    if len(inner) != len(text) - 6 or inner != inner.strip():
        raise TimingError(
            "expected cron(minute hour day-of-month month day-of-week year)", field="timing.cron", code="bad_cron"
        )
    fields = inner.split()
    _expect(fields, (6,), "aws6", "minute hour day-of-month month day-of-week year")
    minute, hour, day, month, weekday, year = fields
    _one_open(day, weekday)
    forms = [replace(form, slash_step=False) for form in (_QUARTZ_MINUTE, _QUARTZ_HOUR, _QUARTZ_MONTH, _YEAR)]
    for form, field in zip((_QUARTZ_DAY, _QUARTZ_WEEKDAY), (day, weekday), strict=True):
        if any(item.startswith("/") for item in field.split(",")):
            refuse(form, field, "a step needs a value, a range or * before it")
    return _rule(
        text,
        fields=fields,
        seconds=frozenset({0}),
        minutes=read_plain(minute, forms[0]),
        hours=read_plain(hour, forms[1]),
        day_of_month=_quartz_day(day, _AWS_DAYS),
        months=read_plain(month, forms[2]),
        day_of_week=_quartz_weekday(weekday, _AWS_DAYS),
        day_rule=DayRule.BOTH,
        years=_all_years() if year == "*" else read_plain(year, forms[3]),
    )


def _jenkins(text: str, draw: Draws | None) -> CronRule:
    fields = split_fields(text)
    fields = _macro(fields, _H_MACROS, ignore_case=False) or fields
    _expect(fields, (5,), "jenkinsH", "minute hour day-of-month month day-of-week")
    minute, hour, day, month, weekday = fields
    minutes = read_plain(minute, _JENKINS[0], draw)
    hours = read_plain(hour, _JENKINS[1], draw)
    days = read_day_of_month(day, _JENKINS[2], _JENKINS_DAYS, draw)
    months = read_plain(month, _JENKINS[3], draw)
    weekdays = read_day_of_week(weekday, _JENKINS[4], _JENKINS_DAYS, draw)
    return _rule(
        text,
        fields=fields,
        seconds=frozenset({0}),
        minutes=minutes,
        hours=hours,
        day_of_month=None if len(days.days) == 31 else days,
        months=months,
        day_of_week=None if len(weekdays.days) == 7 else weekdays,
        day_rule=DayRule.BOTH,
    )


def has_hash(text: str) -> bool:
    """Whether an expression of five fields uses H (or a macro cannot tell: those are never hashed by default)."""
    return any(item.startswith("H") for part in text.split() for item in part.split(","))


DrawFunction = Callable[[int], int]
