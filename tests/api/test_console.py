"""The console: a key to get in, forms from this site alone, and nothing of what tenants wrote runs in a browser."""

from datetime import UTC, datetime
from urllib.parse import urlencode

import asyncpg
import pytest

from api.test_occurrences import Rows
from support.api import Answer, Api

MARKUP = "<img src=x onerror=alert(1)>\"'><svg>{{7*7}}"


async def _get(api: Api, path: str, key: str | None = None) -> Answer:
    used = api.caller.key if key is None else key
    return await api.get(path, key="", headers={"Cookie": f"rota_key={used}"} if used else {})


async def _post(api: Api, path: str, origin: str | None = "", **form: str) -> Answer:
    headers = {"Cookie": f"rota_key={api.caller.key}", "Content-Type": "application/x-www-form-urlencoded"}
    if origin is not None:
        headers["Origin"] = origin or api.url
    return await api.call("POST", path, data=urlencode(form).encode(), key="", headers=headers)


async def test_without_a_key_every_page_leads_to_the_login(api: Api):
    for path in ("/console", "/console/occurrences", "/console/schedules/x"):
        for key in ("", "rota_wrong_key"):
            answer = await _get(api, path, key)
            assert (answer.status, answer.headers["Location"]) == (303, "/console/login")


async def test_a_login_keeps_the_key_where_no_script_and_no_other_site_can_use_it(api: Api):
    answer = await _post(api, "/console/login", key=api.caller.key)
    assert answer.status == 303
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/console" in cookie
    assert (await _post(api, "/console/login", key="rota_wrong_key")).status == 401


@pytest.mark.parametrize("origin", ["https://evil.example", None, "null", "http://127.0.0.1:1"])
async def test_a_form_of_another_site_changes_nothing(api: Api, origin: str | None):
    made = await api.make()
    answer = await _post(api, f"/console/schedules/{made['id']}/pause", origin=origin)
    assert answer.status == 403
    assert (await api.get(f"/v1/schedules/{made['id']}")).json["state"] == "active"


async def test_no_page_changes_anything_by_get(api: Api):
    made = await api.make()
    assert (await _get(api, f"/console/schedules/{made['id']}/pause")).status == 405
    assert (await _get(api, "/console/logout")).status == 405


async def test_a_schedule_is_paused_resumed_and_run_by_forms(api: Api):
    made = await api.make()
    path = f"/console/schedules/{made['id']}"
    assert (await _post(api, f"{path}/pause", reason="deploy")).status == 303
    assert "deploy" in (await _get(api, path)).body.decode()
    assert (await _post(api, f"{path}/resume")).status == 303
    assert (await _post(api, f"{path}/run")).status == 303
    assert (await _post(api, f"{path}/explode")).status == 404
    assert "enqueued" in (await _get(api, path)).body.decode()


async def test_a_key_that_may_only_read_cannot_act(api: Api):
    made = await api.make()
    reader = await api.key_of(api.caller.tenant_id, "read")
    headers = {
        "Cookie": f"rota_key={reader.key}",
        "Origin": api.url,
        "Content-Type": "application/x-www-form-urlencoded",
    }
    answer = await api.call("POST", f"/console/schedules/{made['id']}/pause", data=b"", key="", headers=headers)
    assert answer.status == 403
    assert (await _get(api, f"/console/schedules/{made['id']}", reader.key)).status == 200


async def test_another_tenants_pages_are_not_found(api: Api):
    made = await api.make()
    other = await api.sign_up("other")
    answer = await _get(api, f"/console/schedules/{made['id']}", other.key)
    assert answer.status == 404
    assert made["name"] not in answer.body.decode()


async def test_what_tenants_wrote_is_text_on_every_page(api: Api, connection: asyncpg.Connection):
    made = await api.make(
        name=MARKUP,
        group=MARKUP,
        labels={"a": MARKUP},
        payload={"text": MARKUP},
        target={"http": {"url": "https://example.com/hook", "headers": {"X-Note": "<svg>"}}},
    )
    rows = Rows(connection, made, api.caller.tenant_id)
    dead = await rows.dead(datetime(2026, 5, 1, 12, tzinfo=UTC))
    await connection.execute("UPDATE dead_letters SET last_error = $1, worker = $1, reason = $1", MARKUP)
    await connection.execute("UPDATE attempts SET error = $1, worker = $1", MARKUP)
    await api.post(f"/v1/schedules/{made['id']}/pause", {"reason": MARKUP})
    pages = [
        "/console",
        "/console?state=paused",
        f"/console?{urlencode({'name': MARKUP})}",
        f"/console/schedules/{made['id']}",
        "/console/occurrences?state=dead",
        f"/console/occurrences/{dead}",
        f"/console/occurrences/{MARKUP.replace('/', '')}".replace(" ", "%20").replace("{", "%7B").replace("}", "%7D"),
    ]
    for path in pages:
        answer = await _get(api, path)
        text = answer.body.decode()
        assert "onerror" in text or answer.status == 404, path
        assert "<img" not in text, path
        assert "<svg" not in text, path
        assert "<script" not in text, path
        assert ">49<" not in text, path
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy


async def test_long_listings_are_paged_by_a_link(api: Api):
    for number in range(51):
        await api.make(name=f"n{number}", group="g")
    first = (await _get(api, "/console?group=g")).body.decode()
    link = first.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert link.startswith("/console?")
    second = (await _get(api, link)).body.decode()
    assert "n50" in second
    assert "n49<" not in second
