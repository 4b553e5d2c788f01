"""From when until when a definition is in force once it is written, decided from its members and the cell's time.

Pure. A fire f belongs to a version if active_from < f <= active_until. starts_at and ends_at are both inclusive, and
max_runs becomes the instant of the last run, so that planning needs no counter.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

from rota.base.errors import FieldError, ValidationFailed
from rota.calendar import Timing, format_duration
from rota.catalog.definition import Definition
from rota.catalog.fields import format_instant

_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_BEFORE_ALL = datetime(1, 1, 2, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_FARTHEST = timedelta(days=200 * 365)
_WALKED = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """The instants a version is in force between, and the instant of a one-shot. All are aware UTC."""

    active_from: datetime
    active_until: datetime | None
    fire_at: datetime | None = None


def activate(
    definition: Definition, timing: Timing, now: datetime, *, active_from: datetime | None = None
) -> Activation:
    """When a definition that is written now is in force; timing is its timing without the days its calendar leaves out.

    active_from, if given, stands for now: slots of an edited version that are not run yet may lie before the edit.
    Raises ValidationFailed if it would never run.
    """
    if timing.kind == "at":
        return _activate_once(definition, timing, now)
    start = now if active_from is None else active_from
    if definition.starts_at is not None:
        start = max(start, definition.starts_at - _MICROSECOND)
    ends = [] if definition.ends_at is None else [definition.ends_at]
    if definition.max_runs is not None and (last := nth_fire(timing, start, definition.max_runs)) is not None:
        ends.append(last)
    until = min(ends, default=None)
    first = timing.next_after(start)
    if first is None:
        raise _refusal("timing", "never fires again", f"its last fire is before {format_instant(start)}")
    if until is not None and first > until:
        raise _refusal("ends_at", "is before the first fire", f"the timing fires first at {format_instant(first)}")
    return Activation(active_from=start, active_until=until)


def nth_fire(timing: Timing, after: datetime, n: int) -> datetime | None:
    """The instant of the n-th fire after an instant; None if there are not so many within 200 years."""
    last = after + _FARTHEST
    if n <= _WALKED or timing.exclusions:
        return next(islice(timing.fires(after, last), n - 1, None), None)
    low, high, span = after, after + _DAY, _DAY
    while timing.count_between(after, high) < n:
        if high == last:
            return None
        low, span = high, span * 2
        high = min(after + span, last)
    n_low = timing.count_between(after, low)
    while n - n_low > _WALKED and high - low > _SECOND:
        middle = low + (high - low) // 2
        n_middle = n_low + timing.count_between(low, middle)
        if n_middle < n:
            low, n_low = middle, n_middle
        else:
            high = middle
    return next(islice(timing.fires(low, high), n - n_low - 1, None), None)


def _activate_once(definition: Definition, timing: Timing, now: datetime) -> Activation:
    fire_at = timing.next_after(_BEFORE_ALL)
    if fire_at is None:
        raise _refusal(
            "timing.at", "names a time that does not exist under its dst policy", "choose another time or dst"
        )
    longest = definition.policy.misfire.max_lateness
    if longest is not None and now - fire_at > longest:
        late = format_duration(timedelta(seconds=int((now - fire_at).total_seconds())))
        message = f"is in the past: {format_instant(fire_at)} was {late} ago"
        raise _refusal("timing.at", message, f"misfire.max_lateness allows {format_duration(longest)}")
    if definition.starts_at is not None and fire_at < definition.starts_at:
        raise _refusal("starts_at", "is after the only fire", f"the timing fires at {format_instant(fire_at)}")
    if definition.ends_at is not None and fire_at > definition.ends_at:
        raise _refusal("ends_at", "is before the only fire", f"the timing fires at {format_instant(fire_at)}")
    return Activation(active_from=min(now, fire_at - _MICROSECOND), active_until=None, fire_at=fire_at)


def _refusal(field: str, message: str, hint: str) -> ValidationFailed:
    return ValidationFailed((FieldError(field=field, message=message, hint=hint),))
