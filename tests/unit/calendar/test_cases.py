"""Cases of time that users of other schedulers met, as far as the time engine alone decides them."""

import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.calendar import Timing, TimingError, get_zone, read_instant, window_offset, write_instant

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "data" / "time_cases.json").read_text())
BY_ID = {case["id"]: case for case in CASES}
# A case that states both day rules uses `and` for the dialect that has it.
DIALECT_OF_RULE = {("m h dom mon dow", "vixie"): "unix5", ("m h dom mon dow", "and"): "jenkinsH"}
POLICIES = [
    pytest.param(case, policy, answer, id=f"{case['id']} {policy}")
    for case in CASES
    if case["kind"] == "cron.next"
    for policy, answer in (case["expected"].get("by_policy") or {"any": case["expected"]}).items()
]


def at(text: str) -> Any:
    return read_instant(text, field="instant")


def fires_of(timing: Timing, asked: dict[str, Any]) -> list[str]:
    after = at(asked["after"])
    if "until_exclusive" in asked:
        end = at(asked["until_exclusive"]) - timedelta(microseconds=1)
        return [write_instant(fire) for fire in timing.fires(after, end)]
    found: list[str] = []
    fire = timing.next_after(after)
    while fire is not None and len(found) < asked["n"]:
        found.append(write_instant(fire))
        fire = timing.next_after(fire)
    return found


@pytest.mark.parametrize(("case", "policy", "answer"), POLICIES)
def test_the_case_fires_as_its_policy_says(case: dict[str, Any], policy: str, answer: dict[str, Any]) -> None:
    asked = case["input"]
    dst = {"wildcards": "wall"}
    if policy != "any":
        dst |= dict(part.split("=") for part in policy.split(","))  # type: ignore[misc]
    dialect = DIALECT_OF_RULE.get((asked["fields"], asked["day_rule"]), "seconds6")
    timing = Timing.parse({"cron": asked["expr"], "time_zone": asked["tz"], "dialect": dialect, "dst": dst})
    found = fires_of(timing, asked)
    if "count" in answer:
        assert len(found) == answer["count"]
    else:
        assert found == answer["fires"]


@pytest.mark.parametrize("identity", ["TM-100", "TM-120", "TM-128"])
def test_expressions_that_never_fire_or_are_wrong_are_refused(identity: str) -> None:
    asked = BY_ID[identity]["input"]
    for text in asked.get("exprs") or [asked["expr"]]:
        with pytest.raises(TimingError) as refused:
            Timing.parse({"cron": text, "time_zone": "UTC", "dialect": "unix5"})
        assert refused.value.field == "timing.cron"


def test_six_fields_without_a_dialect_are_refused_with_both_readings() -> None:
    with pytest.raises(TimingError, match="seconds first") as refused:
        Timing.parse({"cron": "30 5 9 * * 1", "time_zone": "UTC"})
    assert "year" in str(refused.value)
    assert "dialect" in refused.value.hint


@pytest.mark.parametrize("name", BY_ID["TM-211"]["input"]["names"])
def test_zones_that_are_none_are_refused_and_never_become_utc(name: str) -> None:
    with pytest.raises(TimingError) as refused:
        Timing.parse({"cron": "0 * * * *", "time_zone": name})
    assert refused.value.field == "timing.time_zone"


def test_a_misspelt_zone_is_answered_with_the_nearest_names() -> None:
    with pytest.raises(TimingError) as refused:
        get_zone("America/New_Yrok")
    assert "America/New_York" in refused.value.hint


def test_intervals_are_anchored_whatever_the_moment_of_asking() -> None:
    every = Timing.parse({"every": "10s", "anchor": "1970-01-01T00:00:00Z"})
    found = list(every.fires(at("2021-08-17T00:02:54.9Z"), at("2021-08-17T00:03:59Z")))
    assert [write_instant(fire) for fire in found] == BY_ID["TM-146"]["expected"]["slots"]
    hourly = Timing.parse({"every": "1h", "anchor": "2011-04-20T06:00:00Z"})
    assert hourly.next_after(at("2011-04-20T16:10:00Z")) == at("2011-04-20T17:00:00Z")


