"""The lease protocol as a worker in any language sees it."""

import asyncpg

from support.api import Api


async def _due(api: Api, **members: object) -> str:
    """A schedule with one occurrence that is due; its run key."""
    made = await api.make(**members)
    return str((await api.post(f"/v1/schedules/{made['id']}/run")).json["id"])


async def _claim(api: Api, **members: object) -> list[dict[str, object]]:
    answer = await api.post("/v1/leases", {"worker": "w1", "handlers": ["send_report"], **members})
    assert answer.status == 200, answer.body
    leases: list[dict[str, object]] = answer.json["leases"]
    return leases


async def test_claimed_work_says_what_to_do(api: Api):
    key = await _due(api)
    (lease,) = await _claim(api)
    assert lease["run_key"] == key
    assert lease["payload"] == {"customer": 123}
    assert lease["schedule_name"] == "daily-usage"
    assert lease["attempt"] == 1
    assert str(lease["token"]).startswith(key + ".")
    assert await _claim(api) == []
    assert (await api.get(f"/v1/occurrences/{key}")).json["state"] == "running"


async def test_completed_work_has_succeeded_with_its_result(api: Api):
    key = await _due(api)
    (lease,) = await _claim(api)
    assert (await api.post(f"/v1/leases/{lease['token']}/heartbeat")).status == 200
    done = await api.post(f"/v1/leases/{lease['token']}/complete", {"result": {"sent": 3}})
    assert done.status == 200, done.body
    shown = (await api.get(f"/v1/occurrences/{key}")).json
    assert shown["state"] == "succeeded"
    assert "sent" in shown["result"]


async def test_failed_work_is_tried_again_or_dies_at_once_when_told(api: Api):
    first = await _due(api, retry={"max_attempts": 3, "base": "1h", "cap": "1h"})
    (lease,) = await _claim(api)
    failed = await api.post(f"/v1/leases/{lease['token']}/fail", {"error": "no route", "error_class": "connection"})
    assert failed.status == 200, failed.body
    shown = (await api.get(f"/v1/occurrences/{first}")).json
    assert shown["state"] in ("retry_wait", "enqueued")
    assert [(attempt["outcome"], attempt["error"]) for attempt in shown["attempts"]] == [("failed", "no route")]
    second = await _due(api, name="second", target={"handler": {"name": "other"}})
    (lease,) = await _claim(api, handlers=["other"])
    await api.post(f"/v1/leases/{lease['token']}/fail", {"error": "bad input", "retry": False})
    assert (await api.get(f"/v1/occurrences/{second}")).json["state"] == "dead"


async def test_a_lost_lease_is_a_conflict_and_changes_nothing(api: Api, connection: asyncpg.Connection):
    key = await _due(api)
    (lease,) = await _claim(api)
    await connection.execute("UPDATE occurrences SET token = token + 1")
    for verb, body in (("heartbeat", None), ("complete", {"result": 1}), ("fail", {"error": "x"})):
        answer = await api.post(f"/v1/leases/{lease['token']}/{verb}", body)
        assert (answer.status, answer.code) == (409, "lease_lost"), verb
    assert (await api.get(f"/v1/occurrences/{key}")).json["state"] == "running"


async def test_a_heartbeat_tells_of_a_requested_cancellation(api: Api):
    key = await _due(api)
    (lease,) = await _claim(api)
    assert (await api.post(f"/v1/leases/{lease['token']}/heartbeat")).json["cancel_requested"] is False
    await api.post(f"/v1/occurrences/{key}/cancel")
    assert (await api.post(f"/v1/leases/{lease['token']}/heartbeat")).json["cancel_requested"] is True


async def test_a_worker_gets_only_what_it_asked_for(api: Api):
    await _due(api)
    assert await _claim(api, handlers=["another"]) == []
    assert await _claim(api, queues=["another"]) == []
    assert len(await _claim(api, queues=["default"])) == 1


async def test_what_a_claim_may_ask_for_is_bounded(api: Api):
    for wrong in ({"limit": 0}, {"limit": 1001}, {"worker": ""}, {"lease": "1ms"}, {"lease": "soon"}, {"lease": "2h"}):
        answer = await api.post("/v1/leases", {"worker": "w1", **wrong})
        assert answer.status == 422, wrong
        assert answer.fields == list(wrong)


async def test_a_result_that_cannot_be_kept_is_refused_and_the_lease_goes_on(api: Api):
    await _due(api)
    (lease,) = await _claim(api)
    answer = await api.call("POST", f"/v1/leases/{lease['token']}/complete", data=b'{"result": "a\\u0000b"}')
    assert answer.status == 400
    assert (await api.post(f"/v1/leases/{lease['token']}/complete", {"result": "ab"})).status == 200
