"""Schedules over HTTP: created once, edited by version, paused and resumed, their secrets kept."""

import asyncio
import re
from urllib.parse import quote

import pytest

from support.api import Api, schedule

SECRET = "s3cr3t-value-nobody-else-may-see"


async def test_a_created_schedule_comes_back_with_its_id_version_state_and_next_fires(api: Api):
    answer = await api.post("/v1/schedules", schedule(timing={"every": "1h", "anchor": "2026-01-01T00:00:00Z"}))
    assert answer.status == 201
    made = answer.json
    assert answer.headers["Location"] == f"/v1/schedules/{made['id']}"
    assert answer.headers["ETag"] == '"1"'
    assert made["version"] == 1
    assert made["state"] == "active"
    assert made["name"] == "daily-usage"
    assert made["payload"] == {"customer": 123}
    assert made["target"] == {"handler": {"name": "send_report", "queue": "default"}}
    assert 1 <= len(made["next_fires"]) <= 3
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:00:00Z", fire) for fire in made["next_fires"])
    assert (await api.get(f"/v1/schedules/{made['id']}")).json == made


async def test_the_documented_example_is_accepted_as_it_stands(api: Api):
    example = {
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
        "target": {"http": {"url": "https://example.com/hook", "method": "POST", "headers": {}, "timeout": "30s"}},
        "payload": {"customer": 123},
    }
    answer = await api.post("/v1/schedules", example)
    assert answer.status == 201, answer.body
    made = answer.json
    assert {name: made[name] for name in example} == example


async def test_what_was_read_can_be_sent_back(api: Api):
    made = await api.make()
    answer = await api.call("PUT", f"/v1/schedules/{made['id']}", made, headers={"If-Match": '"1"'})
    assert answer.status == 200, answer.body
    same = {name: value for name, value in answer.json.items() if name not in ("version", "updated_at")}
    assert same == {name: value for name, value in made.items() if name not in ("version", "updated_at")}


async def test_ten_creates_at_once_with_one_idempotency_key_make_one_schedule(api: Api):
    headers = {"Idempotency-Key": "create-1"}
    answers = await asyncio.gather(*(api.post("/v1/schedules", schedule(), headers=headers) for _ in range(10)))
    assert {answer.status for answer in answers} == {201}
    assert len({answer.body for answer in answers}) == 1
    assert len(await api.all_items("/v1/schedules")) == 1
    assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1


async def test_a_repeated_create_answers_as_at_first_even_after_a_change(api: Api):
    headers = {"Idempotency-Key": "create-2"}
    first = await api.post("/v1/schedules", schedule(), headers=headers)
    await api.call("PATCH", f"/v1/schedules/{first.json['id']}", {"group": "other"})
    again = await api.post("/v1/schedules", schedule(), headers=headers)
    assert again.status == 201
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json == first.json


async def test_one_idempotency_key_with_another_body_is_a_conflict(api: Api):
    headers = {"Idempotency-Key": "create-3"}
    await api.post("/v1/schedules", schedule(), headers=headers)
    answer = await api.post("/v1/schedules", schedule(name="other"), headers=headers)
    assert answer.status == 409
    assert answer.code == "conflict"
    assert len(await api.all_items("/v1/schedules")) == 1


async def test_a_refused_create_does_not_use_up_its_idempotency_key(api: Api):
    headers = {"Idempotency-Key": "create-4"}
    answer = await api.post("/v1/schedules", schedule(calendar="unknown"), headers=headers)
    assert answer.status == 422
    assert (await api.post("/v1/schedules", schedule(), headers=headers)).status == 201


async def test_two_tenants_may_use_the_same_idempotency_key(api: Api):
    other = await api.sign_up("other")
    headers = {"Idempotency-Key": "shared"}
    mine = await api.post("/v1/schedules", schedule(), headers=headers)
    theirs = await api.post("/v1/schedules", schedule(), headers=headers, key=other.key)
    assert (mine.status, theirs.status) == (201, 201)
    assert mine.json["id"] != theirs.json["id"]


