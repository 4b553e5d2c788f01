"""RFC 3339 in and out, and the integers in between."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from rota.calendar.errors import TimingError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_WALL = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(\.[0-9]{1,6})?)?")


def read_instant(text: object, *, field: str) -> datetime:
    """An RFC 3339 instant as aware UTC, microseconds kept. Raises TimingError for `field`."""
    found = _RFC3339.fullmatch(text) if isinstance(text, str) else None
    if found is not None:
        try:
            offset = timedelta(0)
            if found[8] not in "Zz":
                hours, minutes = int(found[8][1:3]), int(found[8][4:6])
                offset = timedelta(hours=hours, minutes=minutes) if hours < 24 and minutes < 60 else timedelta.max
                offset = offset * (-1 if found[8][0] == "-" else 1)
            micros = int((found[7] or ".0")[1:7].ljust(6, "0"))
            numbers = [int(found[i]) for i in range(1, 7)]
            year, month, day, hour, minute, second = numbers
            return datetime(year, month, day, hour, minute, second, micros, tzinfo=UTC) - offset
        except (ValueError, OverflowError):
            pass
    raise TimingError(
        f"{text!r} is not an instant"[:120],
        field=field,
        code="bad_instant",
        hint="write RFC 3339 with an offset, for example 2026-12-24T09:00:00Z",
    )


def read_wall(text: str, *, field: str) -> datetime:
    """A wall time without offset, naive. Raises TimingError for `field`."""
    found = _WALL.fullmatch(text)
    if found is not None:
        try:
            micros = int((found[7] or ".0")[1:].ljust(6, "0"))
            numbers = [int(found[i] or 0) for i in range(1, 7)]
            year, month, day, hour, minute, second = numbers
            return datetime(year, month, day, hour, minute, second, micros)  # noqa: DTZ001 - a wall time has no zone
        except ValueError:
            pass
    raise TimingError(
        f"{text!r} is not a wall time"[:120], field=field, code="bad_wall_time", hint="write 2026-12-24T09:00:00"
    )


def write_instant(at: datetime) -> str:
    """RFC 3339 in UTC, `Z`; a fraction only if there is one."""
    text = at.astimezone(UTC).replace(tzinfo=None).isoformat()
    return text.rstrip("0") + "Z" if "." in text else text + "Z"


def to_seconds(at: datetime) -> int:
    """Whole seconds since 1970, rounded down."""
    return (at - EPOCH) // _SECOND


def from_seconds(seconds: int) -> datetime:
    """The instant of whole seconds since 1970."""
    return EPOCH + timedelta(seconds=seconds)
