"""Who may do what: every route of the served document, with no key, a key without the scope, and another's key."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from api.test_occurrences import NOON, Rows
from support.api import Api, Caller, schedule

# The scope that each route needs; a route that is missing here fails the test that reads the document.
SCOPES = {
    "GET /v1/me": "",
    "POST /v1/schedules": "write",
    "GET /v1/schedules": "read",
    "POST /v1/schedules/bulk": "write",
    "GET /v1/schedules/{schedule_id}": "read",
    "PUT /v1/schedules/{schedule_id}": "write",
    "PATCH /v1/schedules/{schedule_id}": "write",
    "DELETE /v1/schedules/{schedule_id}": "write",
    "GET /v1/schedules/{schedule_id}/versions": "read",
    "POST /v1/schedules/{schedule_id}/pause": "write",
    "POST /v1/schedules/{schedule_id}/resume": "write",
    "POST /v1/schedules/{schedule_id}/run": "write",
    "POST /v1/schedules/{schedule_id}/backfill": "write",
    "GET /v1/backfills": "read",
    "GET /v1/backfills/{backfill_id}": "read",
    "POST /v1/backfills/{backfill_id}/cancel": "write",
    "POST /v1/preview": "read",
    "GET /v1/occurrences": "read",
    "GET /v1/occurrences/{run_key}": "read",
    "POST /v1/occurrences/replay": "write",
    "POST /v1/occurrences/{run_key}/replay": "write",
    "POST /v1/occurrences/{run_key}/cancel": "write",
    "GET /v1/missed": "read",
    "POST /v1/leases": "worker",
    "POST /v1/leases/{token}/heartbeat": "worker",
    "POST /v1/leases/{token}/complete": "worker",
    "POST /v1/leases/{token}/fail": "worker",
    "GET /v1/pauses": "read",
    "POST /v1/pauses": "write",
    "DELETE /v1/pauses": "write",
    "GET /v1/calendars": "read",
    "GET /v1/calendars/{name}": "read",
    "PUT /v1/calendars/{name}": "write",
    "DELETE /v1/calendars/{name}": "write",
    "GET /v1/limits": "read",
    "PUT /v1/limits": "write",
    "DELETE /v1/limits": "write",
    "GET /v1/tenants": "admin",
    "POST /v1/tenants": "admin",
    "GET /v1/tenants/{tenant_id}": "admin",
    "PATCH /v1/tenants/{tenant_id}": "admin",
    "GET /v1/keys": "admin",
    "POST /v1/keys": "admin",
    "DELETE /v1/keys/{key_id}": "admin",
    "GET /v1/audit-trail": "read",
}
BODIES: dict[str, object] = {
    "POST /v1/schedules": schedule(),
    "PUT /v1/schedules/{schedule_id}": schedule(name="stolen"),
    "PATCH /v1/schedules/{schedule_id}": {"name": "stolen"},
    "POST /v1/schedules/{schedule_id}/backfill": {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"},
    "POST /v1/preview": {"timing": {"every": "1h"}},
    "POST /v1/occurrences/replay": {},
    "POST /v1/leases": {"worker": "thief", "limit": 100},
    "POST /v1/leases/{token}/fail": {"error": "stolen"},
    "POST /v1/pauses": {"scope": "tenant", "reason": "stolen"},
    "PUT /v1/calendars/{name}": {"days": ["2026-12-25"]},
    "PUT /v1/limits": {"scope": "key:theirs", "max_concurrency": 1},
    "POST /v1/tenants": {"name": "stolen"},
    "PATCH /v1/tenants/{tenant_id}": {"weight": 1000},
    "POST /v1/keys": {"scopes": ["read"]},
}
QUERIES = {
    "PUT /v1/schedules/{schedule_id}": "?force=true",
    "DELETE /v1/pauses": "?scope=queue&value=theirs",
    "DELETE /v1/limits": "?scope=key:theirs",
}
TABLES = (
    "tenants", "api_keys", "idempotency_keys", "pauses", "limits", "calendars", "schedules", "schedule_versions",
    "schedule_labels", "tenant_usage", "backfills", "occurrences", "dead_letters", "finished_occurrences", "attempts",
    "missed_ranges", "audit_trail",
)  # fmt: skip


async def _routes(api: Api) -> list[str]:
    document = (await api.get("/openapi.json", key="")).json
    return [
        f"{method.upper()} {path}"
        for path, operations in document["paths"].items()
        for method in operations
        if path.startswith("/v1/")
    ]


async def _send(api: Api, route: str, key: str, ids: dict[str, str]) -> Any:
    method, path = route.split()
    for name, value in ids.items():
        path = path.replace(f"{{{name}}}", value)
    assert "{" not in path, path
    path += QUERIES.get(route, "")
    if route == "POST /v1/schedules/bulk":
        line = json.dumps(schedule()).encode() + b"\n"
        return await api.call(method, path, data=line, key=key, headers={"Content-Type": "application/x-ndjson"})
    return await api.call(method, path, BODIES.get(route), key=key)


async def _hash(connection: asyncpg.Connection, tenant_id: int) -> dict[str, str]:
    found = {}
    for table in TABLES:
        digest = "md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), ''))"
        found[table] = await connection.fetchval(f"SELECT {digest} FROM {table} AS t WHERE tenant_id = $1", tenant_id)
    return found


@pytest.fixture
async def theirs(api: Api, connection: asyncpg.Connection) -> dict[str, str]:
    """The ids of things that belong to acme."""
    made = await api.make(name="theirs", labels={"team": "theirs"})
    rows = Rows(connection, made, api.caller.tenant_id)
    dead, running = await rows.dead(NOON), await rows.running(datetime(2026, 5, 2, tzinfo=UTC))
    await api.call("PUT", "/v1/calendars/theirs", {"days": ["2026-12-25"]})
    await api.post("/v1/pauses", {"scope": "queue", "value": "theirs"})
    await api.call("PUT", "/v1/limits", {"scope": "key:theirs", "max_concurrency": 3})
    backfill = await api.post(
        f"/v1/schedules/{made['id']}/backfill", {"from": "2026-01-01T00:00:00Z", "to": "2026-01-05T00:00:00Z"}
    )
    assert backfill.status in (201, 202), backfill.body
    return {
        "schedule_id": made["id"],
        "run_key": dead,
        "token": f"{running}.1",
        "name": "theirs",
        "backfill_id": backfill.json["id"],
        "tenant_id": f"ten_{api.caller.tenant_id:013x}",
        "key_id": api.caller.key_id,
    }


async def test_the_table_of_scopes_names_every_route(api: Api):
    assert set(await _routes(api)) == set(SCOPES)


async def test_nothing_but_health_and_documents_is_answered_without_a_key(api: Api, theirs: dict[str, str]):
    for route in await _routes(api):
        for key in ("", "rota_unknown1_" + "0" * 64, "nonsense"):
            answer = await _send(api, route, key, theirs)
            assert answer.status == 401, route
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"):
        assert (await api.get(path, key="")).status == 200, path


async def test_a_key_without_the_scope_is_refused_on_every_route(api: Api, theirs: dict[str, str]):
    tenant_id = api.caller.tenant_id
    for route in await _routes(api):
        scope = SCOPES[route]
        if not scope:
            continue
        for given in {"read", "write", "worker"} - {scope}:
            answer = await _send(api, route, (await _key(api, tenant_id, given)).key, theirs)
            assert answer.status == 403, (route, given)
            assert answer.code == "forbidden"


_KEYS: dict[tuple[int, str], Caller] = {}


async def _key(api: Api, tenant_id: int, scope: str) -> Caller:
    if (tenant_id, scope) not in _KEYS:
        _KEYS[tenant_id, scope] = await api.key_of(tenant_id, scope)  # type: ignore[arg-type]
    return _KEYS[tenant_id, scope]


async def test_another_tenant_finds_changes_and_learns_nothing(
    api: Api, theirs: dict[str, str], connection: asyncpg.Connection
):
    thief = await api.sign_up("thief")
    before = await _hash(connection, api.caller.tenant_id)
    for route in await _routes(api):
        answer = await _send(api, route, thief.key, theirs)
        named = re.findall(r"{(\w+)}", route)
        own_name = named == ["name"] and route.startswith(("PUT", "DELETE"))
        if named and not own_name:
            # To change a tenant takes an operator, whoever it is.
            expected = (403,) if route == "PATCH /v1/tenants/{tenant_id}" else (404,)
            assert answer.status in expected, (route, answer.status, answer.body)
        text = answer.body.decode()
        leaked = [
            value for name, value in theirs.items() if name != "name" and value in text.replace(_path_of(answer), "")
        ]
        assert not [value for value in leaked if answer.status < 300], (route, leaked)
    assert await _hash(connection, api.caller.tenant_id) == before


def _path_of(answer: Any) -> str:
    try:
        return str(answer.json.get("instance", "\0"))
    except (ValueError, AttributeError):
        return "\0"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/occurrences?schedule_id={schedule_id}",
        "/v1/missed?schedule_id={schedule_id}",
        "/v1/backfills?schedule_id={schedule_id}",
        "/v1/audit-trail?object_id={schedule_id}",
        "/v1/audit-trail?actor_id={key_id}",
        "/v1/schedules?name=theirs",
        "/v1/schedules?label=team=theirs",
    ],
)
async def test_filters_by_anothers_ids_find_nothing(api: Api, theirs: dict[str, str], path: str):
    thief = await api.sign_up("thief")
    answer = await api.get(path.format(**theirs), key=thief.key)
    assert answer.status == 200
    assert answer.json == {"items": [], "next_cursor": None}


async def test_bodies_that_name_anothers_things_do_nothing(
    api: Api, theirs: dict[str, str], connection: asyncpg.Connection
):
    thief = await api.sign_up("thief")
    before = await _hash(connection, api.caller.tenant_id)
    replay = await api.post("/v1/occurrences/replay", {"schedule_id": theirs["schedule_id"]}, key=thief.key)
    assert replay.status == 404
    assert (
        await api.post("/v1/keys", {"scopes": ["read"], "tenant_id": theirs["tenant_id"]}, key=thief.key)
    ).status == 404
    assert (await api.post("/v1/keys", {"scopes": ["admin"], "is_operator": True}, key=thief.key)).status == 403
    named = await api.post("/v1/schedules", schedule(calendar="theirs"), key=thief.key)
    assert (named.status, named.fields) == (422, ["calendar"])
    preview = await api.post("/v1/preview", {"timing": {"every": "1h"}, "calendar": "theirs"}, key=thief.key)
    assert preview.status in (404, 422)
    with_id = await api.post("/v1/schedules", {**schedule(), "id": theirs["schedule_id"]}, key=thief.key)
    assert with_id.json.get("id") != theirs["schedule_id"]
    assert await _hash(connection, api.caller.tenant_id) == before


async def test_a_revoked_key_is_refused(api: Api):
    made = await api.post("/v1/keys", {"scopes": ["read"], "name": "short-lived"})
    key, key_id = made.json["key"], made.json["key_id"]
    assert (await api.get("/v1/schedules", key=key)).status == 200
    assert (await api.call("DELETE", f"/v1/keys/{key_id}")).json["revoked_at"] is not None
    assert (await api.get("/v1/schedules", key=key)).status == 401


async def test_a_suspended_tenant_reads_but_does_not_write(api: Api):
    operator = await api.sign_up("operators", is_operator=True)
    path = f"/v1/tenants/ten_{api.caller.tenant_id:013x}"
    assert (await api.call("PATCH", path, {"is_suspended": True, "reason": "unpaid"}, key=operator.key)).status == 200
    fresh = await api.key_of(api.caller.tenant_id, "read", "write")
    assert (await api.get("/v1/schedules", key=fresh.key)).status == 200
    assert (await api.post("/v1/schedules", schedule(), key=fresh.key)).status == 403
