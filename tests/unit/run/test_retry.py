"""What follows from a failed attempt."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.base.model import RetryPolicy
from rota.run.retry import MOST_ASKED, Again, Dead, after_failure, backoff, parse_retry_after

AT = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)
POLICY = RetryPolicy(max_attempts=3, base=timedelta(seconds=10), cap=timedelta(seconds=60))


def decide(**changes: object) -> Again | Dead:
    facts: dict[str, object] = {
        "failures": 0,
        "is_rejected": False,
        "scheduled_for": AT,
        "now": AT,
        "pick": lambda low, high: high,
    }
    return after_failure(POLICY, **{**facts, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, Again(wait=timedelta(seconds=10))),
        ({"failures": 1}, Again(wait=timedelta(seconds=20))),
        ({"failures": 2}, Dead(reason="attempts_exhausted")),
        ({"is_rejected": True}, Dead(reason="rejected")),
        ({"asked": timedelta(seconds=45)}, Again(wait=timedelta(seconds=45))),
        ({"asked": timedelta(seconds=1)}, Again(wait=timedelta(seconds=10))),
        ({"asked": timedelta(days=9)}, Again(wait=timedelta(hours=1))),
    ],
)
def test_the_table(facts: dict[str, object], expected: Again | Dead) -> None:
    assert decide(**facts) == expected


def test_a_deadline_counts_from_the_planned_time() -> None:
    policy = RetryPolicy(max_attempts=9, deadline=timedelta(minutes=5))
    facts = {"failures": 0, "is_rejected": False, "scheduled_for": AT, "pick": lambda low, high: high}
    early = after_failure(policy, now=AT + timedelta(minutes=4), **facts)  # type: ignore[arg-type]
    late = after_failure(policy, now=AT + timedelta(minutes=4, seconds=55), **facts)  # type: ignore[arg-type]
    assert (early, late) == (Again(wait=timedelta(seconds=10)), Dead(reason="deadline"))


def test_the_wait_is_full_jitter_under_a_cap() -> None:
    bounds = [backoff(POLICY, n, lambda low, high: high).total_seconds() for n in range(1, 7)]
    assert bounds == [10, 20, 40, 60, 60, 60]
    assert backoff(POLICY, 5, lambda low, high: low) == timedelta(0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("120", timedelta(seconds=120)),
        ("0", timedelta(0)),
        ("1000000000", MOST_ASKED),
        ("Thu, 01 Jan 2026 09:00:30 GMT", timedelta(seconds=30)),
        ("Thu, 01 Jan 2026 08:00:30 GMT", None),
        ("-5", None),
        ("2.5", None),
        ("abc", None),
        ("", None),
        (None, None),
        ("9" * 500, None),
        ("\u0661\u0662", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_nothing_else(text: str | None, expected: timedelta | None) -> None:
    assert parse_retry_after(text, AT) == expected
