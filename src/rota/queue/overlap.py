"""What becomes of a due occurrence whose schedule may not overlap: pure, a table of situations."""

from dataclasses import dataclass
from enum import StrEnum

from rota.base.model import Overlap


class Verdict(StrEnum):
    """Start now, wait, be skipped, or wait while what runs is asked to stop."""

    START = "start"
    WAIT = "wait"
    SKIP = "skip"
    STOP_RUNNING = "stop_running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Of the same schedule: does one run, does one wait for another attempt, is an earlier or a later one due?

    `is_retry`: this one has started before, so it is the one in progress.
    """

    is_retry: bool
    has_running: bool
    has_retrying: bool
    has_earlier: bool
    has_later: bool


def judge(overlap: Overlap, at: Situation) -> Verdict:
    """Decide one due occurrence."""
    if at.is_retry:
        return Verdict.WAIT if at.has_running else Verdict.START
    in_progress = at.has_running or at.has_retrying
    if not in_progress:
        return Verdict.WAIT if at.has_earlier else Verdict.START
    match overlap:
        case Overlap.SKIP_IF_RUNNING:
            return Verdict.SKIP
        case Overlap.QUEUE_ONE:
            return Verdict.SKIP if at.has_earlier else Verdict.WAIT
        case Overlap.CANCEL_RUNNING:
            return Verdict.SKIP if at.has_later else Verdict.STOP_RUNNING
        case Overlap.ALLOW:
            return Verdict.START
