"""Occurrences that are due now, and real workers to run them, for tests of the queue and of attempts."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import asyncpg

from rota.base.db import Database
from rota.base.model import Actor, TenantId
from rota.catalog.definition import Definition, default_hash_key
from rota.plan import edits
from rota.queue.claims import Claimer
from rota.run.app import Registered, Rota
from rota.run.executor import Executor
from rota.run.http_target import HttpCaller
from rota.run.nats_target import NatsPublisher
from rota.run.worker import Worker, WorkerOptions
from support.waiting import eventually

ACTOR = Actor(kind="key", id="k1")
QUICK = WorkerOptions(slots=4, lease_s=3.0, heartbeat_s=0.5, poll_s=0.05, drain_s=1.0, max_losses=3)


class Running:
    """One cell's database with tenants 1 and 2."""

    def __init__(self, db: Database, connection: asyncpg.Connection) -> None:
        self.db = db
        self.connection = connection
        self._workers: list[tuple[Worker, asyncio.Task[None]]] = []
        self._callers: list[HttpCaller] = []

    async def create(self, n: int = 1, *, tenant: int = 1, **members: Any) -> list[UUID]:
        """Schedules that fire far ahead, so that only what a test puts is due."""
        document = {
            "timing": {"cron": "0 0 1 1 *"},
            "target": {"handler": {"name": "work"}},
            "retry": {"max_attempts": 3, "base": "0s", "cap": "0s"},
            **members,
        }
        owner = TenantId(tenant)
        definitions = [
            Definition.parse({"name": f"s{i}", **document}, hash_key=default_hash_key(owner, f"s{i}")) for i in range(n)
        ]
        made = await edits.create_schedules(self.db, owner, definitions, [ACTOR] * n)
        return [UUID(str(one.document["id"])) for one in made]

    async def due(self, ids: list[UUID], *, n: int = 1, age_s: float = 1.0) -> None:
        """`n` due occurrences of each, a second apart, the newest `age_s` old."""
        await self.connection.execute(
            "INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, "
            "planned_at, is_exclusive) SELECT s.shard, s.schedule_id, f.at, s.version, s.tenant_id, s.lane_id, "
            "f.at, now(), l.overlap <> 'allow' FROM schedules AS s JOIN lanes AS l USING (lane_id) "
            "CROSS JOIN LATERAL (SELECT date_trunc('second', now()) - make_interval(secs => $2 + i) AS at "
            "FROM generate_series(0, $3 - 1) AS i) AS f "
            "WHERE s.schedule_id = ANY ($1)",
            ids,
            age_s,
            n,
        )

    def claimer(self, worker: str = "w1", lease_s: float = 30.0) -> Claimer:
        """A claimer that takes whatever there is."""
        return Claimer(self.db, worker=worker, lease_s=lease_s, accepts=lambda lane: True, poll_s=0.0)

    async def worker(self, app: Rota, *, name: str = "w1", options: WorkerOptions = QUICK) -> Worker:
        """A worker that runs until the test ends."""
        http = HttpCaller(allow_private=True, max_response_bytes=1000)
        await http.start()
        self._callers.append(http)
        executor = Executor(self._handlers(app), http, NatsPublisher(), default_timeout_s=30)
        worker = Worker(self.db, executor, worker=name, accepts=lambda lane: True, options=options)
        await worker.start()
        self._workers.append((worker, asyncio.create_task(_loop(worker), name=name)))
        return worker

    def _handlers(self, app: Rota) -> Mapping[str, Registered]:
        return app.handlers

    async def states(self) -> dict[str, int]:
        """How many occurrences are in which state."""
        rows = await self.connection.fetch(
            "SELECT state::text AS state, count(*) AS n FROM finished_occurrences GROUP BY 1 UNION ALL "
            "SELECT 'dead', count(*) FROM dead_letters HAVING count(*) > 0 UNION ALL "
            "SELECT CASE WHEN lease_until IS NULL THEN 'pending' ELSE 'running' END, count(*) FROM occurrences "
            "GROUP BY 1"
        )
        return {row["state"]: row["n"] for row in rows}

    async def becomes(self, within: float = 30.0, **states: int) -> None:
        """Wait until the states are exactly these."""

        async def are() -> bool:
            found = await self.states()
            assert found == states
            return True

        await eventually(are, within)

    async def end(self, worker: Worker) -> None:
        """Stop one worker as SIGTERM does."""
        for pair in list(self._workers):
            if pair[0] is worker:
                self._workers.remove(pair)
                pair[1].cancel()
                await asyncio.gather(pair[1], return_exceptions=True)
                await worker.drain()
                await worker.stop()

    async def close(self) -> None:
        """Stop all workers."""
        for worker, _ in list(self._workers):
            await self.end(worker)
        for caller in self._callers:
            await caller.close()


async def _loop(worker: Worker) -> None:
    while True:
        await asyncio.sleep(min(await worker.tick(), 0.02))


Handler = Callable[..., Any]