def test_a_default_anchor_is_stored_and_gives_the_same_answer_ever_after() -> None:
    made = Timing.parse({"every": "3h"}, hash_key="tenant/report")
    again = Timing.from_json(made.to_json())
    first = made.next_after(at("2023-06-08T02:00:00Z"))
    assert first == again.next_after(at("2023-06-08T02:00:00Z"))
    assert first is not None
    assert first - timedelta(hours=3) <= at("2023-06-08T02:00:00Z")


def test_elapsed_days_and_calendar_days_differ_when_the_clock_changes() -> None:
    expected = BY_ID["TM-061"]["expected"]
    after = at("2019-03-26T15:00:00Z")
    elapsed = Timing.parse({"every": "7d", "anchor": "2019-03-26T15:00:00Z"})
    calendar = Timing.parse(
        {"every": {"days": 7}, "at": "16:00", "anchor": "2019-03-26", "time_zone": "Europe/Brussels"}
    )
    for timing, name in ((elapsed, "absolute_interval"), (calendar, "calendar_interval")):
        assert fires_of(timing, {"after": write_instant(after), "n": 2}) == expected[name]


@pytest.mark.parametrize("gap", ["skip", "next_valid"])
def test_a_calendar_day_without_its_time_follows_the_gap_policy(gap: str) -> None:
    timing = Timing.parse(
        {"every": {"days": 1}, "at": "23:30", "anchor": "2024-03-29", "time_zone": "America/Nuuk", "dst": {"gap": gap}}
    )
    found = fires_of(timing, {"after": "2024-03-29T12:00:00Z", "n": 3})
    assert found == BY_ID["TM-062"]["expected"][f"gap={gap}"]


@pytest.mark.parametrize(
    ("cron", "zone", "after", "following"),
    [
        ("0 10 14 2 *", "UTC", "2013-07-11T09:00:00Z", "2014-02-14T10:00:00Z"),
        ("0 3 * * *", "UTC", "2020-01-01T03:00:00Z", "2020-01-02T03:00:00Z"),
        ("45 8,13 * * *", "America/New_York", "2016-08-25T12:44:59.997Z", "2016-08-25T12:45:00Z"),
        ("45 8,13 * * *", "America/New_York", "2016-08-25T12:45:00.001Z", "2016-08-25T17:45:00Z"),
        ("0 0 1 * *", "UTC", "2026-07-01T00:00:00.003Z", "2026-08-01T00:00:00Z"),
        ("0 3 * * *", "UTC", "2026-06-16T02:59:59.999999Z", "2026-06-16T03:00:00Z"),
        ("30 2 * * *", "America/Chicago", "2016-03-13T07:00:00Z", "2016-03-14T07:30:00Z"),
    ],
)
def test_the_next_fire_is_strictly_later_to_the_microsecond(cron: str, zone: str, after: str, following: str) -> None:
    timing = Timing.parse({"cron": cron, "time_zone": zone})
    assert timing.next_after(at(after)) == at(following)


def test_hashes_spread_schedules_evenly_over_the_hour() -> None:
    minutes = Counter(
        Timing.parse({"cron": "H H(0-3) * * *"}, hash_key=f"tenant-{n}/report").to_json()["cron"].split()[0]
        for n in range(10_000)
    )
    mean = 10_000 / 60
    chi_square = sum((minutes[str(minute)] - mean) ** 2 / mean for minute in range(60))
    assert chi_square < 98.3  # the 0.1% bound of 59 degrees of freedom


def test_window_offsets_are_stable_within_the_window_and_spread() -> None:
    window = timedelta(minutes=3)
    offsets = [window_offset(f"{n:032d}.1.20250522T100000Z", window) for n in range(1000)]
    assert all(timedelta(0) <= offset < window for offset in offsets)
    assert len(set(offsets)) > 900
    assert window_offset("a.1.20250522T100000Z", window) == window_offset("a.1.20250522T100000Z", window)
    assert window_offset("a.1.20250522T100000Z", timedelta(0)) == timedelta(0)
