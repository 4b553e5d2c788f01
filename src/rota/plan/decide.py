"""What becomes of fires that are late when they are planned: pure, for a cadence and a policy, not for a schedule.

A fire is late when it is planned more than the misfire threshold after its time. Late fires:

    policy     run                                              missed, with the reason
    skip       those not older than max_lateness                the rest              misfire_skip
    fire_once  the newest                                       the rest              fire_once
    catch_up   the oldest, at most max_catch_up                 the rest              catch_up_limit

Nothing is walked that is not run: a gap of years costs as much as one of minutes.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from rota.base.model import Misfire, MisfirePolicy, Trigger
from rota.calendar import Timing

_MICROSECOND: Final = timedelta(microseconds=1)
# skip with a long max_lateness runs everything in it; more than this of one schedule is no lateness but an outage.
MOST_LATE_RUNS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A late fire that is run."""

    at: datetime
    trigger: Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """Late fires that are not run: the first, the last, how many, why."""

    first_at: datetime
    last_at: datetime
    n: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is run, ascending, and what is not."""

    runs: tuple[Run, ...] = ()
    missed: tuple[Missed, ...] = ()


def decide(timing: Timing, policy: MisfirePolicy, *, after: datetime, through: datetime, now: datetime) -> Decision:
    """Decide the late fires in `(after, through]`, all of them at or before `now`."""
    first = timing.next_after(after)
    if first is None or first > through:
        return Decision()
    match policy.policy:
        case Misfire.FIRE_ONCE:
            return _newest(timing, first, after, through)
        case Misfire.CATCH_UP:
            runs = tuple(islice(timing.fires(after, through), policy.max_catch_up))
            return _with_rest(timing, runs, Trigger.CATCH_UP, runs[-1], through, "catch_up_limit")
        case Misfire.SKIP:
            return _skip(timing, policy, first, after, through, now)


def _newest(timing: Timing, first: datetime, after: datetime, through: datetime) -> Decision:
    newest = timing.last_through(through, not_before=after)
    assert newest is not None  # noqa: S101 - `first` is such a fire
    run = (Run(at=newest, trigger=Trigger.CATCH_UP),)
    if newest == first:
        return Decision(runs=run)
    before = newest - _MICROSECOND
    return Decision(runs=run, missed=_missed(timing, first, after, before, "fire_once"))


def _skip(
    timing: Timing, policy: MisfirePolicy, first: datetime, after: datetime, through: datetime, now: datetime
) -> Decision:
    oldest = after if policy.max_lateness is None else now - policy.max_lateness - _MICROSECOND
    edge = max(after, min(through, oldest))
    runs = tuple(islice(timing.fires(edge, through), MOST_LATE_RUNS))
    decision = _with_rest(timing, runs, Trigger.TIMING, runs[-1] if runs else through, through, "misfire_skip")
    return Decision(runs=decision.runs, missed=_missed(timing, first, after, edge, "misfire_skip") + decision.missed)


def _with_rest(
    timing: Timing, runs: tuple[datetime, ...], trigger: Trigger, after: datetime, through: datetime, reason: str
) -> Decision:
    first = timing.next_after(after)
    missed: tuple[Missed, ...] = ()
    if first is not None and first <= through:
        missed = _missed(timing, first, after, through, reason)
    return Decision(runs=tuple(Run(at=at, trigger=trigger) for at in runs), missed=missed)


def _missed(timing: Timing, first: datetime, after: datetime, through: datetime, reason: str) -> tuple[Missed, ...]:
    n = timing.count_between(after, through)
    if n == 0:
        return ()
    last = timing.last_through(through, not_before=after)
    return (Missed(first_at=first, last_at=last or first, n=n, reason=reason),)
