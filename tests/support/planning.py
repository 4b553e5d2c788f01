"""A cell on virtual time for tests of planning: its clock stands still until it is set, its planner runs when asked."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from rota.base.clock import SystemClock
from rota.base.db import Database
from rota.base.model import Actor, TenantId
from rota.catalog.definition import Definition, default_hash_key
from rota.catalog.schedules import Schedule, get_schedule
from rota.coord.coordinator import new_node_id
from rota.coord.ledger import Ledger, Node
from rota.coord.postgres import PostgresCoordinator
from rota.plan import edits
from rota.plan.planner import Planner

TENANT = TenantId(1)
ACTOR = Actor(kind="key", id="k1", request_id="req-1")
VIRTUAL = """
CREATE TABLE virtual_clock (at timestamptz NOT NULL);
INSERT INTO virtual_clock VALUES (now());
CREATE OR REPLACE FUNCTION rota_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT at FROM virtual_clock $$;
"""


def instant(text: str) -> datetime:
    """An RFC 3339 text as an aware datetime."""
    return datetime.fromisoformat(text)


class Cell:
    """One cell with one tenant. `horizon` is the planner's."""

    def __init__(self, db: Database, connection: asyncpg.Connection, *, horizon_s: float = 300.0) -> None:
        self.db = db
        self.connection = connection
        self.coordinator = self.new_coordinator()
        self.planner = self.new_planner(self.coordinator, horizon_s=horizon_s)

    def new_coordinator(self, *, region: str = "default", ttl_s: float = 3600.0) -> PostgresCoordinator:
        """One more node."""
        node = Node(node_id=new_node_id(), region=region)
        return PostgresCoordinator(Ledger(self.db, node, ttl_s=ttl_s, clock=SystemClock()))

    def new_planner(self, coordinator: PostgresCoordinator, *, horizon_s: float = 300.0) -> Planner:
        """The planner of a node."""
        return Planner(self.db, coordinator, clock=SystemClock(), horizon_s=horizon_s)

    async def start(self, at: str) -> None:
        """Make time virtual, everything planned up to `at`, and a tenant."""
        await self.connection.execute(VIRTUAL)
        await self.at(at)
        await self.connection.execute("UPDATE shards SET planned_through = $1", instant(at))
        await self.connection.execute("INSERT INTO tenants (tenant_id, name) VALUES (1, 'acme')")

    async def at(self, moment: str | datetime) -> None:
        """Set the clock."""
        at = instant(moment) if isinstance(moment, str) else moment
        await self.connection.execute("UPDATE virtual_clock SET at = $1", at)

    async def after(self, seconds: float) -> None:
        """Move the clock on."""
        await self.connection.execute("UPDATE virtual_clock SET at = at + $1", timedelta(seconds=seconds))

    async def plan(self) -> None:
        """One renewal and one tick."""
        await self.coordinator.renew()
        await self.planner.tick()

    async def create(self, name: str = "s", **members: Any) -> Schedule:
        """A schedule of a handler."""
        document = {"name": name, "target": {"handler": {"name": "report"}}, **members}
        definition = Definition.parse(document, hash_key=default_hash_key(TENANT, name))
        (made,) = await edits.create_schedules(self.db, TENANT, [definition], [ACTOR])
        return await get_schedule(self.db, TENANT, UUID(str(made.document["id"])))

    async def read(self, schedule: Schedule) -> Schedule:
        """It as it is now."""
        return await get_schedule(self.db, TENANT, schedule.schedule_id)

    async def fires(self, schedule: Schedule) -> list[str]:
        """The instants that are planned and not over, in order."""
        rows = await self.pending(schedule)
        return [text(row["scheduled_for"]) for row in rows]

    async def pending(self, schedule: Schedule) -> list[asyncpg.Record]:
        """The rows of the hot table."""
        return await self.connection.fetch(
            "SELECT *, (SELECT priority FROM lanes AS l WHERE l.lane_id = o.lane_id) AS priority FROM occurrences AS o "
            "WHERE schedule_id = $1 ORDER BY scheduled_for, version",
            schedule.schedule_id,
        )

    async def finished(self, schedule: Schedule) -> list[tuple[str, int, str, str | None]]:
        """What is over: instant, version, state, reason."""
        rows = await self.connection.fetch(
            "SELECT scheduled_for, version, state::text, reason FROM finished_occurrences WHERE schedule_id = $1 "
            "ORDER BY scheduled_for, version",
            schedule.schedule_id,
        )
        return [(text(row["scheduled_for"]), row["version"], row["state"], row["reason"]) for row in rows]

    async def missed(self, schedule: Schedule) -> list[tuple[str, str, int, str]]:
        """Missed ranges: first, last, count, reason."""
        rows = await self.connection.fetch(
            "SELECT first_at, last_at, n_missed, reason FROM missed_ranges WHERE schedule_id = $1 ORDER BY first_at",
            schedule.schedule_id,
        )
        return [(text(row["first_at"]), text(row["last_at"]), row["n_missed"], row["reason"]) for row in rows]

    async def start_all(self, schedule: Schedule, *, through: str | None = None) -> list[str]:
        """Lease what is due (or scheduled up to an instant), as a worker would; the instants."""
        rows = await self.connection.fetch(
            "UPDATE occurrences SET lease_until = rota_now() + interval '30 s', attempt = attempt + 1, "
            "token = token + 1, worker = 'w', started_at = rota_now() WHERE schedule_id = $1 AND lease_until IS NULL "
            "AND available_at <= rota_now() AND scheduled_for <= coalesce($2, 'infinity'::timestamptz) "
            "RETURNING scheduled_for",
            schedule.schedule_id,
            None if through is None else instant(through),
        )
        return sorted(text(row["scheduled_for"]) for row in rows)

    async def finish_all(self, schedule: Schedule) -> None:
        """End what is leased, as a worker would."""
        await self.connection.execute(
            "WITH gone AS (DELETE FROM occurrences WHERE schedule_id = $1 AND lease_until IS NOT NULL RETURNING *) "
            "INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, tenant_id, state, trigger, "
            "planned_at, available_at, started_at, finished_at, attempt) SELECT shard, schedule_id, scheduled_for, "
            "version, tenant_id, 'succeeded', trigger, planned_at, available_at, started_at, rota_now(), attempt "
            "FROM gone",
            schedule.schedule_id,
        )


def text(at: datetime) -> str:
    """An instant as RFC 3339 in UTC."""
    return at.isoformat().replace("+00:00", "Z")