async def test_creates_that_arrive_together_each_get_their_own_answer(api: Api):
    documents = [schedule(name=f"n{number}", overlap="no" if number % 7 == 0 else "allow") for number in range(70)]
    answers = await asyncio.gather(*(api.post("/v1/schedules", document) for document in documents))
    for number, answer in enumerate(answers):
        assert answer.status == (422 if number % 7 == 0 else 201)
        if answer.status == 201:
            assert answer.json["name"] == f"n{number}"
    assert len({answer.json["id"] for answer in answers if answer.status == 201}) == 60


async def test_one_bad_create_among_many_at_once_harms_no_other(api: Api):
    # An unknown calendar is found out only by the transaction that the creates share.
    documents = [schedule(name=f"n{n}", calendar="unknown" if n == 5 else None) for n in range(20)]
    answers = await asyncio.gather(*(api.post("/v1/schedules", document) for document in documents))
    assert [answer.status for answer in answers] == [422 if number == 5 else 201 for number in range(20)]


async def test_a_quota_of_schedules_refuses_the_one_too_many(api: Api):
    small = await api.sign_up("small", max_schedules=2)
    answers = [await api.post("/v1/schedules", schedule(name=f"n{n}"), key=small.key) for n in range(3)]
    assert [answer.status for answer in answers] == [201, 201, 429]
    assert answers[2].code == "quota_exceeded"


async def test_a_replacement_must_name_the_version_it_replaces(api: Api):
    made = await api.make()
    path = f"/v1/schedules/{made['id']}"
    assert (await api.call("PUT", path, schedule(name="x"))).status == 428
    assert (await api.call("PUT", path, schedule(name="x"), headers={"If-Match": '"7"'})).status == 412
    assert (await api.call("PUT", path, schedule(name="x"), headers={"If-Match": '"1"'})).json["version"] == 2
    assert (await api.call("PUT", path + "?force=true", schedule(name="y"))).json["version"] == 3


async def test_a_stale_replacement_does_not_undo_a_pause(api: Api):
    made = await api.make()
    path = f"/v1/schedules/{made['id']}"
    await api.post(f"{path}/pause", {"reason": "the target is down"})
    answer = await api.call("PUT", path, made, headers={"If-Match": '"1"'})
    assert answer.status == 412
    assert answer.code == "version_mismatch"
    now = (await api.get(path)).json
    assert (now["state"], now["pause_reason"]) == ("paused", "the target is down")


async def test_an_edit_of_a_paused_schedule_keeps_it_paused(api: Api):
    made = await api.make()
    path = f"/v1/schedules/{made['id']}"
    await api.post(f"{path}/pause", {"reason": "holiday"})
    await api.call("PATCH", path, {"payload": {"customer": 7}})
    now = (await api.get(path)).json
    assert (now["state"], now["pause_reason"], now["payload"]) == ("paused", "holiday", {"customer": 7})
    assert now["next_fires"] == []


async def test_twenty_clients_that_each_add_a_label_lose_none(api: Api):
    made = await api.make()
    path = f"/v1/schedules/{made['id']}"

    async def add(number: int) -> None:
        while True:
            read = (await api.get(path)).json
            labels = {**read["labels"], f"l{number}": "on"}
            answer = await api.call(
                "PUT", path, {**read, "labels": labels}, headers={"If-Match": f'"{read["version"]}"'}
            )
            if answer.status == 200:
                return
            assert answer.status == 412

    await asyncio.gather(*(add(number) for number in range(20)))
    now = (await api.get(path)).json
    assert now["labels"] == {f"l{number}": "on" for number in range(20)}
    assert now["version"] == 21


async def test_a_patch_changes_what_it_names_and_null_takes_back_a_default(api: Api):
    made = await api.make(group="reports", overlap="queue_one")
    path = f"/v1/schedules/{made['id']}"
    answer = await api.call(
        "PATCH", path, {"group": None, "timing": {"cron": "30 10 * * *"}}, headers={"If-Match": '"1"'}
    )
    assert answer.status == 200, answer.body
    now = answer.json
    assert (now["group"], now["overlap"], now["version"]) == ("", "queue_one", 2)
    assert now["timing"]["cron"] == "30 10 * * *"
    assert now["timing"]["time_zone"] == "America/New_York"
    assert (await api.call("PATCH", path, {"group": "x"}, headers={"If-Match": '"1"'})).status == 412


