"""Ends that come by themselves: schedules whose last instant is over, pauses whose end has come.

Every keeper does it; rows somebody holds are skipped and looked at again. Each batch is one transaction with its
entries in the audit trail, by the actor `keeper`.
"""

from collections import Counter
from datetime import UTC, datetime
from uuid import UUID

from rota.base.db import Database, Query, load_queries
from rota.base.errors import Conflict, NotFound, VersionMismatch
from rota.base.model import N_SHARDS, Actor
from rota.base.service import Service
from rota.catalog import audit_trail, pauses
from rota.catalog.audit_trail import Change
from rota.plan import states
from rota.sweep.bounds import bound

SQL = load_queries(__file__, "endings.sql")
BATCH = 500
SHARDS_A_TICK = 64
PAGE = 50
FIRST_PAGE = (datetime(1, 1, 1, tzinfo=UTC), UUID(int=0))


class Endings(Service):
    """Finishes what is over and resumes what was paused until now."""

    name = "endings"

    def __init__(self, db: Database, *, node: str, tick_s: float) -> None:
        self._db = db
        self._actor = Actor(kind="keeper", id=node or "keeper", node=node or None)
        self._tick_s = tick_s
        self._pages: dict[int, tuple[datetime, UUID]] = {}
        self._next_shard = 0

    async def tick(self) -> float:
        """One batch of each kind; at once again while there is more."""
        is_more = await self.finish(SQL["schedule_finish"], BATCH) == BATCH
        is_more |= await self.finish_once()
        is_more |= await self.resume() == BATCH
        is_more |= await self.lift_pauses() == BATCH
        return 0.0 if is_more else self._tick_s

    async def finish(self, query: Query, *args: object) -> int:
        """Schedules that will never fire again and have nothing unfinished; how many."""
        async with self._db.transaction() as tx:
            await bound(tx)
            rows = await tx.fetch(query, *args)
            changes = [
                Change(
                    tenant_id=row["tenant_id"],
                    action="schedule.finish",
                    object_kind="schedule",
                    object_id=str(row["schedule_id"]),
                    before={"state": "active"},
                    after={"state": "finished"},
                    reason="its last occurrence is over",
                )
                for row in rows
            ]
            await audit_trail.record_many(tx, self._actor, changes)
        return len(rows)

    async def finish_once(self) -> bool:
        """One-shots that have run, a page of some shards; whether it is worth while to come back at once."""
        shards = [(self._next_shard + n) % N_SHARDS for n in range(SHARDS_A_TICK)]
        self._next_shard = (self._next_shard + SHARDS_A_TICK) % N_SHARDS
        starts = [self._pages.pop(shard, FIRST_PAGE) for shard in shards]
        ats, ids = [at for at, _ in starts], [last for _, last in starts]
        rows = await self._db.fetch(SQL["once_scan"], shards, ats, ids, PAGE)
        sizes = Counter(row["shard"] for row in rows)
        for row in rows:
            place = (row["fire_at"], row["schedule_id"])
            if sizes[row["shard"]] == PAGE and place > self._pages.get(row["shard"], FIRST_PAGE):
                self._pages[row["shard"]] = place
        over = [row["schedule_id"] for row in rows if row["is_over"]]
        if over:
            await self.finish(SQL["schedule_finish_once"], over)
        return bool(over)

    async def resume(self, limit: int = BATCH) -> int:
        """Schedules that were paused until now go on; what they missed counts as the pause said: not as downtime."""
        rows = await self._db.fetch(SQL["schedule_pause_ended"], limit)
        for row in rows:
            try:
                await states.resume_schedule(
                    self._db,
                    row["tenant_id"],
                    row["schedule_id"],
                    self._actor,
                    expected_version=row["version"],
                    missed="skip",
                    reason="its pause has ended",
                )
            except (Conflict, NotFound, VersionMismatch):
                continue  # somebody else resumed, changed or cancelled it in between: that is what holds
        return len(rows)

    async def lift_pauses(self, limit: int = BATCH) -> int:
        """Pauses of queues, targets, groups and tenants that have run out."""
        async with self._db.transaction() as tx:
            await bound(tx)
            return len(await pauses.expire_pauses(tx, self._actor, limit))
