"""HTTP targets that answer, lie, stream, hang, redirect, or are not to be called at all."""

import time
from datetime import timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook

from rota.base.model import AttemptOutcome, Policy
from rota.run.app import Rota
from rota.run.http_target import HttpCaller
from rota.run.lease import Lease, Outcome
from support.http_target import HttpTarget, Reply
from support.running import Running

SIGNING_KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY = "0198c0de-7a10-7b3c-9f00-3a5f00c0ffee.3.20261224T090000Z"


def lease(**changes: Any) -> Lease:
    from datetime import UTC, datetime
    from uuid import UUID

    at = datetime(2026, 12, 24, 9, tzinfo=UTC)
    members: dict[str, Any] = {
        "schedule_id": UUID("0198c0de-7a10-7b3c-9f00-3a5f00c0ffee"),
        "version": 3,
        "scheduled_for": at,
        "shard": 0xEE,
        "tenant_id": 1,
        "lane_id": 1,
        "attempt": 2,
        "failures": 1,
        "losses": 0,
        "token": 5,
        "started_at": at,
        "available_at": at,
        "planned_at": at,
        "trigger": "timing",
        "target": "{}",
        "payload": '{"customer":123}',
        "schedule_name": "täglich\n",
        "is_expired": False,
        "policy": Policy(),
    }
    return Lease(**{**members, **changes})


async def call(url: str, *, allow_private: bool = True, signing_key: str = "", **target: Any) -> Outcome:
    caller = HttpCaller(allow_private=allow_private, max_response_bytes=1000, signing_key=signing_key)
    await caller.start()
    try:
        return await caller.call(lease(), {"url": url, "method": "POST", "timeout": "5s", **target})
    finally:
        await caller.close()


async def test_the_call_carries_the_payload_and_all_promised_headers(http_target: HttpTarget) -> None:
    outcome = await call(http_target.tell("/hook", Reply(status=201, body=b"made")), headers={"X-Mine": "1"})
    assert (outcome.outcome, outcome.status, outcome.result) == (AttemptOutcome.SUCCEEDED, 201, "made")
    (request,) = http_target.requests
    assert request.body == b'{"customer":123}'
    names = ("Idempotency-Key", "Rota-Scheduled-For", "Rota-Attempt", "X-Mine", "Content-Type")
    assert [request.headers[name] for name in names] == [KEY, "2026-12-24T09:00:00Z", "2", "1", "application/json"]
    assert request.headers["Rota-Schedule-Name"] == "t%C3%A4glich%0A"
    assert "webhook-signature" not in request.headers


async def test_an_envelope_wraps_the_payload_with_what_the_headers_say(http_target: HttpTarget) -> None:
    await call(http_target.tell("/hook"), body="envelope")
    document = http_target.requests[0].json
    assert (document["key"], document["attempt"], document["payload"]) == (KEY, 2, {"customer": 123})


async def test_a_signed_call_passes_the_standard_webhooks_check(http_target: HttpTarget) -> None:
    await call(http_target.tell("/hook"), signing_key=SIGNING_KEY)
    (request,) = http_target.requests
    assert Webhook(SIGNING_KEY).verify(request.body, {k.lower(): v for k, v in request.headers.items()}) == {
        "customer": 123
    }


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, "succeeded"),
        (204, "succeeded"),
        (408, "failed"),
        (425, "failed"),
        (429, "failed"),
        (500, "failed"),
        (503, "failed"),
        (400, "rejected"),
        (401, "rejected"),
        (404, "rejected"),
        (410, "rejected"),
        (422, "rejected"),
    ],
)
async def test_the_status_decides(http_target: HttpTarget, status: int, outcome: str) -> None:
    found = await call(http_target.tell("/hook", Reply(status=status)))
    assert (found.outcome, found.status) == (outcome, status)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(http_target: HttpTarget, status: int) -> None:
    elsewhere = http_target.tell("/internal")
    url = http_target.tell("/hook", Reply(status=status, headers={"Location": elsewhere}))
    found = await call(url, headers={"Authorization": "Bearer secret"})
    assert (found.outcome, found.error) == ("rejected", f"answered {status}: redirect blocked")
    assert http_target.on("/internal") == []


