"""The arithmetic of a timing that has been read: which instants it means. Instants are aware UTC in and out."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Self

from rota.calendar.errors import TimingError
from rota.calendar.exclusions import Exclusions
from rota.calendar.instants import EPOCH, from_seconds, to_seconds, write_instant
from rota.calendar.policy import DstPolicy
from rota.calendar.walk import Pattern, Walk
from rota.calendar.zone import Zone

_MICROSECOND: Final = timedelta(microseconds=1)
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingCore:
    """A rule of instants, once it is read.

    `document` is the canonical JSON; equal timings have equal `key()`.
    """

    kind: str
    document: Mapping[str, Any]
    zone: Zone | None = None
    pattern: Pattern | None = None
    policy: DstPolicy | None = None
    walk: Walk | None = None
    period: timedelta | None = None
    anchor: datetime | None = None
    at: datetime | None = None
    exclusions: Exclusions = field(default_factory=Exclusions)

    def to_json(self) -> dict[str, Any]:
        """The canonical document: H resolved, the anchor set, exclusions included."""
        return dict(self.document)

    def key(self) -> str:
        """The canonical text that identifies the timing."""
        return json.dumps(self.document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    @property
    def time_zone(self) -> str | None:
        """The name of its zone; None when it has none."""
        return self.zone.name if self.zone is not None else None

    def next_after(self, t: datetime) -> datetime | None:
        """The first fire strictly later than `t`; None if there is none any more."""
        found = self._next_raw(t)
        while found is not None and self.exclusions:
            resume = self._after_excluded(found)
            if resume is None:
                return found
            found = self._next_raw(resume)
        return found

    def _next_raw(self, t: datetime) -> datetime | None:
        if self.walk is not None:
            found = self.walk.next_fire((t - EPOCH) // _SECOND)
            return None if found is None else from_seconds(found)
        if self.period is not None:
            assert self.anchor is not None
            k = (t - self.anchor) // self.period + 1
            return self.anchor + max(k, 0) * self.period
        assert self.at is not None
        return self.at if self.at > t else None

    def _after_excluded(self, at: datetime) -> datetime | None:
        """If the local day of `at` is excluded: an instant before which nothing fires; else None."""
        zone = self.zone
        seconds = to_seconds(at)
        offset = zone.offset_at(seconds) if zone is not None else 0
        last = self.exclusions.end_of((seconds + offset) // 86_400)
        if last is None:
            return None
        # Skip to a little before the end of the range: offsets may change meanwhile.
        return max(at, from_seconds((last + 1) * 86_400 - offset - 26 * 3600))

    def fires(self, after: datetime, through: datetime) -> Iterator[datetime]:
        """The fires in `(after, through]`, ascending, one at a time."""
        at = self.next_after(after)
        while at is not None and at <= through:
            yield at
            at = self.next_after(at)

    def prev_before(self, t: datetime, *, not_before: datetime = EPOCH) -> datetime | None:
        """The last fire strictly earlier than `t` and later than `not_before`; about thirty look-ups however far
        back."""
        return self.last_through(t - _MICROSECOND, not_before=not_before)

    def last_through(self, t: datetime, *, not_before: datetime = EPOCH) -> datetime | None:
        """The last fire at or before `t` and later than `not_before`."""
        first = self.next_after(not_before)
        if first is None or first > t:
            return None
        for back in (60, 3_600, 86_400, 32 * 86_400, 366 * 86_400, 8 * 366 * 86_400):
            start = t - timedelta(seconds=back)
            if start > not_before:
                found = self.next_after(start)
                if found is not None and found <= t:
                    first = found
                    break
        low, high = first, t + _MICROSECOND
        while high - low > _SECOND:
            middle = low + (high - low) / 2
            found = self.next_after(middle)
            if found is not None and found <= t:
                low = found
            else:
                high = middle
        found = self.next_after(low)
        return found if found is not None and found <= t else low

    def count_between(self, after: datetime, through: datetime) -> int:
        """How many fires lie in `(after, through]`, without walking them (walks only around excluded days)."""
        if through <= after:
            return 0
        if self.exclusions:
            return sum(1 for _ in self.fires(after, through))
        if self.walk is not None:
            return self.walk.count(to_seconds(after), to_seconds(through))
        if self.period is not None:
            assert self.anchor is not None
            return max(self._index(through) - self._index(after), 0)
        assert self.at is not None
        return int(after < self.at <= through)

    def _index(self, t: datetime) -> int:
        assert self.anchor is not None
        assert self.period is not None
        return max((t - self.anchor) // self.period + 1, 0)

    def with_exclusions(self, exclusions: Exclusions) -> Self:
        """The same timing without the excluded days."""
        document = {name: value for name, value in self.document.items() if name != "exclusions"}
        if exclusions:
            document["exclusions"] = exclusions.to_json()
        return replace(self, exclusions=exclusions, document=document)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimingCore) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())


def wall_text(timing: TimingCore, at: datetime) -> str:
    """The wall time with offset of an instant, in the timing's zone."""
    zone = timing.zone
    if zone is None:
        return write_instant(at)
    return at.astimezone(zone.info).isoformat()


def refuse(message: str, *, field: str = "timing", code: str = "bad_timing", hint: str = "") -> TimingError:
    """A TimingError, for `raise refuse(...)`."""
    return TimingError(message, field=field, code=code, hint=hint)
