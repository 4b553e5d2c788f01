"""Reading a document member by member, and telling all its faults at once, each with the path of its member."""

import math
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta

import orjson

from rota.base.errors import FieldError, ValidationFailed
from rota.base.json import clean_text
from rota.calendar import TimingError, format_duration, parse_duration

MASK = "***"
_ECHO_LIMIT = 100
_MOST_ERRORS = 100
_LONGEST_PATH = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_ESCAPED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(2500, 1, 1, tzinfo=UTC)


class Fields:
    """The faults found so far in one document. A reading method answers None when it has added one."""

    __slots__ = ("errors",)

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def add(self, field: str, message: str, value: object = None, hint: str = "") -> None:
        """Note one fault; of hundreds the first ones. Leave value out where it may hold a secret."""
        if len(self.errors) < _MOST_ERRORS:
            shown = clean_text(field, limit=_LONGEST_PATH)
            self.errors.append(FieldError(field=shown, message=message, value=_echo(value), hint=hint))

    def raise_if_any(self) -> None:
        """Raise ValidationFailed with all faults, if there are any."""
        if self.errors:
            raise ValidationFailed(tuple(self.errors))

    def members(self, field: str, value: object, known: Collection[str]) -> Mapping[str, object] | None:
        """The value as an object that has no other members than the known ones."""
        if not isinstance(value, Mapping):
            self.add(field, "must be an object", value)
            return None
        if not value.keys() <= set(known):
            for name in value:
                if name not in known:
                    path = f"{field}.{name}" if field else str(name)
                    self.add(path, "is not known", hint=f"known are: {', '.join(sorted(known))}")
        return value

    def text(self, field: str, value: object, most: int, *, least: int = 1) -> str | None:
        """A text of least to most characters without control characters or lone surrogates."""
        if not isinstance(value, str):
            self.add(field, "must be a text", value)
        elif not least <= len(value) <= most:
            self.add(field, f"must have {least} to {most} characters, has {len(value)}", value)
        elif value.isascii() and value.isprintable():
            return value
        elif found := _CONTROL.search(value):
            self.add(field, f"must not hold the character U+{ord(found[0]):04X}", hint="leave control characters out")
        else:
            return value
        return None

    def choice(self, field: str, value: object, choices: Collection[str]) -> str | None:
        """One of the choices."""
        if isinstance(value, str) and value in choices:
            return value
        self.add(field, f"must be one of {', '.join(choices)}", value)
        return None

    def whole(self, field: str, value: object, least: int, most: int) -> int | None:
        """A whole number from least to most; true and false are none."""
        if isinstance(value, bool) or not isinstance(value, int):
            self.add(field, "must be a whole number", value)
        elif not least <= value <= most:
            self.add(field, f"must be from {least} to {most}", value)
        else:
            return value
        return None

    def duration(self, field: str, value: object, least: timedelta, most: timedelta) -> timedelta | None:
        """A length of time such as 90s, 15m, PT1H, or a number of seconds."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self.add(field, "must be a duration", value, hint="write it as 30s, 15m, 1h30m, or a number of seconds")
            return None
        try:
            length = parse_duration(value)
        except (TimingError, ValueError, OverflowError) as reason:
            self.add(field, str(reason), value, hint="write it as 30s, 15m, 1h30m, or a number of seconds")
            return None
        if not least <= length <= most:
            self.add(field, f"must be from {format_duration(least)} to {format_duration(most)}", value)
            return None
        return length

    def instant(self, field: str, value: object) -> datetime | None:
        """An RFC 3339 instant with its offset, as aware UTC."""
        if not isinstance(value, str) or not _INSTANT.fullmatch(value):
            self.add(
                field,
                "must be an instant with its offset",
                value,
                hint="write it as 2026-12-24T09:00:00Z or with +01:00",
            )
            return None
        try:
            moment = datetime.fromisoformat(value.upper()).astimezone(UTC)
        except (ValueError, OverflowError) as reason:
            self.add(field, f"is not an instant: {reason}", value)
            return None
        if not _EARLIEST <= moment < _LATEST:
            self.add(field, "must be between 1970 and 2499", value)
            return None
        return moment


def canonical_json(value: object) -> bytes:
    """The value as JSON with sorted members: the same value has the same bytes."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def has_nul(text: bytes) -> bool:
    """Whether JSON text holds an escaped NUL, which PostgreSQL cannot keep."""
    return b"\\u0000" in text and _ESCAPED_NUL.search(text) is not None


def format_instant(moment: datetime) -> str:
    """An aware instant as RFC 3339 in UTC, with a fraction only if there is one."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def unsafe_member(value: object, path: str, depth: int) -> tuple[str, str] | None:
    """The path of the first member that cannot be kept, and why: NUL, lone surrogate, NaN, too deep, not JSON."""
    if depth < 0:
        return path, "is nested too deeply"
    match value:
        case None | bool():
            return None
        case int():
            return None if -(2**63) <= value < 2**64 else (path, "must fit into 64 bits")
        case float():
            return None if math.isfinite(value) else (path, "must be a finite number")
        case str():
            if "\0" in value:
                return path, "must not hold NUL (U+0000)"
            return (path, "must not hold lone surrogates") if _has_surrogate(value) else None
        case Mapping():
            for name, member in value.items():
                if not isinstance(name, str) or "\0" in name or _has_surrogate(name):
                    return path, "has a member whose name cannot be kept"
                if found := unsafe_member(member, f"{path}.{name}", depth - 1):
                    return found
            return None
        case list() | tuple():
            for number, member in enumerate(value):
                if found := unsafe_member(member, f"{path}[{number}]", depth - 1):
                    return found
            return None
        case _:
            return path, f"is of type {type(value).__name__}, which JSON does not have"


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def _echo(value: object) -> object:
    match value:
        case str():
            return clean_text(value, limit=_ECHO_LIMIT)
        case bool():
            return value
        case int():
            return value if abs(value) < 2**53 else f"a number of {value.bit_length()} bits"
        case float():
            return value if math.isfinite(value) else str(value)
        case _:
            return None
