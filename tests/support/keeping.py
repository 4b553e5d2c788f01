"""Rows for the keepers' tests, written past the product: schedules with history, leases that ran out, finished ones."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from rota.base.model import Policy, RetryPolicy, new_schedule_id

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def instant(text: str) -> datetime:
    """An RFC 3339 text as an aware datetime in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC)


class Seed:
    """Writes rows as the other parts of the product would have."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self.tenant_id = 1
        self.lane_id = 0
        self.policy_id = 0

    async def basics(self, retry: RetryPolicy | None = None) -> None:
        """A tenant with a lane and a policy."""
        run = self.connection.fetchval
        await self.connection.execute(
            "INSERT INTO tenants (tenant_id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING", 1, "acme"
        )
        lane = (
            "INSERT INTO lanes (tenant_id, queue, priority, target_key, overlap) "
            "VALUES (1, 'default', 1, 'handler:report', 'allow') ON CONFLICT (tenant_id, queue, priority, target_key, "
            "limit_key, overlap) DO UPDATE SET queue = 'default' RETURNING lane_id"
        )
        self.lane_id = await run(lane)
        document = json.dumps(Policy(retry=retry or RetryPolicy()).to_json())
        policy = (
            "INSERT INTO policies (digest, document, window_ms, misfire, max_lateness_ms, max_catch_up) "
            "VALUES ($1, $2, 0, 'fire_once', 3600000, 10) RETURNING policy_id"
        )
        self.policy_id = await run(policy, document.encode(), document)

    async def cadence(self, timing: dict[str, object]) -> int:
        """A cadence with the canonical form of this timing."""
        from rota.calendar import Timing

        parsed = Timing.parse(timing)
        return await self.connection.fetchval(
            "INSERT INTO cadences (digest, timing, tzdata_version) VALUES ($1, $2, '') RETURNING cadence_id",
            parsed.key().encode()[:60],
            json.dumps(parsed.to_json()),
        )

    async def schedule(
        self,
        *,
        active_from: datetime,
        cadence_id: int | None = None,
        fire_at: datetime | None = None,
        state: str = "active",
        active_until: datetime | None = None,
        activated_at: datetime | None = None,
    ) -> UUID:
        """A schedule with its first version."""
        schedule_id = new_schedule_id()
        await self.connection.execute(
            "INSERT INTO schedules (schedule_id, shard, tenant_id, version, state, cadence_id, fire_at, lane_id, "
            "policy_id, active_from, active_until, name) VALUES ($1, $2, 1, 1, $3, $4, $5, $6, $7, $8, $9, 's')",
            *(schedule_id, schedule_id.int & 255, state, cadence_id, fire_at, self.lane_id, self.policy_id),
            *(active_from, active_until),
        )
        await self.version(
            schedule_id,
            version=1,
            active_from=active_from,
            cadence_id=cadence_id,
            fire_at=fire_at,
            state=state,
            active_until=active_until,
            activated_at=activated_at or active_from,
        )
        return schedule_id

    async def version(self, schedule_id: UUID, **members: Any) -> None:
        """One more version in the history; `schedules` is left as it is."""
        await self.connection.execute(
            "INSERT INTO schedule_versions (schedule_id, version, tenant_id, state, cadence_id, fire_at, lane_id, "
            "policy_id, active_from, active_until, definition, target, payload, activated_at, actor) "
            "VALUES ($1, $2, 1, $3, $4, $5, $6, $7, $8, $9, '{}', '{}', 'null', $10, 'test')",
            *(schedule_id, members["version"], members.get("state", "active"), members.get("cadence_id")),
            *(members.get("fire_at"), self.lane_id, self.policy_id, members["active_from"]),
            *(members.get("active_until"), members["activated_at"]),
        )

    async def pending(self, schedule_id: UUID, scheduled_for: datetime, **members: Any) -> None:
        """A row of the hot table."""
        row: dict[str, Any] = {
            "shard": schedule_id.int & 255,
            "schedule_id": schedule_id,
            "scheduled_for": scheduled_for,
            "version": 1,
            "tenant_id": 1,
            "lane_id": self.lane_id,
            "available_at": scheduled_for,
            "planned_at": scheduled_for,
            **members,
        }
        await self._insert("occurrences", row)

    async def leased(self, schedule_id: UUID, scheduled_for: datetime, *, ago_s: float = 1.0, **members: Any) -> None:
        """A row whose lease ran out `ago_s` ago (negative: still holds)."""
        now: datetime = await self.connection.fetchval("SELECT now()")
        lease = {
            "lease_until": now - timedelta(seconds=ago_s),
            "token": 1,
            "attempt": 1,
            "worker": "w1",
            "started_at": now - timedelta(seconds=ago_s + 30),
        }
        await self.pending(schedule_id, scheduled_for, **{**lease, **members})

    async def finished(self, schedule_id: UUID, scheduled_for: datetime, **members: Any) -> None:
        """A row of history."""
        row = {
            "shard": schedule_id.int & 255,
            "schedule_id": schedule_id,
            "scheduled_for": scheduled_for,
            "version": 1,
            "tenant_id": 1,
            "state": "succeeded",
            "trigger": "timing",
            "finished_at": scheduled_for,
            "started_at": scheduled_for,
            **members,
        }
        await self._insert("finished_occurrences", row)

    async def planned_through(self, at: datetime) -> None:
        """Move the cursor of every shard."""
        await self.connection.execute("UPDATE shards SET planned_through = $1", at)

    async def _insert(self, table: str, row: dict[str, Any]) -> None:
        places = ", ".join(f"${n}" for n in range(1, len(row) + 1))
        await self.connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", *row.values())
