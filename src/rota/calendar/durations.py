"""Durations as people write them: `15m`, `1h30m`, `90s`, `PT15M`, or a number of seconds."""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Final

from rota.calendar.errors import TimingError

_SECONDS: Final[dict[str, str | int]] = {
    "ms": "0.001",
    "s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1,
    "m": 60, "min": 60, "mins": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hour": 3600, "hours": 3600,
    "d": 86_400, "day": 86_400, "days": 86_400,
    "w": 604_800, "week": 604_800, "weeks": 604_800,
}  # fmt: skip
_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([a-z]+)")
_ISO = re.compile(r"P(?:([0-9]+)W)?(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?")
_ISO_UNITS: Final = (604_800, 86_400, 3600, 60, 1)
_LONGEST: Final = timedelta(days=366 * 100)


def parse_duration(value: object, *, field: str = "duration") -> timedelta:
    """The duration a text or a number of seconds means. Days are 24 hours. Raises TimingError for `field`.

    Accepts `15m`, `1h30m`, `1h 30m`, `90s`, `250ms`, ISO 8601 (`PT1H30M`, weeks to seconds) and numbers; not negative.
    """
    seconds: Decimal | None = None
    if isinstance(value, timedelta):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = _number(value)
    elif isinstance(value, str) and len(value) <= 100:
        seconds = _iso(value.strip()) if value.strip().startswith("P") else _parts(value.strip().lower())
    if seconds is None or seconds > Decimal(_LONGEST.total_seconds()):
        raise TimingError(
            f"{value!r} is not a duration"[:120],
            field=field,
            code="bad_duration",
            hint="write 15m, 1h30m, 90s or PT15M",
        )
    return timedelta(microseconds=int(seconds * 1_000_000))


def _number(value: float) -> Decimal | None:
    if value != value or value in (float("inf"), float("-inf")) or value < 0:
        return None
    return Decimal(str(value))


def _parts(text: str) -> Decimal | None:
    total, end = Decimal(0), 0
    for found in _PART.finditer(text):
        unit = _SECONDS.get(found[2])
        if unit is None or text[end : found.start()].strip():
            return None
        total += Decimal(found[1]) * Decimal(unit)
        end = found.end()
    if end == 0:
        return Decimal(text) if re.fullmatch(r"[0-9]{1,12}", text) else None
    return total if not text[end:].strip() else None


def _iso(text: str) -> Decimal | None:
    found = _ISO.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    return sum(
        (Decimal(part) * unit for part, unit in zip(found.groups(), _ISO_UNITS, strict=True) if part), Decimal(0)
    )


def format_duration(duration: timedelta) -> str:
    """The shortest of our own forms: `1h30m`, `90s` becomes `1m30s`; zero is `0s`."""
    microseconds = duration // timedelta(microseconds=1)
    if microseconds == 0:
        return "0s"
    whole, rest = divmod(microseconds, 1_000_000)
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        n, whole = divmod(whole, size)
        if n:
            parts.append(f"{n}{unit}")
    if rest:
        text = f"{whole}.{rest:06d}".rstrip("0")
        parts.append(f"{text}s")
    elif whole:
        parts.append(f"{whole}s")
    return "".join(parts)
