"""What a newcomer sees: a schedule calls their service on time, fails, is retried, dies, is replayed."""

import asyncio
import json
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from e2e.conftest import KEY, Api, ready, start_dev
from support.http_target import HttpTarget, Reply
from support.processes import Processes
from support.waiting import eventually, free_port

RETRY_AT_ONCE = {"max_attempts": 3, "base": "1s", "cap": "1s"}


def soon(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


async def test_a_one_shot_calls_its_target_once_with_the_promised_headers(api: Api, http_target: HttpTarget) -> None:
    url = http_target.tell("/hook")
    made = await api.create(
        name="greeting", timing={"at": soon(2)}, target={"http": {"url": url}}, payload={"customer": 123}
    )
    (request,) = await http_target.receives(1, "/hook")
    assert request.method == "POST"
    assert request.json == {"customer": 123}
    assert request.headers["Rota-Schedule-Id"] == made["id"]
    assert request.headers["Rota-Schedule-Name"] == "greeting"
    assert request.headers["Rota-Attempt"] == "1"
    assert request.headers["traceparent"].startswith("00-")
    scheduled_for = datetime.fromisoformat(request.headers["Rota-Scheduled-For"].replace("Z", "+00:00"))
    assert request.at >= scheduled_for.timestamp()
    (done,) = await api.reaches(made["id"], "succeeded")
    assert done["id"] == request.key
    status, whole = await api.call("GET", f"/v1/occurrences/{request.key}")
    assert (status, whole["state"], len(whole["attempts"])) == (200, "succeeded", 1)
    assert len(http_target.on("/hook")) == 1
    finished = await eventually(lambda: api.call("GET", f"/v1/schedules/{made['id']}"))
    assert finished[0] == 200


async def test_an_interval_and_a_cron_schedule_fire_on_their_own_grid(api: Api, http_target: HttpTarget) -> None:
    for path, timing in (
        ("/every", {"every": "2s", "anchor": "2026-01-01T00:00:00Z"}),
        ("/cron", {"cron": "*/2 * * * * *", "dialect": "seconds6", "time_zone": "Asia/Kathmandu"}),
    ):
        await api.create(name=path[1:], timing=timing, target={"http": {"url": http_target.tell(path)}})
    for path in ("/every", "/cron"):
        requests = await http_target.receives(3, path)
        keys = [request.key for request in requests]
        assert len(set(keys)) == len(keys)
        for request in requests:
            at = datetime.fromisoformat(request.headers["Rota-Scheduled-For"].replace("Z", "+00:00"))
            assert at.second % 2 == 0
            assert at.microsecond == 0


async def test_a_failing_target_is_retried_dies_and_is_replayed_with_the_same_key(
    api: Api, http_target: HttpTarget
) -> None:
    url = http_target.tell("/hook", *[Reply(status=503)] * 3)
    made = await api.create(name="shaky", timing={"at": soon(1)}, target={"http": {"url": url}}, retry=RETRY_AT_ONCE)
    (dead,) = await api.reaches(made["id"], "dead")
    tries = http_target.on("/hook")
    assert [request.headers["Rota-Attempt"] for request in tries] == ["1", "2", "3"]
    assert len({request.key for request in tries}) == 1
    status, whole = await api.call("GET", f"/v1/occurrences/{dead['id']}")
    assert (status, [attempt["status"] for attempt in whole["attempts"]]) == (200, [503, 503, 503])
    status, _ = await api.call("POST", f"/v1/occurrences/{dead['id']}/replay", {})
    assert status in (200, 202)
    (done,) = await api.reaches(made["id"], "succeeded")
    assert done["id"] == dead["id"]
    assert http_target.on("/hook")[-1].key == dead["id"]


async def test_a_rejected_call_dies_at_once(api: Api, http_target: HttpTarget) -> None:
    url = http_target.tell("/hook", then=Reply(status=422, body=b"no \x00 such \xff customer"))
    made = await api.create(name="refused", timing={"at": soon(1)}, target={"http": {"url": url}})
    (dead,) = await api.reaches(made["id"], "dead")
    assert dead["reason"] == "rejected"
    assert len(http_target.on("/hook")) == 1


async def test_run_now_pause_and_cancel_take_effect_for_what_has_not_started(api: Api, http_target: HttpTarget) -> None:
    url = http_target.tell("/hook")
    made = await api.create(name="yearly", timing={"cron": "@yearly"}, target={"http": {"url": url}})
    status, _ = await api.call("POST", f"/v1/schedules/{made['id']}/run", {}, {"Idempotency-Key": "once"})
    assert status in (200, 201, 202)
    status, _ = await api.call("POST", f"/v1/schedules/{made['id']}/run", {}, {"Idempotency-Key": "once"})
    await http_target.receives(1, "/hook")
    await api.reaches(made["id"], "succeeded")

    ticking = await api.create(
        name="ticking", timing={"every": "1s"}, target={"http": {"url": http_target.tell("/tick")}}
    )
    await http_target.receives(1, "/tick")
    status, paused = await api.call("POST", f"/v1/schedules/{ticking['id']}/pause", {"reason": "enough"})
    assert (status, paused["state"]) == (200, "paused")
    settled = await api.reaches(ticking["id"], "cancelled")
    assert {item["reason"] for item in settled} == {"paused"}
    status, _ = await api.call("DELETE", f"/v1/schedules/{ticking['id']}")
    assert status in (200, 204)
    status, gone = await api.call("GET", f"/v1/schedules/{ticking['id']}")
    assert (status, gone["state"]) == (200, "cancelled")
    assert len(http_target.on("/hook")) == 1


async def test_dev_refuses_a_second_one_on_its_data_and_keeps_state_over_a_kill(
    processes: Processes, tmp_path: Path, http_target: HttpTarget
) -> None:
    port, data = free_port(), tmp_path / "data"
    first = await start_dev(processes, data, port)
    assert KEY in first.text
    second = await processes.rota("dev", "--port", str(free_port()), "--data", str(data), env={"ROTA_DEV_KEY": KEY})
    assert await second.ends() == 1
    assert "in use" in second.text
    async with Api(f"http://127.0.0.1:{port}") as api:
        made = await api.create(
            name="after", timing={"at": soon(6)}, target={"http": {"url": http_target.tell("/hook")}}
        )
    await first.kill()
    third = await start_dev(processes, data, port)
    async with Api(f"http://127.0.0.1:{port}") as api:
        await http_target.receives(1, "/hook")
        await api.reaches(made["id"], "succeeded")
    third.signal(signal.SIGINT)
    assert await third.ends() == 0


@pytest.mark.crash
async def test_two_serve_nodes_started_apart_call_once_a_tick(
    processes: Processes, dsn: str, http_target: HttpTarget
) -> None:
    env = {"ROTA_DATABASE_URL": dsn, "ROTA_ALLOW_PRIVATE_TARGETS": "true"}
    made = await processes.rota("tenant", "create", "acme", "--json", env=env)
    assert await made.ends() == 0, made.text
    key = json.loads(made.output[-1])["key"]
    ports = [free_port(), free_port()]
    nodes = []
    for port in ports:
        nodes.append(
            await processes.rota("serve", "--roles", "api,planner,worker,keeper", "--port", str(port), env=env)
        )
        await asyncio.wait_for(ready(f"http://127.0.0.1:{port}", nodes[-1]), 60)
    async with Api(f"http://127.0.0.1:{ports[0]}", key) as api:
        await api.create(name="tick", timing={"every": "2s"}, target={"http": {"url": http_target.tell("/tick")}})
        await http_target.receives(3, "/tick")
        await nodes[1].kill()
        requests = await http_target.receives(len(http_target.on("/tick")) + 3, "/tick")
    ticks = sorted({request.headers["Rota-Scheduled-For"] for request in requests})
    instants = [datetime.fromisoformat(tick.replace("Z", "+00:00")) for tick in ticks]
    gaps = {(later - earlier).total_seconds() for earlier, later in zip(instants, instants[1:], strict=False)}
    assert gaps == {2.0}
    assert len(requests) - len(ticks) <= 1
