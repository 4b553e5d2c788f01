"""Many schedules in one call: a result a line, in order, while the lines still come in."""

import asyncio
import json

from support.api import Api, schedule

NDJSON = {"Content-Type": "application/x-ndjson"}


def _line(**members: object) -> bytes:
    return json.dumps(schedule(**members)).encode() + b"\n"


async def _bulk(api: Api, body: bytes, **headers: str) -> list[dict[str, object]]:
    answer = await api.call("POST", "/v1/schedules/bulk", data=body, headers={**NDJSON, **headers})
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.body.splitlines()]


async def test_every_line_is_answered_in_order(api: Api):
    results = await _bulk(api, b"".join(_line(name=f"n{number}") for number in range(3000)))
    assert [result["line"] for result in results] == list(range(1, 3001))
    assert {result["status"] for result in results} == {201}
    found = {item["id"]: item["name"] for item in await api.all_items("/v1/schedules?limit=500")}
    assert [found[result["id"]] for result in results] == [f"n{number}" for number in range(3000)]


async def test_a_bad_line_is_told_and_harms_no_other(api: Api):
    lines = [
        _line(name="a"),
        b"{not json\n",
        _line(name="b", timing={"cron": "nonsense"}),
        b'{"payload": "a\\u0000b"}\n',
        _line(name="c", calendar="unknown"),
        b"[1, 2]\n",
        b"\n",
        _line(name="d").rstrip(b"\n"),
    ]
    results = await _bulk(api, b"".join(lines))
    assert [(result["line"], result["status"]) for result in results] == [
        (1, 201),
        (2, 400),
        (3, 422),
        (4, 400),
        (5, 422),
        (6, 422),
        (8, 201),
    ]
    assert results[2]["error"]["errors"][0]["field"] == "timing.cron"
    assert results[4]["error"]["errors"][0]["field"] == "calendar"
    assert {item["name"] for item in await api.all_items("/v1/schedules")} == {"a", "d"}


async def test_results_come_while_the_lines_still_come_in(api: Api):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
    head = f"POST /v1/schedules/bulk HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.caller.key}\r\n"
    writer.write((head + "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n").encode())

    async def send(line: bytes) -> None:
        writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        await writer.drain()

    async with asyncio.timeout(30):
        await send(_line(name="first"))
        await reader.readuntil(b'"line":1')
        await send(_line(name="second"))
        await reader.readuntil(b'"line":2')
        writer.write(b"0\r\n\r\n")
        await reader.readuntil(b"\r\n0\r\n\r\n")
    writer.close()
    assert len(await api.all_items("/v1/schedules")) == 2


async def test_a_client_that_reads_only_after_it_sent_everything_is_served(api: Api):
    # More results than the sockets on the way can hold, and nobody reads until the body is sent.
    body = b"".join(_line(name=f"n{number}", timing={"cron": "nonsense"}) for number in range(40_000))
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]), limit=2**16)
    head = f"POST /v1/schedules/bulk HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.caller.key}\r\n"
    head += f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    async with asyncio.timeout(100):
        writer.write(head.encode() + body)
        await writer.drain()
        answer = await reader.read()
    writer.close()
    assert answer.count(b'"line":') == 40_000
    assert b'"line":40000,' in answer


async def test_a_quota_stops_the_lines_beyond_it_alone(api: Api):
    small = await api.sign_up("small", max_schedules=5)
    body = b"".join(_line(name=f"n{number}") for number in range(8))
    answer = await api.call("POST", "/v1/schedules/bulk", data=body, headers=NDJSON, key=small.key)
    assert [json.loads(line)["status"] for line in answer.body.splitlines()] == [201] * 5 + [429] * 3


async def test_the_same_lines_with_the_same_idempotency_key_make_nothing_new(api: Api):
    body = b"".join(_line(name=f"n{number}") for number in range(10))
    first = await _bulk(api, body, **{"Idempotency-Key": "bulk-1"})
    again = await _bulk(api, body + _line(name="n10"), **{"Idempotency-Key": "bulk-1"})
    assert [result["id"] for result in again[:10]] == [result["id"] for result in first]
    assert len(await api.all_items("/v1/schedules")) == 11


async def test_a_line_that_never_ends_is_refused(api: Api):
    results = await _bulk(api, _line(name="a") + b"x" * 3_000_000)
    assert [result["status"] for result in results] == [201, 413]


async def test_a_bulk_of_another_media_type_is_refused(api: Api):
    answer = await api.call("POST", "/v1/schedules/bulk", data=b"{}", headers={"Content-Type": "application/json"})
    assert answer.status == 415


async def test_an_empty_bulk_has_an_empty_answer(api: Api):
    assert await _bulk(api, b"") == []
    assert await _bulk(api, b"\n\n") == []
