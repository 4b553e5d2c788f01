"""From wall times to instants: the fires of a daily pattern in a zone under a DST policy.

A pattern answers in wall time, a zone is a row of segments of constant offset; within a segment both run side by side.
Only at a segment's start does the policy speak: wall times that were shown before (fold), or that were jumped over
(gap). All numbers are whole seconds since 1970.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from rota.calendar.policy import ELAPSED, DstPolicy, Fold, Gap
from rota.calendar.zone import Segment, Zone

_TWO_DAYS: Final = 2 * 86_400


class Pattern(Protocol):
    """Matching wall times."""

    @property
    def is_wildcard(self) -> bool:
        """Whether it repeats within the hour or every hour by a wildcard."""
        ...

    def next_wall(self, wall: int) -> int | None:
        """The first match at or after a wall time."""
        ...

    def count_walls(self, low: int, high: int) -> int:
        """Matches in `[low, high)`."""
        ...


@dataclass(frozen=True, slots=True)
class _Rules:
    """How one segment is read: wall times below `low` or from `high` on do not count; `gap_low` is where a gap
    began."""

    low: int
    high: int
    gap_low: int | None
    gap: Gap


class Walk:
    """The fires of one pattern in one zone."""

    def __init__(self, pattern: Pattern, zone: Zone, policy: DstPolicy) -> None:
        self._pattern = pattern
        self._zone = zone
        self._policy = ELAPSED if pattern.is_wildcard and policy.wildcards == "elapsed" else policy
        self._segment: Segment | None = None
        self._rules = _Rules(0, 0, None, Gap.SKIP)

    def next_fire(self, after: int) -> int | None:
        """The first fire strictly later than `after`."""
        at = after + 1
        segment = self._segment
        if segment is None or not segment.start <= at < segment.end:
            segment = self._enter(at)
        while True:
            found, wall = self._in_segment(segment, at)
            if found is not None:
                return found
            if wall is None:
                return None
            # No match lies between here and `wall`: go where its instant may be, but pass no neighbour unseen.
            at = segment.end
            jump = wall - segment.offset - _TWO_DAYS
            if jump > at and not self._repeats(self._zone.segment(at)):
                at = jump
            segment = self._enter(at)
            at = max(at, segment.start)

    def _repeats(self, segment: Segment) -> bool:
        """Whether a segment shows again, as fires, wall times that the walk has passed."""
        change = segment.offset - segment.before
        return change < 0 and not (self._policy.fold is Fold.FIRST and self._holds(change))

    def _enter(self, at: int) -> Segment:
        segment = self._segment = self._zone.segment(at)
        self._rules = self._read(segment)
        return segment

    def _read(self, segment: Segment) -> _Rules:
        policy = self._policy
        low, high, gap_low = segment.start + segment.offset, segment.end + segment.offset, None
        change = segment.offset - segment.before
        if change < 0 and policy.fold is Fold.FIRST and self._holds(change):
            low -= change
        if change > 0 and policy.gap is not Gap.SKIP and self._holds(change):
            gap_low = segment.start + segment.before
        coming = segment.after - segment.offset
        if coming < 0 and policy.fold is Fold.SECOND and self._holds(coming):
            high += coming
        return _Rules(low, high, gap_low, policy.gap)

    def _holds(self, change: int) -> bool:
        return self._policy.below_s is None or abs(change) < self._policy.below_s

    def _in_segment(self, segment: Segment, at: int) -> tuple[int | None, int | None]:
        """The first fire of a segment at or after `at`, and the first matching wall time behind it if there is none."""
        rules = self._rules
        start = at + segment.offset
        wall = self._pattern.next_wall(start if start > rules.low else rules.low)  # noqa: FURB136 - the hottest line
        found = wall - segment.offset if wall is not None and wall < rules.high else None
        if rules.gap_low is not None:
            moved = self._moved(segment, rules.gap_low, at)
            if moved is not None and (found is None or moved < found):
                found = moved
        return found, wall

    def _moved(self, segment: Segment, gap_low: int, at: int) -> int | None:
        """The first fire at or after `at` that a gap moved into this segment."""
        gap_high = segment.start + segment.offset
        if self._rules.gap is Gap.NEXT_VALID:
            lost = self._pattern.next_wall(gap_low) if at <= segment.start else None
            return segment.start if lost is not None and lost < gap_high else None
        lost = self._pattern.next_wall(max(gap_low, at + segment.before))
        moved = lost - segment.before if lost is not None and lost < gap_high else None
        return moved if moved is not None and moved < segment.end else None

    def fires(self, after: int, through: int) -> Iterator[int]:
        """The fires in `(after, through]`, ascending."""
        at = self.next_fire(after)
        while at is not None and at <= through:
            yield at
            at = self.next_fire(at)

    def last_fire(self, through: int, *, not_before: int) -> int | None:
        """The last fire in `(not_before, through]`, by halving: a two-year gap costs some thirty look-ups."""
        low = not_before
        for back in (60, 3_600, 86_400, 32 * 86_400, 366 * 86_400, 8 * 366 * 86_400):
            if through - back > not_before:
                first = self.next_fire(through - back)
                if first is not None and first <= through:
                    low = through - back
                    break
        first = self.next_fire(low)
        if first is None or first > through:
            return None
        low, high = first - 1, through
        while high - low > 1:
            middle = (low + high) // 2
            first = self.next_fire(middle)
            if first is not None and first <= through:
                low = max(middle, first - 1)
            else:
                high = middle
        return self.next_fire(low)

    def count(self, after: int, through: int) -> int:
        """How many fires lie in `(after, through]`; whole days are counted, not walked."""
        n, at = 0, after + 1
        while at <= through:
            segment = self._enter(at)
            n += self._count_in(segment, at, min(through + 1, segment.end))
            at = segment.end
        return n

    def _count_in(self, segment: Segment, at: int, end: int) -> int:
        rules = self._rules
        low = max(at + segment.offset, rules.low)
        high = min(end + segment.offset, rules.high)
        n = self._pattern.count_walls(low, high)
        if rules.gap_low is None:
            return n
        # Moved fires are few: those of one gap. One that falls on a regular fire is the same fire.
        moved = self._moved(segment, rules.gap_low, at)
        while moved is not None and moved < end:
            wall = moved + segment.offset
            n += not (low <= wall < high and self._pattern.next_wall(wall) == wall)
            moved = self._moved(segment, rules.gap_low, moved + 1)
        return n
