"""Time zones as intervals of constant offset, read from the tzdata package alone.

A zone is a list of segments `[start, end)` in seconds since 1970-01-01T00:00Z, each with one UTC offset. Everything
about gaps and folds follows from two neighbours: the offset grows -> a gap, it shrinks -> a fold. Offsets come from
PEP 615 (`zoneinfo`), so what lies behind the table's end follows its POSIX rule.
"""

import importlib.resources
import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo

import tzdata

from rota.calendar.errors import TimingError

FIRST_YEAR: Final = 1850
_DAY: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Files beside the zones that are none.
_NOT_ZONES: Final = frozenset({"localtime", "posixrules", "Factory"})


@dataclass(frozen=True, slots=True)
class Segment:
    """An interval of constant offset: `start` inclusive, `end` exclusive, UTC seconds; offsets in seconds."""

    start: int
    end: int
    offset: int
    before: int
    after: int


class Zone:
    """One IANA zone."""

    def __init__(self, name: str, info: ZoneInfo, table: Sequence[int], *, has_rule: bool) -> None:
        self.name = name
        self.info = info
        self._starts: list[int] = []
        self._offsets: list[int] = []
        self._known_through = _seconds(FIRST_YEAR)
        self._cache: dict[int, Segment] = {}
        self._add(self._known_through)
        for at in table:
            if at > self._known_through:
                self._add(at)
        if table:
            self._known_through = max(self._known_through, table[-1] + 1)
        if not has_rule:
            self._known_through = 2**62

    def segment(self, at: int) -> Segment:
        """The segment that holds the UTC second `at`."""
        while at + 2 * 366 * _DAY > self._known_through:
            self._extend()
        i = bisect_right(self._starts, at) - 1
        if i < 0:
            i = 0
        found = self._cache.get(i)
        if found is None:
            found = self._cache[i] = self._build(i)
        return found

    def offset_at(self, at: int) -> int:
        """Seconds east of UTC at that UTC second."""
        return self.segment(at).offset

    def _build(self, i: int) -> Segment:
        last = i + 1 >= len(self._starts)
        end = self._known_through if last else self._starts[i + 1]
        if last:
            end = 2**62
        before = self._offsets[i - 1] if i else self._offsets[i]
        after = self._offsets[i] if last else self._offsets[i + 1]
        start = self._starts[i] if i else -(2**62)
        return Segment(start, end, self._offsets[i], before, after)

    def _utc_offset(self, at: int) -> int:
        offset = (_EPOCH + timedelta(seconds=at)).astimezone(self.info).utcoffset()
        assert offset is not None
        return offset // timedelta(seconds=1)

    def _add(self, at: int) -> None:
        offset = self._utc_offset(at)
        if not self._offsets or self._offsets[-1] != offset:
            self._starts.append(at)
            self._offsets.append(offset)

    def _extend(self) -> None:
        """Look for transitions of the next two years, a day at a time, and pin each to its second."""
        at = self._known_through
        end = at + 2 * 366 * _DAY
        if (_EPOCH + timedelta(seconds=end)).year >= 9990:
            self._known_through = 2**62
            return
        offset = self._utc_offset(at)
        while at < end:
            after = min(at + _DAY, end)
            if self._utc_offset(after) != offset:
                low, high = at, after
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (low, middle) if self._utc_offset(middle) != offset else (middle, high)
                if self._starts and len(self._starts) - 1 in self._cache:
                    del self._cache[len(self._starts) - 1]
                self._add(high)
                offset = self._utc_offset(after)
            at = after
        self._known_through = end


def _seconds(year: int) -> int:
    return (datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)


def _transitions(data: bytes) -> list[int]:
    """The transition instants of a TZif file (RFC 8536), from its 64-bit part if it has one."""
    sizes = struct.Struct(">6l")
    version = data[4:5]
    isut, isstd, leap, times, kinds, chars = sizes.unpack_from(data, 20)
    if version in (b"", b"\x00"):
        return list(struct.unpack_from(f">{times}l", data, 44))
    start = 44 + times * 5 + kinds * 6 + chars + leap * 8 + isstd + isut
    times = sizes.unpack_from(data, start + 20)[3]
    return list(struct.unpack_from(f">{times}q", data, start + 44))


@cache
def get_zone(name: str) -> Zone:
    """The zone of that exact name. TimingError (field `timing.time_zone`) with the nearest names if there is none."""
    if name not in zone_names():
        near = nearest_zone_names(name)
        hint = f"did you mean {', '.join(near)}?" if near else "use an IANA name such as Europe/Berlin or UTC"
        shown = name[:60].encode("ascii", "backslashreplace").decode()
        raise TimingError(f"unknown time zone '{shown}'", field="timing.time_zone", code="unknown_time_zone", hint=hint)
    path = importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    data = path.read_bytes()
    with path.open("rb") as file:
        info = ZoneInfo.from_file(file, key=name)
    # The last line of the file is the rule for all time to come; without a comma it has no daylight-saving time.
    return Zone(name, info, _transitions(data), has_rule=b"," in data.rstrip(b"\n").rpartition(b"\n")[2])


@cache
def zone_names() -> frozenset[str]:
    """Every name that is accepted: those of the tzdata package, aliases included."""
    text = importlib.resources.files("tzdata").joinpath("zones").read_text(encoding="utf-8")
    return frozenset(line.strip() for line in text.splitlines() if line.strip()) - _NOT_ZONES


def nearest_zone_names(name: str, n: int = 3) -> list[str]:
    """Names a person may have meant, the likeliest first."""
    wanted = name[:60].strip().lower().replace(" ", "_")
    by_lower = {known.lower(): known for known in zone_names()}
    by_city = {known.rsplit("/", 1)[-1].lower(): known for known in sorted(zone_names())}
    found = get_close_matches(wanted, by_lower, n, 0.75)
    names = [by_lower[key] for key in found]
    names += [by_city[key] for key in get_close_matches(wanted.rsplit("/", 1)[-1], by_city, n, 0.8)]
    return list(dict.fromkeys(names))[:n]


def tzdata_version() -> str:
    """The release of the zone data, such as 2026a."""
    return str(tzdata.IANA_VERSION)
