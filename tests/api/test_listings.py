"""Listings: every item once, page by page; cursors good for nothing but their own listing."""

import base64
import json

import pytest

from support.api import Api, schedule


async def _make(api: Api, n: int, **members: object) -> list[str]:
    return [(await api.make(name=f"n{number:03}", **members))["id"] for number in range(n)]


async def test_pages_show_every_schedule_once_and_in_order(api: Api):
    made = await _make(api, 23)
    found = await api.all_items("/v1/schedules?limit=5")
    assert [item["id"] for item in found] == sorted(made)


async def test_schedules_made_while_paging_do_not_shift_the_pages(api: Api):
    made = await _make(api, 6)
    first = (await api.get("/v1/schedules?limit=3")).json
    await _make(api, 3)
    second = (await api.get(f"/v1/schedules?limit=3&cursor={first['next_cursor']}")).json
    assert [item["id"] for item in first["items"] + second["items"]] == sorted(made)


async def test_filters_find_by_name_group_label_and_state(api: Api):
    one = await api.make(name="one", group="g", labels={"team": "billing", "tier": "1"})
    two = await api.make(name="two", group="g", labels={"team": "ops"})
    three = await api.make(name="three", labels={"team": "billing"})
    await api.post(f"/v1/schedules/{two['id']}/pause")

    async def ids(query: str) -> set[str]:
        return {item["id"] for item in await api.all_items(f"/v1/schedules?{query}&limit=1")}

    assert await ids("name=one") == {one["id"]}
    assert await ids("group=g") == {one["id"], two["id"]}
    assert await ids("label=team=billing") == {one["id"], three["id"]}
    assert await ids("label=team=billing&group=g") == {one["id"]}
    assert await ids("state=paused") == {two["id"]}
    assert await ids("state=active&group=g") == {one["id"]}
    assert await ids("name=nobody") == set()
    assert (await api.get("/v1/schedules?label=team")).status == 422


async def test_a_cursor_of_other_filters_is_refused(api: Api):
    await _make(api, 3, group="g")
    cursor = (await api.get("/v1/schedules?limit=1&group=g")).json["next_cursor"]
    assert (await api.get(f"/v1/schedules?limit=1&group=g&cursor={cursor}")).status == 200
    for query in ("group=h&", "", "group=g&name=n001&", "group=g&state=active&"):
        answer = await api.get(f"/v1/schedules?{query}limit=1&cursor={cursor}")
        assert answer.status == 422
        assert answer.fields == ["cursor"]


async def test_a_cursor_of_another_listing_is_refused(api: Api):
    await _make(api, 2)
    cursor = (await api.get("/v1/schedules?limit=1")).json["next_cursor"]
    for path in ("/v1/occurrences", "/v1/audit-trail", "/v1/calendars", "/v1/keys", "/v1/missed", "/v1/backfills"):
        assert (await api.get(f"{path}?cursor={cursor}")).status == 422


async def test_a_cursor_of_another_tenant_is_refused(api: Api):
    await _make(api, 2)
    cursor = (await api.get("/v1/schedules?limit=1")).json["next_cursor"]
    other = await api.sign_up("other")
    assert (await api.get(f"/v1/schedules?limit=1&cursor={cursor}", key=other.key)).status == 422


@pytest.mark.parametrize("position", [0, 10, -1])
async def test_a_cursor_with_one_bit_changed_is_refused(api: Api, position: int):
    await _make(api, 2)
    cursor = (await api.get("/v1/schedules?limit=1")).json["next_cursor"]
    raw = bytearray(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    raw[position] ^= 1
    changed = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    assert (await api.get(f"/v1/schedules?limit=1&cursor={changed}")).status == 422


async def test_another_node_of_the_cell_understands_the_cursor(api: Api, second_api: Api):
    made = await _make(api, 2)
    cursor = (await api.get("/v1/schedules?limit=1")).json["next_cursor"]
    answer = await second_api.get(f"/v1/schedules?limit=1&cursor={cursor}", key=api.caller.key)
    assert [item["id"] for item in answer.json["items"]] == [sorted(made)[1]]


async def test_a_page_of_the_most_items_holds_them_all(api: Api):
    lines = b"".join(json.dumps(schedule(name=f"n{number}")).encode() + b"\n" for number in range(501))
    answer = await api.call("POST", "/v1/schedules/bulk", data=lines, headers={"Content-Type": "application/x-ndjson"})
    assert answer.status == 200
    page = (await api.get("/v1/schedules?limit=500")).json
    assert len(page["items"]) == 500
    assert page["next_cursor"] is not None
