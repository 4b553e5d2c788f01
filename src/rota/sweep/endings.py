"""Ends that come by themselves: schedules whose last instant is over, pauses whose end has come.

Every keeper does it; rows somebody holds are skipped and looked at again. Each batch is one transaction with its
entries in the audit trail, by the actor `keeper`.
"""

from rota.base.db import Database, Query, load_queries
from rota.base.errors import Conflict, NotFound, VersionMismatch
from rota.base.model import Actor
from rota.base.service import Service
from rota.catalog import audit_trail, pauses
from rota.catalog.audit_trail import Change
from rota.plan import states

SQL = load_queries(__file__, "endings.sql")
BATCH = 500


class Endings(Service):
    """Finishes what is over and resumes what was paused until now."""

    name = "endings"

    def __init__(self, db: Database, *, node: str, tick_s: float) -> None:
        self._db = db
        self._actor = Actor(kind="keeper", id=node or "keeper", node=node or None)
        self._tick_s = tick_s

    async def tick(self) -> float:
        """One batch of each kind; at once again while a batch was full."""
        counts = [
            await self.finish(SQL["schedule_finish"]),
            await self.finish(SQL["schedule_finish_once"]),
            await self.resume(),
            await self.lift_pauses(),
        ]
        return 0.0 if BATCH in counts else self._tick_s

    async def finish(self, query: Query, limit: int = BATCH) -> int:
        """Schedules that will never fire again and have nothing unfinished; how many."""
        async with self._db.transaction() as tx:
            rows = await tx.fetch(query, limit)
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
            return len(await pauses.expire_pauses(tx, self._actor, limit))
