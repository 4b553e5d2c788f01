"""Tenants, keys and the audit trail over HTTP."""

import asyncio

from support.api import Api, schedule


async def test_me_tells_whose_key_it_is(api: Api):
    found = (await api.get("/v1/me")).json
    assert found["tenant"] == "acme"
    assert found["tenant_id"] == f"ten_{api.caller.tenant_id:013x}"
    assert found["key_id"] == api.caller.key_id
    assert found["scopes"] == ["admin", "read", "worker", "write"]
    assert found["is_operator"] is False


async def test_an_operator_makes_a_tenant_whose_first_key_works(api: Api):
    operator = await api.sign_up("operators", is_operator=True)
    made = await api.post("/v1/tenants", {"name": "new", "weight": 3, "max_schedules": 10}, key=operator.key)
    assert made.status == 201
    assert (made.json["weight"], made.json["max_schedules"]) == (3, 10)
    assert (await api.get("/v1/me", key=made.json["key"])).json["tenant"] == "new"
    assert (await api.post("/v1/tenants", {"name": "new"}, key=operator.key)).status == 409
    names = [tenant["name"] for tenant in await api.all_items("/v1/tenants?limit=1", key=operator.key)]
    assert names == ["acme", "new", "operators"]


async def test_a_tenant_sees_itself_alone(api: Api):
    await api.sign_up("other")
    assert [tenant["name"] for tenant in (await api.get("/v1/tenants")).json["items"]] == ["acme"]
    assert (await api.post("/v1/tenants", {"name": "x"})).status == 403


async def test_quotas_change_by_patch_and_null_lifts_one(api: Api):
    operator = await api.sign_up("operators", is_operator=True)
    path = f"/v1/tenants/ten_{api.caller.tenant_id:013x}"
    changed = await api.call("PATCH", path, {"max_schedules": 5, "weight": 2}, key=operator.key)
    assert (changed.json["max_schedules"], changed.json["weight"]) == (5, 2)
    await api.make()
    assert (await api.get(path)).json["n_schedules"] == 1
    lifted = await api.call("PATCH", path, {"max_schedules": None}, key=operator.key)
    assert (lifted.json["max_schedules"], lifted.json["weight"]) == (None, 2)
    assert (await api.call("PATCH", path, {"weight": None}, key=operator.key)).status == 422
    assert (await api.call("PATCH", path, {"wieght": 1}, key=operator.key)).fields == ["wieght"]


async def test_keys_are_shown_once_and_listed_without_their_secret(api: Api):
    made = (await api.post("/v1/keys", {"name": "ci", "scopes": ["read", "write"]})).json
    assert made["key"].startswith(f"rota_{made['key_id']}_")
    listing = await api.get("/v1/keys")
    assert made["key"].encode() not in listing.body
    assert {key["key_id"] for key in listing.json["items"]} == {api.caller.key_id, made["key_id"]}
    assert (await api.post("/v1/keys", {"scopes": ["everything"]})).status == 422


async def test_the_trail_names_actor_reason_and_request_of_every_change(api: Api):
    made = await api.make()
    path = f"/v1/schedules/{made['id']}"
    await api.post(f"{path}/pause", {"reason": "moving"}, headers={"X-Request-Id": "req-7"})
    await api.post(f"{path}/resume", {"reason": "moved"})
    await api.call("PATCH", path, {"group": "g"})
    await api.call("DELETE", f"{path}?reason=old")
    trail = await api.all_items(f"/v1/audit-trail?object_id={made['id']}&limit=2")
    actions = [entry["action"] for entry in trail][::-1]
    assert actions == ["schedule.create", "schedule.pause", "schedule.resume", "schedule.update", "schedule.cancel"]
    assert {(entry["actor_kind"], entry["actor_id"], entry["node"]) for entry in trail} == {
        ("key", api.caller.key_id, "test-node")
    }
    pause = trail[-2]
    assert (pause["reason"], pause["request_id"]) == ("moving", "req-7")
    assert len(await api.all_items(f"/v1/audit-trail?actor_id={api.caller.key_id}&limit=2")) == 5


async def test_creates_written_together_keep_their_own_request_ids(api: Api):
    async def make(number: int) -> tuple[str, str]:
        answer = await api.post("/v1/schedules", schedule(name=f"n{number}"), headers={"X-Request-Id": f"req-{number}"})
        return answer.json["id"], f"req-{number}"

    made = dict(await asyncio.gather(*(make(number) for number in range(20))))
    trail = await api.all_items("/v1/audit-trail?action=schedule.create")
    assert {entry["object_id"]: entry["request_id"] for entry in trail} == made


async def test_pauses_by_scope_are_put_listed_and_lifted(api: Api):
    body = {"scope": "queue", "value": "default", "reason": "deploy", "until": "2099-01-01T00:00:00Z"}
    assert (await api.post("/v1/pauses", body)).status == 200
    assert (await api.post("/v1/pauses", {"scope": "tenant"})).status == 200
    items = (await api.get("/v1/pauses")).json["items"]
    assert {(item["scope"], item["value"], item["reason"]) for item in items} == {
        ("queue", "default", "deploy"),
        ("tenant", "", None),
    }
    assert (await api.call("DELETE", "/v1/pauses?scope=queue&value=default")).status == 200
    assert (await api.call("DELETE", "/v1/pauses?scope=queue&value=default")).status == 404
    assert (await api.post("/v1/pauses", {"scope": "queue"})).fields == ["value"]
    assert (await api.post("/v1/pauses", {"scope": "planet", "value": "x"})).fields == ["scope"]


async def test_calendars_are_kept_and_used_by_schedules(api: Api):
    days = ["2030-01-02", {"from": "2030-01-04", "to": "2030-01-05"}]
    assert (await api.call("PUT", "/v1/calendars/holidays", {"days": days})).json["version"] == 1
    assert (await api.get("/v1/calendars/holidays")).json["days"] == days
    assert [item["name"] for item in await api.all_items("/v1/calendars?limit=1")] == ["holidays"]
    made = await api.make(timing={"cron": "0 9 * * *"}, calendar="holidays", starts_at="2030-01-01T00:00:00Z")
    assert made["next_fires"] == ["2030-01-01T09:00:00Z", "2030-01-03T09:00:00Z", "2030-01-06T09:00:00Z"]
    assert (await api.call("DELETE", "/v1/calendars/holidays")).status == 409
    changed = await api.call("PUT", "/v1/calendars/holidays", {"days": ["2030-01-01"]})
    assert changed.json["version"] == 2
    now = (await api.get(f"/v1/schedules/{made['id']}")).json
    assert now["next_fires"][0] == "2030-01-02T09:00:00Z"
    assert now["version"] == 2
    assert (await api.call("PUT", "/v1/calendars/x", {"days": ["2030-02-30"]})).fields == ["days[0]"]


async def test_limits_by_key_are_put_listed_and_lifted(api: Api):
    body = {"scope": "key:customer-7", "max_concurrency": 2, "rate": 5.0}
    assert (await api.call("PUT", "/v1/limits", body)).status == 200
    items = (await api.get("/v1/limits")).json["items"]
    assert [(item["scope"], item["max_concurrency"], item["rate"]) for item in items] == [("key:customer-7", 2, 5.0)]
    assert (await api.call("DELETE", "/v1/limits?scope=key:customer-7")).status == 204
    assert (await api.call("DELETE", "/v1/limits?scope=key:customer-7")).status == 404
    assert (await api.call("PUT", "/v1/limits", {"scope": "sky:x"})).fields == ["scope"]
