"""What follows from an outcome: pure. Again after a wait, or dead, and why.

Failures and losses are counted apart: only failures use up max_attempts. The wait is full jitter,
`random(0, min(cap, base * 2^failures))` (AWS Architecture Blog, "Exponential Backoff And Jitter"); what a target asks
for with Retry-After (RFC 9110) is honoured between that and an hour.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from rota.base.model import RetryPolicy

MOST_ASKED: Final = timedelta(hours=1)
_NOTHING: Final = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """To be tried again after `wait`."""

    wait: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """Not to be tried again; the reason is one of attempts_exhausted, rejected, deadline."""

    reason: str


def after_failure(
    policy: RetryPolicy,
    *,
    failures: int,
    is_rejected: bool,
    scheduled_for: datetime,
    now: datetime,
    asked: timedelta | None = None,
    pick: Callable[[float, float], float],
) -> Again | Dead:
    """Decide after a failed attempt; `failures` counts those before it, `pick(low, high)` is the source of chance."""
    if is_rejected:
        return Dead(reason="rejected")
    if failures + 1 >= policy.max_attempts:
        return Dead(reason="attempts_exhausted")
    wait = max(backoff(policy, failures + 1, pick), min(asked or _NOTHING, MOST_ASKED))
    if policy.deadline is not None and now + wait > scheduled_for + policy.deadline:
        return Dead(reason="deadline")
    return Again(wait=wait)


def backoff(policy: RetryPolicy, n: int, pick: Callable[[float, float], float]) -> timedelta:
    """The wait after the n-th failure (from 1)."""
    most = min(policy.cap.total_seconds(), policy.base.total_seconds() * 2.0 ** min(n - 1, 40))
    return timedelta(seconds=pick(0.0, most))


def parse_retry_after(value: str | None, now: datetime) -> timedelta | None:
    """The wait a Retry-After header asks for: whole seconds or an HTTP date; None when it is neither, or in the
    past."""
    if value is None or len(value) > 64:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=min(int(text), 10**9)), MOST_ASKED)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    wait = at - now
    return min(wait, MOST_ASKED) if wait > _NOTHING else None
