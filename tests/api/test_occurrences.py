"""Occurrences over HTTP: one listing over the three places they live in, details, replay and cancellation."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from support.api import Api

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Rows:
    """Puts occurrences of one schedule where they belong, as planning and running would have left them."""

    def __init__(self, connection: asyncpg.Connection, made: dict[str, Any], tenant_id: int) -> None:
        self._connection = connection
        self._id = UUID(made["id"])
        self._tenant_id = tenant_id

    @property
    def _shard(self) -> int:
        return self._id.int & 255

    def key(self, at: datetime) -> str:
        return f"{self._id}.1.{at:%Y%m%dT%H%M%S}Z"

    async def lane(self) -> int:
        lane: int = await self._connection.fetchval("SELECT lane_id FROM schedules WHERE schedule_id = $1", self._id)
        return lane

    async def waiting(self, at: datetime, *, in_: timedelta = timedelta(0), failures: int = 0) -> str:
        await self._connection.execute(
            "INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, "
            "planned_at, failures, attempt) VALUES ($1, $2, $3, 1, $4, $5, greatest($3, now() + $6), now(), $7, $7)",
            self._shard,
            self._id,
            at,
            self._tenant_id,
            await self.lane(),
            in_,
            failures,
        )
        return self.key(at)

    async def running(self, at: datetime) -> str:
        key = await self.waiting(at)
        await self._connection.execute(
            "UPDATE occurrences SET lease_until = now() + interval '1 hour', token = 1, attempt = 1, worker = 'w', "
            "started_at = now() WHERE schedule_id = $1 AND scheduled_for = $2",
            self._id,
            at,
        )
        return key

    async def dead(self, at: datetime, reason: str = "attempts_exhausted") -> str:
        await self._connection.execute(
            "INSERT INTO dead_letters (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, planned_at, "
            "trigger, attempt, failures, losses, token, started_at, died_at, reason, last_error, worker) "
            "VALUES ($1, $2, $3, 1, $4, $5, $3, 'timing', 2, 2, 0, 2, $3, now(), $6, 'it broke', 'w')",
            self._shard,
            self._id,
            at,
            self._tenant_id,
            await self.lane(),
            reason,
        )
        for number in (1, 2):
            await self._connection.execute(
                "INSERT INTO attempts (schedule_id, scheduled_for, version, number, token, tenant_id, outcome, worker, "
                "started_at, finished_at, status, error_class, error) "
                "VALUES ($1, $2, 1, $3::integer, $3::integer, $4, 'failed', 'w', $2, $2, 500, 'http_500', 'it broke')",
                self._id,
                at,
                number,
                self._tenant_id,
            )
        return self.key(at)

    async def finished(self, at: datetime, state: str = "succeeded", reason: str | None = None) -> str:
        await self._connection.execute(
            "INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, tenant_id, state, trigger, "
            "reason, planned_at, available_at, started_at, finished_at, attempt, worker, status, result) "
            "VALUES ($1, $2, $3, 1, $4, $5::final_state, 'timing', $6, $3, $3, $3, $3, 1, 'w', 200, 'fine')",
            self._shard,
            self._id,
            at,
            self._tenant_id,
            state,
            reason,
        )
        return self.key(at)


@pytest.fixture
async def rows(api: Api, connection: asyncpg.Connection) -> Rows:
    made = await api.make(name="hand-filled", timing={"at": "2099-01-01T00:00:00Z"})
    return Rows(connection, made, api.caller.tenant_id)


async def _keys(api: Api, query: str = "") -> list[str]:
    return [item["id"] for item in await api.all_items(f"/v1/occurrences?limit=2{query}")]


async def test_one_listing_shows_every_place_latest_first_and_each_once(api: Api, rows: Rows):
    made = [
        await rows.finished(NOON),
        await rows.dead(NOON + timedelta(hours=1)),
        await rows.waiting(NOON + timedelta(hours=2)),
        await rows.running(NOON + timedelta(hours=3)),
        await rows.finished(NOON + timedelta(hours=4), "skipped_overlap", "still_running"),
        await rows.waiting(NOON + timedelta(hours=5), in_=timedelta(hours=1)),
        await rows.finished(NOON + timedelta(days=3)),
    ]
    assert await _keys(api) == made[::-1]
    of_schedule = f"&schedule_id={made[0].partition('.')[0]}"
    assert await _keys(api, of_schedule) == made[::-1]
    assert await _keys(api, "&from=2026-05-01T13:00:00Z&to=2026-05-01T15:00:00Z") == [made[2], made[1]]
    assert await _keys(api, of_schedule + "&from=2026-05-01T13:00:00Z&to=2026-05-01T15:00:00Z") == [made[2], made[1]]


async def test_the_states_that_users_see_are_told_apart(api: Api, rows: Rows):
    made = {
        "succeeded": await rows.finished(NOON),
        "dead": await rows.dead(NOON + timedelta(hours=1)),
        "enqueued": await rows.waiting(NOON + timedelta(hours=2)),
        "running": await rows.running(NOON + timedelta(hours=3)),
        "skipped_overlap": await rows.finished(NOON + timedelta(hours=4), "skipped_overlap", "still_running"),
        "retry_wait": await rows.waiting(NOON + timedelta(hours=5), in_=timedelta(hours=1), failures=1),
        "scheduled": await rows.waiting(NOON + timedelta(hours=6), in_=timedelta(hours=1)),
        "missed": await rows.finished(NOON + timedelta(hours=7), "missed", "too_late"),
        "cancelled": await rows.finished(NOON + timedelta(hours=8), "cancelled", "superseded"),
    }
    for state, key in made.items():
        assert (await api.get(f"/v1/occurrences/{key}")).json["state"] == state
        assert await _keys(api, f"&state={state}") == [key], state
        assert await _keys(api, f"&state={state}&schedule_id={key.partition('.')[0]}") == [key], state
    assert (await api.get("/v1/occurrences?state=asleep")).status == 422


async def test_what_became_available_late_is_listed_at_its_scheduled_time(api: Api, rows: Rows):
    made = [await rows.waiting(NOON + timedelta(hours=hour)) for hour in range(5)]
    made.insert(2, await rows.waiting(NOON + timedelta(hours=1, minutes=30), in_=timedelta(hours=3), failures=1))
    made.insert(0, await rows.waiting(NOON - timedelta(hours=1), in_=timedelta(hours=2), failures=1))
    assert await _keys(api) == made[::-1]
    assert await _keys(api, "&state=enqueued") == [made[number] for number in (6, 5, 4, 2, 1)]
    assert await _keys(api, "&state=retry_wait") == [made[3], made[0]]


async def test_many_at_one_instant_are_paged_without_loss(api: Api, rows: Rows, connection: asyncpg.Connection):
    made = []
    for number in range(7):
        other = Rows(connection, await api.make(name=f"n{number}"), api.caller.tenant_id)
        made.append(await other.finished(NOON))
        made.append(await other.waiting(NOON + timedelta(seconds=1)))
        made.append(await other.dead(NOON + timedelta(seconds=2)))
    found = await _keys(api, "&to=2026-06-01T00:00:00Z")
    assert len(found) == 21
    assert set(found) == set(made)


async def test_details_show_attempts_result_target_and_payload(api: Api, rows: Rows):
    dead = (await api.get(f"/v1/occurrences/{await rows.dead(NOON)}")).json
    assert [(attempt["number"], attempt["outcome"], attempt["status"]) for attempt in dead["attempts"]] == [
        (1, "failed", 500),
        (2, "failed", 500),
    ]
    assert (dead["reason"], dead["last_error"]) == ("attempts_exhausted", "it broke")
    assert dead["schedule_name"] == "hand-filled"
    assert dead["payload"] == {"customer": 123}
    done = (await api.get(f"/v1/occurrences/{await rows.finished(NOON + timedelta(hours=1))}")).json
    assert [(attempt["number"], attempt["outcome"]) for attempt in done["attempts"]] == [(1, "succeeded")]
    assert done["result"] == "fine"


async def test_a_replayed_dead_letter_keeps_its_run_key(api: Api, rows: Rows):
    key = await rows.dead(NOON)
    answer = await api.post(f"/v1/occurrences/{key}/replay", {"reason": "mended"})
    assert answer.status == 200, answer.body
    assert answer.json["id"] == key
    assert answer.json["state"] == "enqueued"
    assert await _keys(api, "&state=dead") == []
    again = await api.post(f"/v1/occurrences/{key}/replay")
    assert again.status == 409
    trail = await api.all_items("/v1/audit-trail?action=occurrence.replay")
    assert [(entry["reason"], entry["actor_id"]) for entry in trail] == [("mended", api.caller.key_id)]


async def test_one_idempotency_key_replays_once_and_answers_the_same(api: Api, rows: Rows):
    key = await rows.dead(NOON)
    headers = {"Idempotency-Key": "replay-1"}
    answers = await asyncio.gather(*(api.post(f"/v1/occurrences/{key}/replay", headers=headers) for _ in range(5)))
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1


async def test_a_bulk_replay_takes_what_fits_and_a_second_press_adds_nothing(api: Api, rows: Rows):
    inside = [await rows.dead(NOON + timedelta(minutes=number)) for number in range(5)]
    outside = await rows.dead(NOON + timedelta(days=2))
    body = {"from": "2026-05-01T00:00:00Z", "to": "2026-05-02T00:00:00Z", "reason": "mended"}
    assert (await api.post("/v1/occurrences/replay", body)).json["replayed"] == 5
    assert (await api.post("/v1/occurrences/replay", body)).json["replayed"] == 0
    assert await _keys(api, "&state=dead") == [outside]
    assert set(await _keys(api, "&to=2026-05-02T00:00:00Z")) == set(inside)


async def test_a_bulk_replay_of_one_reason_leaves_the_others(api: Api, rows: Rows):
    await rows.dead(NOON, "rejected")
    other = await rows.dead(NOON + timedelta(minutes=1))
    assert (await api.post("/v1/occurrences/replay", {"dead_reason": "rejected"})).json["replayed"] == 1
    assert await _keys(api, "&state=dead") == [other]


async def test_what_waits_can_be_cancelled_and_what_is_done_cannot(api: Api, rows: Rows):
    waiting = await rows.waiting(NOON)
    answer = await api.post(f"/v1/occurrences/{waiting}/cancel", {"reason": "not needed"})
    assert answer.status == 200, answer.body
    assert (await api.get(f"/v1/occurrences/{waiting}")).json["state"] == "cancelled"
    running = await rows.running(NOON + timedelta(hours=1))
    assert (await api.post(f"/v1/occurrences/{running}/cancel")).status == 200
    asked = (await api.get(f"/v1/occurrences/{running}")).json
    assert asked["state"] == "running"
    assert asked["cancel_requested_at"] is not None
    done = await rows.finished(NOON + timedelta(hours=2))
    assert (await api.post(f"/v1/occurrences/{done}/cancel")).status == 409


async def test_ranges_of_missed_occurrences_are_listed_by_schedule_and_time(
    api: Api, rows: Rows, connection: asyncpg.Connection
):
    schedule_id = rows.key(NOON).partition(".")[0]
    for hours in (0, 5):
        await connection.execute(
            "INSERT INTO missed_ranges VALUES ($1, $2, 1, $3, $4, 7, $5, 'misfire_skip', now())",
            UUID(schedule_id).int & 255,
            UUID(schedule_id),
            NOON + timedelta(hours=hours),
            NOON + timedelta(hours=hours + 1),
            api.caller.tenant_id,
        )
    for query in ("limit=1", f"limit=1&schedule_id={schedule_id}"):
        found = await api.all_items(f"/v1/missed?{query}")
        assert [(item["first_at"], item["count"], item["reason"]) for item in found] == [
            ("2026-05-01T17:00:00Z", 7, "misfire_skip"),
            ("2026-05-01T12:00:00Z", 7, "misfire_skip"),
        ]
    assert len(await api.all_items("/v1/missed?from=2026-05-01T16:00:00Z")) == 1
