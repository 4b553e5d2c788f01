"""What becomes of fires that were not planned in time: pure, for a rhythm and a policy, never for a single schedule.

A fire is late when it is planned more than the misfire threshold after its time. Late fires of one outage are decided
at once, whatever their number: nothing here walks them one by one.

| policy | runs | is missed, with the reason |
| --- | --- | --- |
| `skip` | nothing | all: `misfire_skip` |
| `fire_once` | the latest | those before it: `fire_once` |
| `catch_up` | the oldest, at most `max_catch_up` | those after them: `catch_up_limit` |

Beforehand `fire_once` and `catch_up` lose what is later than `max_lateness`: `too_late`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Protocol, assert_never

from rota.base.model import Misfire, MisfirePolicy

_MICROSECOND = timedelta(microseconds=1)


class Rhythm(Protocol):
    """What is asked of a timing. Instants are aware UTC, intervals are (after, through]."""

    def next_after(self, moment: datetime, /) -> datetime | None:
        """The first fire later than the moment."""
        ...

    def prev_before(self, moment: datetime, /) -> datetime | None:
        """The last fire earlier than the moment."""
        ...

    def fires(self, after: datetime, through: datetime, /) -> Iterator[datetime]:
        """The fires, ascending."""
        ...

    def count_between(self, after: datetime, through: datetime, /) -> int:
        """How many fires."""
        ...


@dataclass(frozen=True, slots=True)
class Once:
    """The rhythm of a one-shot."""

    at: datetime

    def next_after(self, moment: datetime, /) -> datetime | None:
        """Its instant, if that is later."""
        return self.at if self.at > moment else None

    def prev_before(self, moment: datetime, /) -> datetime | None:
        """Its instant, if that is earlier."""
        return self.at if self.at < moment else None

    def fires(self, after: datetime, through: datetime, /) -> Iterator[datetime]:
        """Its instant, if it lies there."""
        return iter((self.at,) if after < self.at <= through else ())

    def count_between(self, after: datetime, through: datetime, /) -> int:
        """One or none."""
        return 1 if after < self.at <= through else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """Fires that do not run, as one range: the first and the last of them, and how many."""

    first_at: datetime
    last_at: datetime
    n_missed: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What runs late, oldest first, and what does not."""

    fires: tuple[datetime, ...] = ()
    missed: tuple[Missed, ...] = ()


NOTHING = Decision()


def decide(rhythm: Rhythm, policy: MisfirePolicy, after: datetime, through: datetime, now: datetime) -> Decision:
    """Decide the late fires of (after, through] at the moment `now`."""
    first = rhythm.next_after(after)
    if first is None or first > through:
        return NOTHING
    if policy.policy is Misfire.SKIP:
        return _decision((), missed_between(rhythm, after, through, "misfire_skip"))
    start = after if policy.max_lateness is None else max(after, now - policy.max_lateness - _MICROSECOND)
    too_late = missed_between(rhythm, after, min(start, through), "too_late")
    if start >= through:
        return _decision((), too_late)
    match policy.policy:
        case Misfire.FIRE_ONCE:
            latest = _latest(rhythm, start, through)
            if latest is None:
                return _decision((), too_late)
            before = missed_between(rhythm, start, latest - _MICROSECOND, "fire_once")
            return _decision((latest,), too_late, before)
        case Misfire.CATCH_UP:
            fires = tuple(islice(rhythm.fires(start, through), policy.max_catch_up))
            last = fires[-1] if fires else start
            return _decision(fires, too_late, missed_between(rhythm, last, through, "catch_up_limit"))
        case _:
            assert_never(policy.policy)


def missed_between(rhythm: Rhythm, after: datetime, through: datetime, reason: str) -> Missed | None:
    """The fires of (after, through] as one missed range; None if there are none."""
    first = rhythm.next_after(after) if after < through else None
    if first is None or first > through:
        return None
    last = _latest(rhythm, after, through) or first
    return Missed(first_at=first, last_at=last, n_missed=rhythm.count_between(after, through), reason=reason)


def _latest(rhythm: Rhythm, after: datetime, through: datetime) -> datetime | None:
    found = rhythm.prev_before(through + _MICROSECOND)
    return found if found is not None and found > after else None


def _decision(fires: tuple[datetime, ...], *missed: Missed | None) -> Decision:
    return Decision(fires=fires, missed=tuple(one for one in missed if one is not None))
