"""What becomes of an occurrence whose lease ran out: a pure decision.

A lost lease is nobody's failure, so it is counted apart from failed attempts and has its own bound. But a payload that
kills its process never reports anything else. It is found by blame: a worker that dies with n leases gives each of
them 1/n. Losses in a row, with no other outcome between, add up; at 2 the payload is set aside as poison. Alone in its
worker that is the second time; in company it takes longer, and the company, which is lost with it, is not condemned:
repeated losses are spread over growing waits, so that the poison soon runs alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.base.model import RetryPolicy

POISON_BLAME = 2.0
FIRST_WAIT_S = 1.0
MOST_WAIT_S = 60.0
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One lease that ran out. `losses` counts those before; `n_held` is how many leases its worker held with it.

    `outcomes` and `lost_with` tell of the attempts before, the newest first. `now` is database time.
    """

    losses: int
    n_held: int
    outcomes: Sequence[str]
    lost_with: Sequence[int | None]
    is_cancel_requested: bool
    schedule_state: str | None
    retry: RetryPolicy
    scheduled_for: datetime
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """Back to its lane after `wait`; None: held, as its schedule is paused, until that is resumed."""

    wait: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Buried:
    """To the dead letters."""

    reason: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Cancelled: it does not start again."""

    reason: str


def losses_in_row(outcomes: Sequence[str]) -> int:
    """How many of the newest attempts were lost one after the other."""
    return next((n for n, outcome in enumerate(outcomes) if outcome != "lost"), len(outcomes))


def blame(loss: Loss) -> float:
    """What this loss and those right before it say against the payload."""
    row = losses_in_row(loss.outcomes)
    return sum((1 / max(1, n or 1) for n in loss.lost_with[:row]), start=1 / max(1, loss.n_held))


def after_loss(loss: Loss, *, max_losses: int, pick: Callable[[float, float], float]) -> Again | Buried | Dropped:
    """Decide. `pick(low, high)` is the source of chance."""
    if loss.is_cancel_requested:
        return Dropped(reason="cancel_requested")
    if loss.schedule_state == "cancelled":
        return Dropped(reason="schedule_cancelled")
    if blame(loss) >= POISON_BLAME - ROUNDING:
        times = losses_in_row(loss.outcomes) + 1
        return Buried(reason="poison", error=f"worker lost: its process died {times} times in a row while this ran")
    if loss.losses + 1 >= max_losses:
        return Buried(reason="interrupted", error=f"worker lost: {loss.losses + 1} leases ran out (limit {max_losses})")
    if loss.retry.deadline is not None and loss.now > loss.scheduled_for + loss.retry.deadline:
        return Buried(reason="deadline", error="worker lost, and the deadline has passed")
    if loss.schedule_state == "paused":
        return Again(wait=None)
    most = min(MOST_WAIT_S, FIRST_WAIT_S * 2 ** min(losses_in_row(loss.outcomes), 10))
    return Again(wait=timedelta(seconds=pick(0.0, most)))
