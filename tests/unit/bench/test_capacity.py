"""The calculator against numbers worked out by hand."""

import pytest

from rota.bench.capacity import Load, Rates, as_json, as_table, capacity, parse_count


def load(**changes: float) -> Load:
    base = {"schedules": 20e6, "per_day": 200e6, "peak": 500e3, "within_s": 5.0, "mean_s": 0.2, "failure_share": 0.0}
    return Load(**{**base, **changes})


def test_mean_concurrency_is_rate_times_time():
    assert capacity(load(per_day=86_400_000, peak=0, mean_s=0.5)).mean_concurrency == pytest.approx(500.0)


def test_the_peak_must_have_started_within_the_time_given():
    plan = capacity(load())
    assert plan.peak_rate == pytest.approx(100_000)
    assert plan.peak_concurrency == pytest.approx(20_000)


def test_a_burst_holds_no_more_slots_than_it_has_occurrences():
    assert capacity(load(peak=1_000, per_day=0, mean_s=3_600)).peak_concurrency == pytest.approx(1_000)


def test_workers_have_slots_for_the_peak_with_head_room():
    assert capacity(load(slots_per_worker=64, headroom=1.5)).workers == 469


def test_short_work_is_bound_by_lifecycles_of_a_process_and_not_by_slots():
    plan = capacity(load(mean_s=0.0001, headroom=1.0), Rates(lifecycles_per_worker_s=20_000))
    assert plan.workers == 5


def test_planners_and_cells_follow_the_peak_rate():
    plan = capacity(load(headroom=1.5), Rates(plan_per_s=100_000, lifecycles_per_cell_s=30_000))
    assert (plan.planners, plan.cells) == (2, 5)


def test_failures_add_attempts_and_their_rows():
    plan = capacity(load(per_day=1_000_000, failure_share=0.5), Rates(finished_bytes=300, attempt_bytes=200))
    assert plan.bytes_per_day == pytest.approx(500_000_000)
    assert plan.mean_rate == pytest.approx(23.148, rel=1e-3)


def test_the_database_holds_schedules_history_and_what_is_pending():
    rates = Rates(schedule_bytes=500, version_bytes=400, finished_bytes=300, hot_bytes=1_000)
    plan = capacity(
        load(schedules=1_000, per_day=864_000, peak=0, payload_bytes=100, retention_days=10, horizon_s=100), rates
    )
    assert plan.hot_rows == pytest.approx(1_002)
    assert plan.database_bytes == pytest.approx(1_000_000 + 1_002_000 + 2_592_000_000)


def test_it_says_which_number_breaks_first_and_how_far_it_is():
    plan = capacity(load(per_day=8_640_000, peak=0, mean_s=0.01, disk_bytes=1e12))
    assert plan.breaks_first.name == "disk"
    overloaded = capacity(load())
    assert overloaded.breaks_first.name == "connections"
    assert overloaded.grows < 1


def test_no_load_needs_one_of_each_and_grows_for_ever():
    plan = capacity(Load(schedules=0, per_day=0))
    assert (plan.workers, plan.planners, plan.cells, plan.grows) == (1, 1, 1, pytest.approx(33.33, rel=1e-3))


def test_json_and_table_tell_the_same():
    plan = capacity(load())
    assert as_json(plan)["workers"] == 469
    assert ("worker processes", "469", "64 slots each, head-room 1.5x") in as_table(plan)
    assert ("peak rate", "100 k/s", "500 k due at once, started within 5 s") in as_table(plan)


@pytest.mark.parametrize(
    ("text", "value"), [("20M", 20e6), ("500k", 500e3), ("1.5G", 1.5e9), ("2_000", 2000), (" 7 ", 7), ("1,000", 1000)]
)
def test_counts_are_written_short(text: str, value: float):
    assert parse_count(text) == value


@pytest.mark.parametrize("text", ["", "M", "many", "-1", "1e999", "nan", "5x"])
def test_what_is_no_count_is_refused(text: str):
    with pytest.raises(ValueError, match="not a count"):
        parse_count(text)


@pytest.mark.parametrize(
    "changes", [{"within_s": 0}, {"failure_share": 1}, {"peak": -1}, {"headroom": 0.5}, {"per_day": float("nan")}]
)
def test_impossible_loads_are_refused_with_their_name(changes: dict[str, float]):
    with pytest.raises(ValueError, match=next(iter(changes))):
        load(**changes)