async def test_a_cancelled_schedule_stays_readable_and_fires_no_more(api: Api):
    made = await api.make()
    path = f"/v1/schedules/{made['id']}"
    assert (await api.call("DELETE", path, headers={"If-Match": '"9"'})).status == 412
    assert (await api.call("DELETE", path)).json["state"] == "cancelled"
    now = (await api.get(path)).json
    assert (now["state"], now["next_fires"]) == ("cancelled", [])
    assert (await api.post(f"{path}/resume")).status == 409
    assert (await api.call("PATCH", path, {"group": "x"})).status == 409


async def test_pause_and_resume_tell_why_and_until_when(api: Api):
    made = await api.make()
    path = f"/v1/schedules/{made['id']}"
    paused = await api.post(f"{path}/pause", {"reason": "moving", "until": "2099-01-01T00:00:00+01:00"})
    assert paused.json["state"] == "paused"
    assert paused.json["paused_until"] == "2098-12-31T23:00:00Z"
    assert paused.json["version"] == 2
    resumed = await api.post(f"{path}/resume", {"missed": "skip", "reason": "moved"})
    assert resumed.json["state"] == "active"
    assert (resumed.json["paused_until"], resumed.json["pause_reason"]) == (None, None)
    assert resumed.json["next_fires"]


async def test_history_shows_every_version_newest_first(api: Api):
    made = await api.make()
    path = f"/v1/schedules/{made['id']}"
    await api.call("PATCH", path, {"group": "a"})
    await api.post(f"{path}/pause", {"reason": "why not"})
    versions = await api.all_items(f"{path}/versions?limit=2")
    assert [(version["version"], version["state"]) for version in versions] == [
        (3, "paused"),
        (2, "active"),
        (1, "active"),
    ]
    assert versions[0]["reason"] == "why not"
    assert api.caller.key_id in versions[0]["actor"]


async def test_run_now_makes_one_occurrence_for_one_key(api: Api):
    made = await api.make()
    path = f"/v1/schedules/{made['id']}/run"
    headers = {"Idempotency-Key": "run-1"}
    answers = await asyncio.gather(*(api.post(path, {"reason": "test"}, headers=headers) for _ in range(5)))
    assert {answer.status for answer in answers} == {201}
    assert len({answer.json["id"] for answer in answers}) == 1
    found = await api.all_items(f"/v1/occurrences?schedule_id={made['id']}")
    assert [(item["trigger"], item["state"]) for item in found if item["trigger"] == "manual"] == [
        ("manual", "enqueued")
    ]
    other = await api.post(path, {"reason": "another"}, headers=headers)
    assert other.status == 409


async def test_secrets_read_as_a_mask_and_the_mask_sent_back_keeps_them(api: Api, connection):
    target = {
        "http": {
            "url": f"https://example.com/hook?token={SECRET}&page=1",
            "headers": {"Authorization": f"Bearer {SECRET}", "X-Plain": "shown"},
        }
    }
    answer = await api.post("/v1/schedules", schedule(target=target))
    assert answer.status == 201
    path = f"/v1/schedules/{answer.json['id']}"
    shown = (await api.get(path)).json
    assert SECRET.encode() not in answer.body
    assert shown["target"]["http"]["headers"] == {"Authorization": "***", "X-Plain": "shown"}
    assert shown["target"]["http"]["url"] == "https://example.com/hook?token=***&page=1"
    shown["target"]["http"]["headers"]["X-Plain"] = "changed"
    assert (await api.call("PUT", path, shown, headers={"If-Match": '"1"'})).status == 200
    assert (await api.call("PATCH", path, {"target": shown["target"]})).status == 200
    kept = await connection.fetchval("SELECT target FROM schedule_versions WHERE version = 3")
    assert kept.count(SECRET) == 2
    assert "changed" in kept
    for listing in ("/v1/schedules", f"{path}/versions", "/v1/audit-trail", "/metrics", "/openapi.json"):
        assert SECRET.encode() not in (await api.get(listing)).body


@pytest.mark.parametrize(
    "name", ["<img src=x onerror=alert(1)>", "{{7*7}}", "'\"; DROP TABLE schedules; --", "日本語 🕰"]
)
async def test_any_printable_name_is_kept_as_it_is(api: Api, name: str):
    made = await api.make(name=name)
    assert made["name"] == name
    assert [item["id"] for item in (await api.get(f"/v1/schedules?name={quote(name)}")).json["items"]] == [made["id"]]
