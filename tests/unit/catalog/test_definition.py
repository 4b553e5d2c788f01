"""What a definition may say, how it is told what is wrong with it, and its one canonical form."""

import contextlib
import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.base.errors import FieldError, ValidationFailed
from rota.base.model import Overlap, Priority
from rota.catalog.definition import Definition, merge_definition

DESIGN_EXAMPLE: dict[str, Any] = {
    "name": "daily-usage",
    "group": "reports",
    "labels": {"team": "billing"},
    "timing": {"cron": "0 9 * * *", "time_zone": "America/New_York", "dst": "rota"},
    "starts_at": None,
    "ends_at": None,
    "window": "0s",
    "misfire": {"policy": "fire_once", "max_lateness": "1h", "max_catch_up": 10},
    "overlap": "allow",
    "priority": "normal",
    "retry": {"max_attempts": 5, "base": "10s", "cap": "10m", "deadline": None},
    "target": {
        "http": {"url": "https://example.com/hook", "method": "POST", "headers": {}, "timeout": "30s"},
    },
    "payload": {"customer": 123},
}
SMALL: dict[str, Any] = {
    "name": "small",
    "timing": {"cron": "0 9 * * *"},
    "target": {"handler": {"name": "send_report"}},
}


def faults(document: dict[str, Any]) -> dict[str, FieldError]:
    with pytest.raises(ValidationFailed) as refused:
        Definition.parse(document)
    return {error.field: error for error in refused.value.errors}


def test_the_documented_example_is_read_and_written_back_as_it_was():
    written = Definition.parse(DESIGN_EXAMPLE).document()
    assert {name: written[name] for name in DESIGN_EXAMPLE} == DESIGN_EXAMPLE


def test_members_left_out_have_the_documented_defaults():
    document = Definition.parse(SMALL).document()
    assert document["group"] == ""
    assert document["labels"] == {}
    assert document["window"] == "0s"
    assert document["misfire"] == {"policy": "fire_once", "max_lateness": "1h", "max_catch_up": 10}
    assert document["overlap"] == "allow"
    assert document["priority"] == "normal"
    assert document["retry"] == {"max_attempts": 5, "base": "10s", "cap": "10m", "deadline": None}
    assert document["target"] == {"handler": {"name": "send_report", "queue": "default"}}
    assert document["payload"] is None
    assert document["max_runs"] is None


def test_reading_the_written_form_gives_the_same_definition():
    once = Definition.parse(DESIGN_EXAMPLE)
    assert Definition.parse(once.document(masked=False)) == once


def test_members_that_a_read_answers_beside_the_definition_may_be_sent_back():
    read = SMALL | {"id": "x", "version": 3, "state": "active", "created_at": "2026-01-01T00:00:00Z", "next_fires": []}
    assert Definition.parse(read) == Definition.parse(SMALL)


def test_all_faults_are_told_at_once_with_their_paths():
    found = faults({
        "name": "",
        "timing": {"cron": "61 * * * *", "time_zone": "America/New_Yrok"},
        "window": "soon",
        "misfire": {"policy": "later", "max_catch_up": 0},
        "overlap": "maybe",
        "priority": "recovery",
        "retry": {"max_attempts": 0, "base": "10m", "cap": "10s"},
        "target": {"http": {"url": "ftp://example.com", "method": "FETCH", "timeout": "2h"}},
        "labels": {"team": 3},
        "max_runs": True,
        "starts_at": "2026-01-01T00:00:00",
        "colour": "blue",
    })  # fmt: skip
    assert {
        "name", "window", "misfire.policy", "misfire.max_catch_up", "overlap", "priority", "retry.max_attempts",
        "target.http.url", "target.http.method", "target.http.timeout", "labels.team", "max_runs", "starts_at",
        "colour",
    } <= found.keys()  # fmt: skip
    assert any(field.startswith("timing") for field in found)
    assert "starts_at" in found["colour"].hint


