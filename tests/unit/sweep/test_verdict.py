"""The audit's judgement of one schedule: situations, each with what must be said of it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from rota.sweep.verdict import FoundRow, History, Judgement, Span, Verdict, VersionRule, judge

ID = UUID("01890000-0000-7000-8000-000000000001")
SECOND = timedelta(seconds=1)


def at(minute: int, second: int = 0) -> datetime:
    return datetime(2026, 3, 1, 12, minute, second, tzinfo=UTC)


def rule(version: int = 1, **changes: object) -> VersionRule:
    base: dict[str, object] = {
        "version": version,
        "is_active": True,
        "active_from": at(0),
        "active_until": None,
        "activated_at": at(0),
        "superseded_at": None,
        "fires": [at(m) for m in (5, 10, 15)],
    }
    return VersionRule(**{**base, **changes})  # type: ignore[arg-type]


def row(minute: int, state: str = "succeeded", **changes: object) -> FoundRow:
    base: dict[str, object] = {
        "version": 1,
        "scheduled_for": at(minute),
        "state": state,
        "reason": None,
        "trigger": "timing",
        "has_started": state not in {"cancelled", "scheduled", "enqueued"},
    }
    return FoundRow(**{**base, **changes})  # type: ignore[arg-type]


def judged(rules: Sequence[VersionRule], rows: Sequence[FoundRow], **changes: object) -> Judgement:
    base: dict[str, object] = {"planned_through": at(59), "missed": (), "backfills": ()}
    return judge(History(schedule_id=ID, rules=rules, rows=rows, **{**base, **changes}))  # type: ignore[arg-type]


def numbers(judgement: Judgement) -> dict[str, int]:
    return {str(verdict): n for verdict, n in judgement.counts.items() if n}


def test_each_slot_is_counted_by_what_became_of_it():
    found = judged([rule()], [row(5), row(10, "dead"), row(15, "running")])
    assert numbers(found) == {"succeeded": 1, "dead": 1, "running": 1}


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        ("skipped_overlap", "skipped"),
        ("missed", "missed"),
        ("cancelled", "cancelled"),
        ("scheduled", "scheduled"),
        ("enqueued", "enqueued"),
        ("retry_wait", "retry_wait"),
    ],
)
def test_every_state_has_its_verdict(state: str, verdict: str):
    assert numbers(judged([rule(fires=[at(5)])], [row(5, state)])) == {verdict: 1}


def test_a_slot_with_nothing_to_show_is_absent():
    found = judged([rule()], [row(5), row(15)])
    assert numbers(found) == {"succeeded": 2, "absent": 1}
    assert [(f.version, f.scheduled_for, f.why) for f in found.absent] == [(1, at(10), "no row and no missed range")]


def test_a_missed_range_accounts_for_the_slots_in_it():
    found = judged([rule()], [row(15)], missed=[Span(first_at=at(5), last_at=at(10))])
    assert numbers(found) == {"missed": 2, "succeeded": 1}


def test_slots_beyond_the_cursor_are_not_judged_yet():
    assert numbers(judged([rule()], [row(5)], planned_through=at(7))) == {"succeeded": 1}


def test_slots_outside_the_bounds_of_a_version_are_not_expected():
    assert numbers(judged([rule(active_from=at(5), active_until=at(10))], [row(10)])) == {"succeeded": 1}


def test_a_row_off_the_rhythm_is_extra():
    found = judged([rule()], [row(5), row(10), row(15), row(11)])
    assert [(f.scheduled_for, f.why) for f in found.extra] == [
        (at(11), "the rule of this version does not fire at this instant")
    ]


def test_a_row_of_a_version_nobody_wrote_is_extra():
    found = judged([rule()], [row(5), row(10), row(15), row(5, version=7, state="cancelled")])
    assert [f.version for f in found.extra] == [7]


def test_a_row_of_a_schedule_nobody_made_is_extra():
    assert numbers(judged([], [row(5)])) == {"extra": 1}


def test_an_edit_moves_later_slots_to_the_new_version():
    rules = [rule(superseded_at=at(7)), rule(2, active_from=at(7), activated_at=at(7))]
    rows = [row(5), row(10, "cancelled", reason="superseded"), row(10, version=2), row(15, version=2)]
    assert numbers(judged(rules, rows)) == {"succeeded": 3, "cancelled": 1}


def test_a_slot_at_the_very_instant_of_an_edit_belongs_to_the_old_version():
    rules = [rule(superseded_at=at(10)), rule(2, active_from=at(10), activated_at=at(10))]
    assert numbers(judged(rules, [row(5), row(10), row(15, version=2)])) == {"succeeded": 3}
    assert numbers(judged(rules, [row(5), row(15, version=2)])) == {"succeeded": 2, "absent": 1}


def test_an_edit_in_the_flexible_window_moves_the_slot_that_has_not_started():
    rules = [rule(superseded_at=at(5, 10)), rule(2, active_from=at(5) - SECOND / 1e6, activated_at=at(5, 10))]
    moved = [row(5, "cancelled", reason="superseded"), row(5, version=2)]
    later = [row(10, version=2), row(15, version=2)]
    assert numbers(judged(rules, moved + later)) == {"succeeded": 3, "cancelled": 1}
    lost = judged(rules, [row(5, "cancelled", reason="superseded"), *later])
    assert [(f.version, f.why) for f in lost.absent] == [(2, "only its cancelled predecessor is there")]


def test_a_slot_that_had_started_before_the_edit_is_not_run_again():
    rules = [rule(superseded_at=at(5, 10)), rule(2, active_from=at(4), activated_at=at(5, 10))]
    rows = [row(5), row(10, version=2), row(15, version=2)]
    assert numbers(judged(rules, rows)) == {"succeeded": 3}
    twice = judged(rules, [*rows, row(5, version=2)])
    assert [(f.version, f.why) for f in twice.extra] == [(1, "version 2 has run for this instant too")]


def test_an_occurrence_cancelled_by_its_owner_is_not_expected_of_the_next_version():
    rules = [rule(superseded_at=at(5, 10)), rule(2, active_from=at(4), activated_at=at(5, 10))]
    rows = [row(5, "cancelled", reason="cancelled by its owner"), row(10, version=2), row(15, version=2)]
    assert numbers(judged(rules, rows)) == {"cancelled": 1, "succeeded": 2}


def test_nothing_is_expected_of_a_paused_version():
    rules = [rule(superseded_at=at(7)), rule(2, is_active=False, activated_at=at(7), fires=())]
    assert numbers(judged(rules, [row(5), row(10, "cancelled", reason="paused")])) == {"succeeded": 1, "cancelled": 1}


def test_a_superseded_row_that_was_left_to_run_is_extra():
    rules = [rule(superseded_at=at(7)), rule(2, is_active=False, activated_at=at(7), fires=())]
    found = judged(rules, [row(5), row(10, "enqueued")])
    assert [(f.scheduled_for, f.why) for f in found.extra] == [
        (at(10), "this version was not in force at this instant")
    ]


def test_what_started_while_an_edit_waited_for_its_locks_is_no_mistake():
    rules = [rule(superseded_at=at(9, 58)), rule(2, is_active=False, activated_at=at(9, 58), fires=())]
    assert numbers(judged(rules, [row(5), row(10)])) == {"succeeded": 2}


def test_manual_and_backfilled_rows_stand_beside_the_rhythm():
    rows = [row(5), row(10), row(15), row(7, trigger="manual"), row(8, trigger="backfill")]
    found = judged([rule()], rows, backfills=[Span(first_at=at(6), last_at=at(9))])
    assert numbers(found) == {"succeeded": 3}
    assert dict(found.outside) == {"manual": 1, "backfill": 1}


def test_a_backfilled_row_that_no_backfill_covers_is_extra():
    rows = [row(5), row(10), row(15), row(8, trigger="backfill")]
    assert [f.why for f in judged([rule()], rows).extra] == ["no backfill of this schedule covers this instant"]


def test_a_backfill_fills_a_slot_of_its_own_version():
    rows = [row(5), row(10, trigger="backfill"), row(15)]
    found = judged([rule()], rows, missed=[Span(first_at=at(10), last_at=at(10))])
    assert numbers(found) == {"succeeded": 3}


def test_resuming_with_the_pause_as_downtime_expects_its_slots_of_the_new_version():
    rules = [
        rule(superseded_at=at(4)),
        rule(2, is_active=False, activated_at=at(4), superseded_at=at(12), fires=()),
        rule(3, active_from=at(4), activated_at=at(12)),
    ]
    rows = [row(5, "cancelled", reason="paused"), row(10, version=3, trigger="catch_up"), row(15, version=3)]
    found = judged(rules, rows, missed=[Span(first_at=at(5), last_at=at(5))])
    assert numbers(found) == {"cancelled": 1, "missed": 1, "succeeded": 2}
    assert numbers(judged(rules, rows))["absent"] == 1


def test_counts_come_with_every_verdict():
    assert judged([], []).counts[Verdict.ABSENT] == 0