@pytest.mark.parametrize(
    ("asked", "wait"), [("120", timedelta(seconds=120)), ("abc", None), ("-5", None), ("2.5", None)]
)
async def test_retry_after_is_passed_on_when_it_is_one(
    http_target: HttpTarget, asked: str, wait: timedelta | None
) -> None:
    found = await call(http_target.tell("/hook", Reply(status=503, headers={"Retry-After": asked})))
    assert found.asked == wait


async def test_an_endless_body_is_cut_and_the_status_still_decides(http_target: HttpTarget) -> None:
    url = http_target.tell("/hook", Reply(chunks=(b"x" * 65_536,) * 4000))
    found = await call(url)
    assert (found.outcome, len(found.result or "")) == ("succeeded", 1001)


async def test_a_trickle_ends_at_the_total_deadline(http_target: HttpTarget) -> None:
    url = http_target.tell("/hook", Reply(chunks=(b"x",) * 600, gap_s=0.05))
    started = time.monotonic()
    found = await call(url, timeout="500ms")
    assert (found.outcome, found.error_class) == ("timed_out", "Timeout")
    assert time.monotonic() - started < 10


async def test_a_target_that_hangs_or_cuts_off_is_a_failure_of_its_own_kind(http_target: HttpTarget) -> None:
    hung = await call(http_target.tell("/hang", Reply(hang=True)), timeout="300ms")
    cut = await call(http_target.tell("/cut", Reply(drop=True)))
    refused = await call("http://127.0.0.1:1/")
    assert [one.error_class for one in (hung, cut, refused)] == ["Timeout", "Connection", "Connection"]
    assert len(http_target.on("/cut")) == 1


async def test_a_broken_connection_is_not_retried_behind_our_back(http_target: HttpTarget) -> None:
    url = http_target.tell("/get", Reply(status=200), Reply(drop=True))
    caller = HttpCaller(allow_private=True, max_response_bytes=1000)
    await caller.start()
    target = {"url": url, "method": "GET", "timeout": "5s"}
    first, second = [await caller.call(lease(), target) for _ in range(2)]
    await caller.close()
    assert (first.outcome, second.outcome) == ("succeeded", "failed")
    assert len(http_target.on("/get")) == 2


async def test_compressed_answers_are_kept_as_they_come(http_target: HttpTarget) -> None:
    bomb = b"\x1f\x8b\x08\x00" + b"\x00" * 500
    found = await call(http_target.tell("/hook", Reply(body=bomb, headers={"Content-Encoding": "gzip"})))
    assert found.outcome == "succeeded"
    assert len(found.result or "") <= 1001


async def test_answers_that_are_no_text_are_stored_without_harm(running: Running, http_target: HttpTarget) -> None:
    url = http_target.tell("/bad", then=Reply(status=400, body=b"\x00\xff\xfe no \xc3"))
    good = http_target.tell("/good", then=Reply(body=b"\x00\xff ok"))
    bad_ids = await running.create(3, target={"http": {"url": url}})
    good_ids = await running.create(20, target={"http": {"url": good}})
    await running.due(bad_ids + good_ids)
    await running.worker(Rota())
    await running.becomes(dead=3, succeeded=20)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/",
        "http://localhost:9/",
        "http://[::1]:9/",
        "http://169.254.169.254/latest",
        "http://0x7f.1/",
    ],
)
async def test_private_addresses_are_blocked_at_the_call_whatever_their_spelling(url: str) -> None:
    found = await call(url, allow_private=False)
    assert (found.outcome, found.error_class) == ("rejected", "BlockedAddress")
    assert "127.0.0.1" not in (found.error or "")
