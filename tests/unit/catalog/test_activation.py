"""From when until when a version is in force: situations as rows, with literal instants."""

from datetime import UTC, datetime
from typing import Any

import pytest

from rota.base.errors import ValidationFailed
from rota.calendar import Timing
from rota.catalog.activation import Activation, activate, nth_fire
from rota.catalog.definition import Definition

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def definition(timing: dict[str, Any], **members: object) -> Definition:
    return Definition.parse({"name": "x", "timing": timing, "target": {"handler": {"name": "h"}}} | members)


def active(timing: dict[str, Any], **members: object) -> Activation:
    read = definition(timing, **members)
    return activate(read, read.timing, NOW)


def refused(timing: dict[str, Any], **members: object) -> str:
    with pytest.raises(ValidationFailed) as fault:
        active(timing, **members)
    return fault.value.errors[0].field


DAILY = {"cron": "0 9 * * *"}


def test_a_schedule_is_in_force_from_now_on_without_an_end():
    assert active(DAILY) == Activation(active_from=NOW, active_until=None)


def test_the_first_fire_may_be_at_starts_at_itself_and_the_last_at_ends_at_itself():
    found = active(DAILY, starts_at="2026-04-01T09:00:00Z", ends_at="2026-04-03T09:00:00Z")
    assert found.active_from == datetime(2026, 4, 1, 8, 59, 59, 999999, tzinfo=UTC)
    assert found.active_until == datetime(2026, 4, 3, 9, tzinfo=UTC)


def test_a_start_in_the_past_runs_nothing_of_the_past():
    assert active(DAILY, starts_at="2020-01-01T00:00:00Z").active_from == NOW


@pytest.mark.parametrize(
    ("most", "last"),
    [
        (1, datetime(2026, 3, 2, 9, tzinfo=UTC)),
        (3, datetime(2026, 3, 4, 9, tzinfo=UTC)),
        (10_000, datetime(2053, 7, 17, 9, tzinfo=UTC)),
    ],
)
def test_max_runs_is_the_instant_of_the_last_run(most: int, last: datetime):
    assert active(DAILY, max_runs=most).active_until == last


def test_of_max_runs_and_ends_at_the_earlier_one_ends_it():
    members = {"ends_at": "2026-03-03T09:00:00Z"}
    assert active(DAILY, max_runs=2, **members).active_until == datetime(2026, 3, 3, 9, tzinfo=UTC)
    assert active(DAILY, max_runs=9, **members).active_until == datetime(2026, 3, 3, 9, tzinfo=UTC)
    assert active(DAILY, max_runs=1, **members).active_until == datetime(2026, 3, 2, 9, tzinfo=UTC)


@pytest.mark.parametrize("n", [1, 1999, 2000, 2001, 5000, 1_000_000])
def test_the_nth_fire_of_an_interval_is_n_intervals_away(n: int):
    timing = Timing.parse({"every": "1m", "anchor": "2026-01-01T00:00:00Z"})
    found = nth_fire(timing, NOW, n)
    assert found is not None
    assert (found - NOW).total_seconds() == 60 * n


def test_a_timing_with_fewer_fires_has_no_nth_one():
    assert nth_fire(Timing.parse({"at": "2026-12-24T09:00:00Z"}), NOW, 1) == datetime(2026, 12, 24, 9, tzinfo=UTC)
    assert nth_fire(Timing.parse({"at": "2026-12-24T09:00:00Z"}), NOW, 2) is None


def test_runs_that_lie_centuries_ahead_are_no_end():
    assert active({"cron": "0 0 29 2 *"}, max_runs=1000).active_until is None


def test_what_would_never_run_is_refused_by_the_member_that_prevents_it():
    assert refused(DAILY, ends_at="2026-03-02T08:59:59Z") == "ends_at"
    assert refused(DAILY, ends_at="2020-01-01T00:00:00Z") == "ends_at"
    assert refused({"at": "2026-05-01T00:00:00Z"}, ends_at="2026-04-30T00:00:00Z") == "ends_at"
    assert refused({"at": "2026-05-01T00:00:00Z"}, starts_at="2026-05-02T00:00:00Z") == "starts_at"


def test_a_one_shot_has_its_own_instant():
    found = active({"at": "2026-12-24T09:00:00", "time_zone": "America/New_York"})
    assert found == Activation(active_from=NOW, active_until=None, fire_at=datetime(2026, 12, 24, 14, tzinfo=UTC))


def test_a_one_shot_a_little_late_still_runs_and_one_far_too_late_is_refused():
    late = {"misfire": {"max_lateness": "30s"}}
    found = active({"at": "2026-03-01T11:59:58Z"}, **late)
    assert found.fire_at == datetime(2026, 3, 1, 11, 59, 58, tzinfo=UTC)
    assert found.active_from < found.fire_at
    assert refused({"at": "2026-03-01T11:50:00Z"}, **late) == "timing.at"
    assert active({"at": "2020-03-01T11:50:00Z"}, misfire={"max_lateness": None}).fire_at is not None


@pytest.mark.parametrize("members", [{"calendar": "holidays"}, {"max_runs": 2}])
def test_a_one_shot_takes_no_members_of_recurring_ones(members: dict[str, Any]):
    with pytest.raises(ValidationFailed):
        definition({"at": "2026-12-24T09:00:00Z"}, **members)


def test_an_edit_may_take_over_slots_that_were_due_before_it():
    read = definition({"cron": "*/5 * * * *"})
    before = datetime(2026, 3, 1, 11, 54, 59, 999999, tzinfo=UTC)
    assert activate(read, read.timing, NOW, active_from=before).active_from == before
