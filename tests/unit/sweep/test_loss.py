"""What becomes of a lost lease: a table of situations."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.base.model import RetryPolicy
from rota.sweep.loss import Again, Buried, Dropped, Loss, after_loss, blame

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def loss(**changes: object) -> Loss:
    base: dict[str, object] = {
        "losses": 0,
        "n_held": 1,
        "outcomes": (),
        "lost_with": (),
        "is_cancel_requested": False,
        "schedule_state": "active",
        "retry": RetryPolicy(),
        "scheduled_for": NOON,
        "now": NOON + timedelta(seconds=40),
    }
    return Loss(**{**base, **changes})  # type: ignore[arg-type]


def most(_low: float, high: float) -> float:
    return high


def decide(case: Loss) -> object:
    return after_loss(case, max_losses=10, pick=most)


def test_a_first_loss_is_tried_again_within_a_second():
    assert decide(loss()) == Again(wait=timedelta(seconds=1))


def test_a_payload_that_was_alone_in_its_dying_process_twice_is_poison():
    case = loss(losses=1, outcomes=("lost",), lost_with=(1,))
    assert decide(case) == Buried(
        reason="poison", error="worker lost: its process died 2 times in a row while this ran"
    )


def test_company_that_is_lost_with_a_poison_is_not_condemned():
    case = loss(losses=1, n_held=50, outcomes=("lost",), lost_with=(51,))
    assert decide(case) == Again(wait=timedelta(seconds=2))


def test_repeated_losses_are_spread_over_growing_waits_up_to_a_minute():
    waits = []
    for n in range(1, 9):
        decided = decide(loss(losses=n, n_held=64, outcomes=("lost",) * n, lost_with=(64,) * n))
        assert isinstance(decided, Again)
        waits.append(decided.wait)
    assert [wait.total_seconds() for wait in waits if wait] == [2, 4, 8, 16, 32, 60, 60, 60]


def test_a_poison_in_company_is_found_when_its_blame_adds_up():
    assert blame(loss(n_held=1, outcomes=("lost", "lost"), lost_with=(2, 2))) == pytest.approx(2.0)
    case = loss(losses=2, n_held=1, outcomes=("lost", "lost"), lost_with=(2, 2))
    assert decide(case) == Buried(
        reason="poison", error="worker lost: its process died 3 times in a row while this ran"
    )


@pytest.mark.parametrize("between", ["failed", "interrupted", "timed_out"])
def test_any_other_outcome_in_between_clears_the_blame(between: str):
    case = loss(losses=3, outcomes=(between, "lost", "lost"), lost_with=(None, 1, 1))
    assert decide(case) == Again(wait=timedelta(seconds=1))


def test_losses_are_bounded_whoever_is_to_blame():
    case = loss(losses=9, n_held=500, outcomes=("failed",))
    assert decide(case) == Buried(reason="interrupted", error="worker lost: 10 leases ran out (limit 10)")


def test_what_was_lost_after_its_deadline_is_dead():
    retry = RetryPolicy(deadline=timedelta(seconds=30))
    assert decide(loss(retry=retry)) == Buried(reason="deadline", error="worker lost, and the deadline has passed")
    assert decide(loss(retry=retry, now=NOON + timedelta(seconds=30))) == Again(wait=timedelta(seconds=1))


def test_what_should_be_cancelled_does_not_start_again():
    assert decide(loss(is_cancel_requested=True)) == Dropped(reason="cancel_requested")
    assert decide(loss(schedule_state="cancelled")) == Dropped(reason="schedule_cancelled")


def test_a_paused_schedule_holds_what_it_lost_until_it_is_resumed():
    assert decide(loss(schedule_state="paused")) == Again(wait=None)


@pytest.mark.parametrize("state", ["finished", None])
def test_a_finished_or_unknown_schedule_does_not_keep_a_started_run_from_going_on(state: str | None):
    assert decide(loss(schedule_state=state)) == Again(wait=timedelta(seconds=1))
