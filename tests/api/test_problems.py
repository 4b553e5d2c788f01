"""What is refused, how, and that nothing a client sends becomes an error of ours."""

import asyncio
import json

import pytest

from support.api import Api, schedule


def _raw(text: bytes) -> dict[str, object]:
    return {"data": text, "headers": {"Content-Type": "application/json"}}


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", "/nothing", 404, "not_found"),
        ("PATCH", "/v1/schedules", 405, "method_not_allowed"),
        ("GET", "/v1/schedules/not-a-uuid", 404, "not_found"),
        ("GET", "/v1/schedules/01890000-0000-7000-8000-000000000000", 404, "not_found"),
        ("GET", "/v1/occurrences/not-a-run-key", 404, "not_found"),
        ("GET", "/v1/schedules?limit=0", 422, "validation_failed"),
        ("GET", "/v1/schedules?limit=501", 422, "validation_failed"),
        ("GET", "/v1/schedules?state=sleeping", 422, "validation_failed"),
        ("GET", "/v1/schedules?cursor=abc", 422, "validation_failed"),
        ("GET", "/v1/schedules?name=a%00b", 400, "malformed_request"),
        ("GET", "/v1/occurrences?from=yesterday", 422, "validation_failed"),
    ],
)
async def test_a_wrong_request_is_answered_with_a_problem(api: Api, method: str, path: str, status: int, code: str):
    answer = await api.call(method, path)
    assert answer.status == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json
    assert problem["code"] == code
    assert problem["status"] == status
    assert problem["type"] == f"urn:rota:problem:{code}"
    assert problem["instance"] == path.partition("?")[0]
    assert problem["request_id"] == answer.headers["X-Request-Id"]
    assert problem["detail"]
    assert problem["title"]


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"",
        b"\xff\xfe",
        b'{"name": NaN}',
        b'{"payload": Infinity}',
        b'{"name": "a", "name": "b"}',
        b'{"payload": "a\\u0000b"}',
        b'{"payload": "\\ud800"}',
        b'{"payload": 123456789012345678901234567890}',
        b'{"payload": 1e999}',
        b'{"payload": ' + b"[" * 70 + b"]" * 70 + b"}",
        b'{"payload": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    ],
)
async def test_json_that_cannot_be_kept_as_it_is_is_refused_with_400(api: Api, text: bytes):
    answer = await api.call("POST", "/v1/schedules", **_raw(text))  # type: ignore[arg-type]
    assert answer.status in (400, 422), answer.body
    assert answer.code in ("malformed_json", "validation_failed")
    assert answer.json["detail"]


async def test_a_backslash_before_u0000_is_text_and_no_nul(api: Api):
    made = await api.make(payload={"path": "c:\\u0000"})
    assert made["payload"] == {"path": "c:\\u0000"}


async def test_a_body_that_says_it_is_too_long_is_refused_before_it_is_read(api: Api):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
    head = f"POST /v1/schedules HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.caller.key}\r\n"
    writer.write((head + "Content-Type: application/json\r\nContent-Length: 999999999999\r\n\r\n").encode())
    status = await asyncio.wait_for(reader.readline(), 30)
    assert b" 413 " in status
    writer.close()


async def test_a_body_that_hides_its_length_is_cut_off_when_it_grows_too_long(api: Api):
    async def endless():
        for _ in range(1000):
            yield b" " * 1000

    answer = await api.call("POST", "/v1/schedules", data=endless())
    assert answer.status == 413
    assert answer.code == "payload_too_large"


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_other_media_types_are_refused(api: Api, media_type: str):
    text = json.dumps(schedule()).encode()
    answer = await api.call("POST", "/v1/schedules", data=text, headers={"Content-Type": media_type})
    assert answer.status == 415
    assert answer.code == "unsupported_media_type"


async def test_compressed_bodies_are_refused(api: Api):
    answer = await api.call("POST", "/v1/schedules", data=b"xx", headers={"Content-Encoding": "gzip"})
    assert answer.status == 415


async def test_every_wrong_field_is_told_at_once_with_its_path(api: Api):
    answer = await api.post(
        "/v1/schedules",
        schedule(
            timing={"cron": "61 9 * * *", "time_zone": "Europe/Atlantis"},
            target={"http": {"url": "ftp://example.com"}},
            overlap="perhaps",
            colour="green",
        ),
    )
    assert answer.status == 422
    assert answer.code == "validation_failed"
    assert {"target.http.url", "overlap", "colour"} <= set(answer.fields)
    assert any(field.startswith("timing.") for field in answer.fields)
    assert all(error["message"] for error in answer.json["errors"])


async def test_unknown_members_of_small_bodies_are_refused_too(api: Api):
    made = await api.make()
    answer = await api.post(f"/v1/schedules/{made['id']}/pause", {"raeson": "typo"})
    assert answer.status == 422
    assert answer.fields == ["raeson"]


@pytest.mark.parametrize("rate", [0, -1, 5e-324, 1e-9, 1e300, True, "fast"])
async def test_a_rate_that_no_clock_can_follow_is_refused(api: Api, rate: object):
    answer = await api.post("/v1/occurrences/replay", {"rate": rate})
    assert answer.status == 422
    assert answer.fields == ["rate"]


async def test_answers_carry_headers_that_close_browsers_doors(api: Api):
    for answer in (await api.get("/v1/me"), await api.get("/v1/nothing"), await api.get("/healthz", key="")):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert "unsafe-inline" not in answer.headers["Content-Security-Policy"]
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert "Server" not in answer.headers


async def test_the_callers_request_id_comes_back_and_a_strange_one_does_not(api: Api):
    answer = await api.get("/v1/me", headers={"X-Request-Id": "req-42"})
    assert answer.headers["X-Request-Id"] == "req-42"
    answer = await api.get("/v1/me", headers={"X-Request-Id": "x" * 500})
    assert answer.headers["X-Request-Id"] != "x" * 500


async def test_the_trace_of_the_caller_names_the_request(api: Api):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    answer = await api.get("/v1/me", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    assert answer.headers["X-Request-Id"] == trace