def test_a_bad_expression_and_an_unknown_zone_are_told_at_their_own_paths():
    assert "timing.cron" in faults(SMALL | {"timing": {"cron": "61 * * * *"}})
    assert "timing.time_zone" in faults(SMALL | {"timing": {"cron": "0 9 * * *", "time_zone": "America/New_Yrok"}})
    assert "timing" in faults({"name": "x", "target": SMALL["target"]})


@pytest.mark.parametrize(
    "zone",
    [
        "PST", "PDT", "UTC+8", "GMT+2", "America/New_Yrok", "Europe/London/", "Local", "local", "", " Europe/Paris",
        "Mars/Phobos", "../../etc/passwd", "Europe/Paris\0", 5,
    ],
)  # fmt: skip
def test_a_zone_that_is_none_is_refused_and_never_becomes_utc(zone: object):
    assert any(
        path.startswith("timing") for path in faults(SMALL | {"timing": {"cron": "0 9 * * *", "time_zone": zone}})
    )


@pytest.mark.parametrize(
    ("member", "path"),
    [
        ({"misfire": {"polcy": "skip"}}, "misfire.polcy"),
        ({"retry": {"attempts": 3}}, "retry.attempts"),
        ({"target": {"http": {"uri": "https://example.com"}}}, "target.http.uri"),
        ({"target": {"handler": {"name": "x", "que": "y"}}}, "target.handler.que"),
        ({"target": {"sms": {}}}, "target.sms"),
        ({"limit": {"key": "x", "per": 3}}, "limit.per"),
    ],
)
def test_members_that_are_not_known_are_refused_wherever_they_are(member: dict[str, Any], path: str):
    assert path in faults(SMALL | member)


def test_a_cap_below_the_base_is_refused():
    assert "retry.cap" in faults(SMALL | {"retry": {"base": "10m", "cap": "10s"}})


def test_an_end_before_the_start_is_refused_and_both_are_kept_in_utc():
    times = {"starts_at": "2026-05-01T09:00:00+02:00", "ends_at": "2026-05-01T07:00:00Z"}
    definition = Definition.parse(SMALL | times)
    assert definition.starts_at == datetime(2026, 5, 1, 7, tzinfo=UTC)
    assert definition.document()["starts_at"] == "2026-05-01T07:00:00Z"
    assert "ends_at" in faults(SMALL | {"starts_at": "2026-05-01T09:00:00Z", "ends_at": "2026-05-01T08:59:59Z"})


@pytest.mark.parametrize("instant", ["2026-02-30T00:00:00Z", "0001-01-01T00:00:00+14:00", "now", 5, "2026-01-01"])
def test_what_is_no_instant_with_an_offset_is_refused(instant: object):
    assert "starts_at" in faults(SMALL | {"starts_at": instant})


@pytest.mark.parametrize("payload", [{"a": "x\0y"}, ["\0"], {"a\0": 1}, "\0"])
def test_a_payload_with_nul_is_refused(payload: object):
    assert any(path.startswith("payload") for path in faults(SMALL | {"payload": payload}))


def test_the_text_of_an_escaped_nul_is_no_nul():
    assert json.loads(Definition.parse(SMALL | {"payload": "\\u0000"}).payload) == "\\u0000"


@pytest.mark.parametrize(
    "payload", [float("nan"), [float("inf")], {"a": -float("inf")}, "\ud800", {"\udc00": 1}, {1, 2}]
)
def test_a_payload_that_json_cannot_carry_is_refused(payload: object):
    assert any(path.startswith("payload") for path in faults(SMALL | {"payload": payload}))


