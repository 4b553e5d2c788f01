"""The next fires of a timing with marks: what a gap, a fold or an excluded day changes. The instants are those of
planning."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from heapq import merge

from rota.calendar.core import TimingCore, wall_text
from rota.calendar.exclusions import Exclusions
from rota.calendar.instants import EPOCH, from_seconds, to_seconds
from rota.calendar.walk import Pattern
from rota.calendar.zone import Zone

GAP_SKIPPED, GAP_MOVED = "gap_skipped", "gap_moved"
FOLD_FIRST, FOLD_SECOND = "fold_first", "fold_second"
EXCLUDED = "excluded"
MAX_SKIPPED = 50


@dataclass(frozen=True, slots=True)
class Fire:
    """One line of a preview. `fires` False: it is shown because a reader would expect it. `wall` is local, with
    offset."""

    at: datetime
    wall: str
    marks: tuple[str, ...] = ()
    fires: bool = True


def preview(
    timing: TimingCore,
    after: datetime,
    n: int,
    *,
    starts_at: datetime | None = None,
    ends_at: datetime | None = None,
    exclusions: Sequence[object] | None = None,
) -> list[Fire]:
    """The next `n` fires later than `after`, not before `starts_at`, not after `ends_at` (both inclusive), and what is
    skipped in between by a gap or an excluded day, at most MAX_SKIPPED of those."""
    if exclusions is not None:
        timing = timing.with_exclusions(Exclusions.parse(exclusions))
    if starts_at is not None:
        after = max(after, starts_at - timedelta(microseconds=1))
    plain = replace(timing, exclusions=Exclusions())
    shown: list[Fire] = []
    fired = skipped = 0
    for fire in merge(_fires(timing, plain, after), _lost(timing, after), key=lambda fire: fire.at):
        if ends_at is not None and fire.at > ends_at:
            break
        if fire.fires:
            fired += 1
        else:
            skipped += 1
            if skipped > MAX_SKIPPED:
                if skipped > 100 * MAX_SKIPPED:
                    break
                continue
        shown.append(fire)
        if fired == n:
            break
    return shown


def _fires(timing: TimingCore, plain: TimingCore, after: datetime) -> Iterator[Fire]:
    at = plain.next_after(after)
    while at is not None:
        excluded = bool(timing.exclusions) and timing.next_after(at - timedelta(microseconds=1)) != at
        marks = (EXCLUDED,) if excluded else _marks(timing, at)
        yield Fire(at, wall_text(timing, at), marks, not excluded)
        at = plain.next_after(at)


def _marks(timing: TimingCore, at: datetime) -> tuple[str, ...]:
    zone, pattern = timing.zone, timing.pattern
    if zone is None or pattern is None:
        return ()
    seconds = to_seconds(at)
    segment = zone.segment(seconds)
    wall = seconds + segment.offset
    marks = []
    change = segment.offset - segment.before
    if change > 0 and wall < segment.start + segment.offset + change and pattern.next_wall(wall) != wall:
        marks.append(GAP_MOVED)
    if change < 0 and wall < segment.start + segment.before:
        marks.append(FOLD_SECOND)
    coming = segment.after - segment.offset
    if coming < 0 and wall >= segment.end + segment.after:
        marks.append(FOLD_FIRST)
    return tuple(marks)


def _lost(timing: TimingCore, after: datetime) -> Iterator[Fire]:
    """Wall times that match but never come; only of fixed-time rules, whose reader expects each of them."""
    zone, pattern = timing.zone, timing.pattern
    if zone is None or pattern is None or timing.policy is None or timing.policy.gap != "skip" or pattern.is_wildcard:
        return
    yield from _lost_walls(zone, pattern, to_seconds(after))


def _lost_walls(zone: Zone, pattern: Pattern, after: int) -> Iterator[Fire]:
    segment = zone.segment(after)
    while segment.end < 2**61 and segment.end < after + 400 * 366 * 86_400:
        segment = zone.segment(segment.end)
        wall = pattern.next_wall(segment.start + segment.before)
        while wall is not None and wall < segment.start + segment.offset:
            text = (EPOCH + timedelta(seconds=wall)).replace(tzinfo=None).isoformat()
            yield Fire(from_seconds(segment.start), text, (GAP_SKIPPED,), False)
            wall = pattern.next_wall(wall + 1)
