"""The `timing` object of a schedule, read into a timing: the one place that knows its JSON."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from rota.calendar.core import TimingCore, refuse
from rota.calendar.dialects import Dialect, compile_cron, has_hash
from rota.calendar.durations import format_duration, parse_duration
from rota.calendar.errors import TimingError
from rota.calendar.exclusions import Exclusions
from rota.calendar.instants import EPOCH, from_seconds, read_instant, read_wall, to_seconds, write_instant
from rota.calendar.patterns import EveryDays, EveryMonths, OneWall
from rota.calendar.policy import DstPolicy, Fold, Gap, Wildcards, read_policy
from rota.calendar.rule import CronRule
from rota.calendar.walk import Pattern, Walk
from rota.calendar.zone import Zone, get_zone

SHORTEST_EVERY: Final = timedelta(seconds=1)
_MEMBERS: Final = {
    "cron": {"cron", "time_zone", "dst", "dialect", "anchor"},
    "every": {"every", "anchor", "time_zone", "at", "dst"},
    "at": {"at", "time_zone", "dst"},
}
_CALENDAR_UNITS: Final = {"days": 1, "weeks": 7, "months": 1, "years": 12}
_CALENDAR_TEXT = re.compile(r"([0-9]{1,4})\s*(day|week|month|year)s?")
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")
_AWS_RATE = re.compile(r"rate\(([0-9]{1,9}) (minutes?|hours?|days?)\)")
_AWS_AT = re.compile(r"at\(([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})\)")


def read_timing(
    data: Mapping[str, object], *, hash_key: str, exclusions: Sequence[object] | Exclusions | None
) -> TimingCore:
    """See Timing.parse."""
    if not isinstance(data, Mapping):
        raise refuse("expected an object with one of cron, every, at")
    given = {str(name): value for name, value in data.items() if value is not None}
    kinds: list[str] = [kind for kind in ("cron", "every") if kind in given]
    kinds = kinds or [kind for kind in ("at",) if kind in given]
    if len(kinds) != 1 or ("cron" in given and "at" in given):
        raise refuse(
            "needs exactly one of cron, every, at", hint='for example {"cron": "0 9 * * *", "time_zone": "UTC"}'
        )
    unknown = sorted(set(given) - _MEMBERS[kinds[0]])
    if unknown:
        known = ", ".join(sorted(_MEMBERS[kinds[0]]))
        raise refuse(
            f"unknown member {unknown[0]!r}", field=f"timing.{unknown[0]}"[:80], hint=f"known with {kinds[0]}: {known}"
        )
    match kinds[0]:
        case "cron":
            made = _read_cron(given, hash_key)
        case "every":
            made = _read_every(given, hash_key)
        case _:
            made = _read_at(given)
    if exclusions is None:
        return made
    found = exclusions if isinstance(exclusions, Exclusions) else Exclusions.parse(exclusions, field="calendar")
    return made.with_exclusions(found) if found else made


def _text(given: Mapping[str, object], name: str, default: str | None = None) -> str:
    value = given.get(name, default)
    if not isinstance(value, str):
        raise refuse("expected a text", field=f"timing.{name}")
    return value


def _zone(given: Mapping[str, object]) -> Zone:
    return get_zone(_text(given, "time_zone", "UTC"))


def _choose_dialect(given: Mapping[str, object], text: str) -> Dialect:
    """The named dialect; without a name five fields are unix5, or jenkinsH when they use H."""
    if "dialect" in given:
        try:
            return Dialect(_text(given, "dialect"))
        except ValueError:
            known = ", ".join(str(dialect) for dialect in Dialect)
            raise refuse(
                f"unknown dialect {given['dialect']!r}"[:80], field="timing.dialect", hint=f"one of {known}"
            ) from None
    if text.startswith(("cron(", "rate(", "at(")):
        return Dialect.AWS6
    if len(text.split()) == 6:
        raise refuse(
            "six fields can be read with seconds first (seconds6) or with a year last (aws6, quartz7 without year)",
            field="timing.cron",
            code="ambiguous_cron",
            hint='name the dialect, for example "dialect": "seconds6"',
        )
    if len(text.split()) == 7:
        return Dialect.QUARTZ7
    return Dialect.JENKINS_H if has_hash(text) else Dialect.UNIX5


def _read_cron(given: Mapping[str, object], hash_key: str) -> TimingCore:
    text = _text(given, "cron")
    dialect = _choose_dialect(given, text)
    if dialect is Dialect.AWS6 and text.startswith("rate("):
        return _read_aws_rate(given, text)
    if dialect is Dialect.AWS6 and text.startswith("at("):
        return _read_aws_at(given, text)
    if "anchor" in given:
        raise refuse("an anchor goes with every, or with rate(...)", field="timing.anchor")
    zone = _zone(given)
    policy = read_policy(given.get("dst"))
    rule = compile_cron(text, dialect, hash_key=hash_key or None)
    if rule.next_wall(to_seconds(datetime(1970, 1, 1, tzinfo=UTC))) is None:
        raise refuse(
            f"{text!r} never fires: no calendar has such a date"[:200],
            field="timing.cron",
            code="never_fires",
            hint="check day-of-month against month",
        )
    resolved = resolve_hash(text, rule, hash_key) if dialect is Dialect.JENKINS_H else " ".join(text.split())
    document = {"cron": resolved, "dialect": str(dialect), "dst": policy.to_json(), "time_zone": zone.name}
    return TimingCore(
        kind="cron", document=document, zone=zone, pattern=rule, policy=policy, walk=Walk(rule, zone, policy)
    )


def resolve_hash(text: str, rule: CronRule, hash_key: str) -> str:
    """The expression with every H replaced by what it stands for, so that no key is needed to read it again."""
    if not (has_hash(text) or text.startswith("@")):
        return " ".join(text.split())
    days = sorted(rule.day_of_month.days) if rule.day_of_month is not None else None
    weekdays = sorted(rule.day_of_week.days) if rule.day_of_week is not None else None
    # `*` is kept where it was written: it decides how the clock changes are followed.
    parts = text.split() if not text.startswith("@") else ["", "", "*", "*", "*"]
    values: list[Sequence[int] | None] = [rule.minutes, rule.hours, days, sorted(rule.months), weekdays]
    fulls = (60, 24, 31, 12, 7)
    written = []
    for part, value, full in zip(parts, values, fulls, strict=True):
        is_open = value is None or len(value) == full
        starred = part.startswith("*") and not has_hash(part)
        written.append(part if starred else "*" if is_open else ",".join(str(n) for n in value or ()))
    return " ".join(written)


def _read_aws_rate(given: Mapping[str, object], text: str) -> TimingCore:
    found = _AWS_RATE.fullmatch(text)
    if found is None or int(found[1]) < 1:
        raise refuse("expected rate(value unit)", field="timing.cron", code="bad_cron", hint="rate(5 minutes)")
    period = parse_duration(f"{found[1]}{found[2][0]}", field="timing.cron")
    return _every(period, _anchor(given, "", period))


def _read_aws_at(given: Mapping[str, object], text: str) -> TimingCore:
    found = _AWS_AT.fullmatch(text)
    if found is None:
        raise refuse("expected at(yyyy-mm-ddThh:mm:ss)", field="timing.cron", code="bad_cron")
    return _read_at(
        {"at": found[1], **{name: given[name] for name in ("time_zone", "dst") if name in given}}, "timing.cron"
    )


def _every(period: timedelta, anchor: datetime) -> TimingCore:
    document = {"every": format_duration(period), "anchor": write_instant(anchor)}
    return TimingCore(kind="every", document=document, period=period, anchor=anchor)


def _anchor(given: Mapping[str, object], hash_key: str, period: timedelta) -> datetime:
    if "anchor" in given:
        return read_instant(given["anchor"], field="timing.anchor")
    return default_anchor(hash_key, period)


def default_anchor(hash_key: str, every: timedelta) -> datetime:
    """The anchor of an interval that names none: 1970 plus a share of the interval hashed from the key, in whole
    seconds.

    So schedules do not fall due together, and every process that knows the key finds the same instant.
    """
    seconds = every // timedelta(seconds=1)
    if not hash_key or seconds < 2:
        return EPOCH
    digest = hashlib.md5(hash_key.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return from_seconds((int.from_bytes(digest[:8], "big") & (2**63 - 1)) % seconds)


def _read_every(given: Mapping[str, object], hash_key: str) -> TimingCore:
    calendar = _calendar_units(given["every"])
    if calendar is not None and (
        "at" in given or isinstance(given["every"], Mapping) or calendar[1] not in ("days", "weeks")
    ):
        return _read_calendar(given, *calendar)
    for name in ("at", "dst"):
        if name in given:
            raise refuse("goes with days, weeks, months or years only", field=f"timing.{name}")
    period = parse_duration(given["every"], field="timing.every")
    if period < SHORTEST_EVERY or period % SHORTEST_EVERY:
        raise refuse("must be whole seconds, at least 1s", field="timing.every", code="bad_duration")
    if "time_zone" in given:
        _zone(given)
    return _every(period, _anchor(given, hash_key, period))


def _calendar_units(value: object) -> tuple[int, str] | None:
    if isinstance(value, Mapping):
        if len(value) != 1 or next(iter(value)) not in _CALENDAR_UNITS:
            raise refuse("expected one of days, weeks, months, years", field="timing.every", hint='{"weeks": 2}')
        unit, n = next(iter(value.items()))
        if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= 9999:
            raise refuse("must be a number from 1 to 9999", field=f"timing.every.{unit}")
        return n, str(unit)
    found = _CALENDAR_TEXT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return None
    if int(found[1]) < 1:
        raise refuse("must be at least 1", field="timing.every")
    return int(found[1]), found[2] + "s"


def _read_calendar(given: Mapping[str, object], n: int, unit: str) -> TimingCore:
    zone = _zone(given)
    policy = read_policy(given.get("dst"))
    clock = _CLOCK.fullmatch(_text(given, "at", "00:00"))
    if clock is None:
        raise refuse(
            f"{given.get('at')!r} is not a time of day"[:80], field="timing.at", hint="write 09:00 or 09:00:30"
        )
    second = int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3] or 0)
    anchor = _anchor_date(given)
    first = (anchor - date(1970, 1, 1)).days
    pattern: Pattern
    if unit in ("days", "weeks"):
        pattern = EveryDays(n * _CALENDAR_UNITS[unit], first, second)
    else:
        pattern = EveryMonths(n * _CALENDAR_UNITS[unit], anchor.year * 12 + anchor.month - 1, anchor.day, second)
    document: dict[str, Any] = {
        "every": {unit: n},
        "at": f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}",
        "anchor": anchor.isoformat(),
        "dst": policy.to_json(),
        "time_zone": zone.name,
    }
    return TimingCore(
        kind="interval", document=document, zone=zone, pattern=pattern, policy=policy, walk=Walk(pattern, zone, policy)
    )


def _anchor_date(given: Mapping[str, object]) -> date:
    value = given.get("anchor", "1970-01-01")
    try:
        return date.fromisoformat(value[:10] if isinstance(value, str) else "")
    except ValueError:
        raise refuse(f"{value!r} is not a date"[:80], field="timing.anchor", hint="write 2026-09-15") from None


def _read_at(given: Mapping[str, object], field: str = "timing.at") -> TimingCore:
    text = _text(given, "at")
    zone = _zone(given)
    policy = read_policy(given.get("dst"))
    if re.search(r"([Zz]|[+-][0-9]{2}:[0-9]{2})$", text):
        at = read_instant(text, field=field)
        return TimingCore(kind="at", document={"at": write_instant(at), "time_zone": zone.name}, zone=zone, at=at)
    wall = read_wall(text, field=field)
    seconds = to_seconds(wall.replace(tzinfo=UTC))
    single = DstPolicy(policy.gap, Fold.SECOND if policy.fold is Fold.SECOND else Fold.FIRST, Wildcards.WALL)
    found = Walk(OneWall(seconds), zone, single).next_fire(seconds - 3 * 86_400)
    if found is None:
        raise refuse(
            f"{text} does not exist in {zone.name}: the clock jumps over it",
            field=field,
            code="wall_time_in_gap",
            hint='choose another time, or "dst": {"gap": "next_valid"} for the first instant after the jump',
        )
    at = from_seconds(found) + timedelta(microseconds=wall.microsecond)
    return TimingCore(kind="at", document={"at": write_instant(at), "time_zone": zone.name}, zone=zone, at=at)


__all__ = ["Gap", "TimingError", "default_anchor", "read_timing"]