def test_a_payload_may_hold_null_and_is_refused_when_it_nests_too_deeply():
    assert Definition.parse(SMALL | {"payload": [None, {"a": None}]}).payload == '[null,{"a":null}]'
    deep: list[Any] = []
    for _ in range(sys.getrecursionlimit() // 2):
        deep = [deep]
    assert any(path.startswith("payload") for path in faults(SMALL | {"payload": deep}))
    assert Definition.parse(SMALL | {"payload": [[]] * 500}).payload.startswith("[[],")


def test_a_payload_above_the_limit_is_refused_with_its_size():
    with pytest.raises(ValidationFailed, match="1002 bytes of JSON, of at most 1000"):
        Definition.parse(SMALL | {"payload": "x" * 1000}, max_payload_bytes=1000)


@pytest.mark.parametrize("name", ["a\0b", "line\nbreak", "\ud83d", "x" * 256, 7, None, "\x7f"])
def test_names_that_cannot_be_shown_are_refused(name: object):
    assert "name" in faults(SMALL | {"name": name})


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "Монтаж", "=1+1", "日报", "{{7*7}}", "a/b c"])
def test_names_with_any_visible_characters_are_kept_as_they_are(name: str):
    assert Definition.parse(SMALL | {"name": name}).name == name


def test_h_is_resolved_by_the_name_at_first_and_stays_when_the_schedule_is_renamed():
    hashed = SMALL | {"timing": {"cron": "H H * * *"}}
    first = Definition.parse(hashed, hash_key="a/small")
    again = Definition.parse(hashed, hash_key="a/small")
    other = Definition.parse(hashed, hash_key="b/small")
    assert first.timing.key() == again.timing.key()
    assert first.timing.key() != other.timing.key()
    assert first.document()["timing"] == {"cron": "H H * * *", "hash_key": "a/small"}
    renamed = first.patched({"name": "big"}, hash_key="a/big")
    assert renamed.timing.key() == first.timing.key()


def test_an_interval_keeps_the_anchor_it_was_first_given():
    first = Definition.parse(SMALL | {"timing": {"every": "15m"}}, hash_key="a/small")
    anchor = first.document()["timing"]["anchor"]  # type: ignore[index]
    assert anchor
    renamed = first.patched({"name": "big"}, hash_key="a/big")
    assert renamed.document()["timing"] == {"every": "15m", "anchor": anchor}
    shortened = first.patched({"timing": {"every": "1m"}}, hash_key="a/small")
    assert shortened.document()["timing"] == {"every": "1m", "anchor": anchor}


def test_timings_without_h_are_shared_whatever_the_name():
    named = [Definition.parse(SMALL | {"timing": {"cron": "0 3 * * THU"}}, hash_key=key) for key in ("a", "b")]
    assert named[0].timing is named[1].timing
    assert "hash_key" not in named[0].rule.timing_document


def test_a_patch_changes_what_it_names_and_null_takes_it_back():
    stored = Definition.parse(DESIGN_EXAMPLE)
    patched = stored.patched({"group": None, "labels": {"tier": "1"}, "retry": {"max_attempts": 9}})
    assert patched.group == ""
    assert patched.labels == {"team": "billing", "tier": "1"}
    assert patched.policy.retry.max_attempts == 9
    assert patched.policy.retry.base == timedelta(seconds=10)
    assert patched.timing == stored.timing


def test_a_patch_replaces_the_payload_as_a_whole():
    stored = Definition.parse(DESIGN_EXAMPLE)
    assert stored.patched({"payload": {"other": None}}).payload == '{"other":null}'
    assert stored.patched({"payload": None}).payload == "null"


def test_a_patch_to_another_kind_of_timing_or_target_leaves_nothing_of_the_old_one():
    stored = Definition.parse(DESIGN_EXAMPLE)
    patched = stored.patched({"timing": {"every": "2h", "anchor": "2026-01-01T00:00:00Z"}})
    assert patched.document()["timing"] == {"every": "2h", "anchor": "2026-01-01T00:00:00Z"}
    handler = stored.patched({"target": {"handler": {"name": "x"}}})
    assert handler.document()["target"] == {"handler": {"name": "x", "queue": "default"}}


def test_a_lateness_of_null_means_never_too_late():
    assert Definition.parse(SMALL | {"misfire": {"max_lateness": None}}).policy.misfire.max_lateness is None
    patched = Definition.parse(SMALL).patched({"misfire": {"max_lateness": None}})
    assert patched.policy.misfire.max_lateness is None


def test_the_same_rule_is_recognised_whatever_else_differs():
    one = Definition.parse(DESIGN_EXAMPLE)
    assert one.has_timing_of(one.patched({"name": "other", "payload": 1, "retry": {"max_attempts": 1}}))
    assert not one.has_timing_of(one.patched({"timing": {"cron": "0 10 * * *"}}))
    assert not one.has_timing_of(one.patched({"ends_at": "2030-01-01T00:00:00Z"}))
    assert not one.has_timing_of(one.patched({"timing": {"time_zone": "Europe/Berlin"}}))


def test_the_lane_of_a_schedule_is_where_it_waits():
    limited = DESIGN_EXAMPLE | {"limit": {"key": "mail", "rate": "10/s"}, "overlap": "queue_one", "priority": "high"}
    lane = Definition.parse(limited).lane_key(7)  # type: ignore[arg-type]
    assert (lane.tenant_id, lane.queue, lane.priority) == (7, "default", Priority.HIGH)
    assert (lane.target_key, lane.limit_key, lane.overlap) == ("http:example.com:443", "mail", Overlap.QUEUE_ONE)


@pytest.mark.parametrize("limit", [{}, {"key": "a b"}, {"key": "a", "rate": "10"}, {"key": "a", "max_concurrency": 0}])
def test_limits_that_say_nothing_usable_are_refused(limit: dict[str, Any]):
    assert any(path.startswith("limit.") for path in faults(SMALL | {"limit": limit}))


def test_the_document_a_caller_passes_is_never_changed():
    document = json.loads(json.dumps(DESIGN_EXAMPLE))
    stored = Definition.parse(document)
    stored.patched({"labels": {"x": "y"}, "timing": {"cron": "1 1 * * *"}})
    assert document == DESIGN_EXAMPLE
    assert stored.labels == {"team": "billing"}


def test_a_merge_patch_follows_its_standard_for_labels():
    assert merge_definition({"labels": {"a": "1", "b": "2"}}, {"labels": {"a": None, "c": "3"}}) == {
        "labels": {"b": "2", "c": "3"}
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=15,
)


def test_a_value_that_json_cannot_carry_is_not_said_again_as_it_was():
    found = faults(
        SMALL | {"max_runs": 10**5000, "group": 10**5000, "description": 2**64, "labels": {"a": float("nan")}}
    )
    assert found["description"].value == "a number of 65 bits"
    assert found["labels.a"].value == "nan"


def test_of_a_hundred_thousand_faults_the_first_hundred_are_told():
    with pytest.raises(ValidationFailed) as refused:
        Definition.parse(SMALL | {f"x{number}" + "y" * 1000: 1 for number in range(100_000)})
    assert len(refused.value.errors) == 100
    assert max(len(error.field) for error in refused.value.errors) == 200


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["name", "group", "labels", "timing", "window", "misfire", "retry", "target",
    "payload", "starts_at", "max_runs", "limit", "overlap", "priority", "calendar", "other"]), JSON))  # fmt: skip
def test_whatever_is_sent_is_either_read_or_refused_by_field(document: dict[str, Any]):
    with contextlib.suppress(ValidationFailed):
        read = Definition.parse(SMALL | document)
        assert Definition.parse(read.document(masked=False)) == read


@settings(deadline=None)
@given(JSON)
def test_a_payload_that_is_read_comes_back_the_same(payload: Any):
    try:
        read = Definition.parse(SMALL | {"payload": payload})
    except ValidationFailed:
        return
    assert json.loads(read.payload) == payload
    assert "\0" not in json.dumps(read.payload)
