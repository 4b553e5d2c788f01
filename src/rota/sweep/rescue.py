"""Leases that ran out are given back, from the lease row alone.

Every keeper does it, each tick, on its own: rows are taken with SKIP LOCKED, so keepers share the work, never wait for
each other, and a keeper that dies or freezes in the middle holds up only the rows of one short transaction. Nothing
passes through a user queue, no worker table is asked, and no handler has to be known here.

The attempt is written as lost; the occurrence goes back to its lane, to the dead letters, or is cancelled (`loss.py`).
All writes carry the token that was read under the row lock, and their counts are checked. Died before the commit:
nothing has happened, the next keeper finds the same rows.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from prometheus_client import Counter

from rota.base.db import Database, Row, Transaction, load_queries
from rota.base.errors import LeaseLost
from rota.base.failpoints import failpoint
from rota.base.json import load_json
from rota.base.model import Policy, RetryPolicy, RunKey
from rota.base.service import Service
from rota.base.telemetry import LeaseExpired, OccurrenceDied, emit
from rota.sweep.bounds import bound
from rota.sweep.loss import Again, Buried, Dropped, Loss, after_loss

SQL = load_queries(__file__, "rescue.sql")
BATCH = 500
poisoned = Counter("rota_poison_total", "Payloads set aside that killed their process", ["queue", "handler"])
NEVER = datetime.max.replace(tzinfo=UTC)  # the driver's form of 'infinity'


class Rescue(Service):
    """Looks for expired leases every `tick_s`; at once again while there are more than it could take."""

    name = "rescue"

    def __init__(self, db: Database, *, max_losses: int, pick: Callable[[float, float], float], tick_s: float) -> None:
        self._db = db
        self._max_losses = max_losses
        self._pick = pick
        self._tick_s = tick_s

    async def tick(self) -> float:
        """Rescue one batch."""
        n_rescued = await self.rescue(BATCH)
        return 0.0 if n_rescued == BATCH else self._tick_s

    async def rescue(self, limit: int) -> int:
        """Rescue up to `limit` occurrences in one transaction; how many."""
        async with self._db.transaction() as tx:
            await bound(tx)
            lost = await tx.fetch(SQL["occurrence_rescue"], limit)
            if not lost:
                return 0
            workers = sorted({row["worker"] for row in lost if row["worker"] is not None})
            held = {row["worker"]: row["n_held"] for row in await tx.fetch(SQL["lease_count"], workers)}
            decided = [(row, self._decide(row, held.get(row["worker"], 1))) for row in lost]
            await failpoint("rescue.before_write")
            await self._write(tx, decided, held)
        for row, decision in decided:
            _tell(row, decision)
        return len(lost)

    def _decide(self, row: Row, n_held: int) -> Again | Buried | Dropped:
        retry = RetryPolicy() if row["policy"] is None else Policy.from_json(load_json(row["policy"])).retry
        loss = Loss(
            losses=row["losses"],
            n_held=n_held,
            outcomes=row["outcomes"] or (),
            lost_with=row["lost_with"] or (),
            is_cancel_requested=row["is_cancel_requested"],
            schedule_state=row["schedule_state"],
            retry=retry,
            scheduled_for=row["scheduled_for"],
            now=row["now"],
        )
        return after_loss(loss, max_losses=self._max_losses, pick=self._pick)

    async def _write(
        self, tx: Transaction, decided: Sequence[tuple[Row, Again | Buried | Dropped]], held: dict[str, int]
    ) -> None:
        again = [(row, _retry_at(row, decision)) for row, decision in decided if isinstance(decision, Again)]
        buried = [(row, decision) for row, decision in decided if isinstance(decision, Buried)]
        dropped = [(row, decision) for row, decision in decided if isinstance(decision, Dropped)]
        retry_ats = {(row["schedule_id"], row["scheduled_for"], row["version"]): at for row, at in again}
        rows = [row for row, _ in decided]
        await tx.execute(
            SQL["attempt_lose"],
            *_columns(rows, "schedule_id", "scheduled_for", "version", "attempt", "token", "tenant_id", "worker"),
            [row["started_at"] for row in rows],
            [retry_ats.get((row["schedule_id"], row["scheduled_for"], row["version"])) for row in rows],
            [held.get(row["worker"], 1) for row in rows],
        )
        n_written = 0
        if again:
            keys = _keys([row for row, _ in again])
            n_written += await tx.execute(SQL["occurrence_release"], *keys, [at for _, at in again])
        if buried:
            keys = _keys([row for row, _ in buried])
            reasons, errors = [d.reason for _, d in buried], [d.error for _, d in buried]
            n_written += await tx.execute(SQL["occurrence_bury"], *keys, reasons, errors)
        if dropped:
            keys = _keys([row for row, _ in dropped])
            n_written += await tx.execute(SQL["occurrence_drop"], *keys, [d.reason for _, d in dropped])
        if n_written != len(decided):
            raise LeaseLost(f"rescued {n_written} of {len(decided)} locked occurrences: a row changed under its lock")


def _keys(rows: Sequence[Row]) -> list[list[object]]:
    return _columns(rows, "shard", "schedule_id", "scheduled_for", "version", "token")


def _columns(rows: Sequence[Row], *names: str) -> list[list[object]]:
    return [[row[name] for row in rows] for name in names]


def _retry_at(row: Row, decision: Again) -> datetime:
    now: datetime = row["now"]
    return NEVER if decision.wait is None else now + decision.wait


def _tell(row: Row, decision: Again | Buried | Dropped) -> None:
    """Say once what happened, after it is committed."""
    key = str(RunKey(row["schedule_id"], row["version"], row["scheduled_for"]))
    emit(LeaseExpired(run_key=key, worker=row["worker"], losses=row["losses"] + 1))
    if isinstance(decision, Buried):
        emit(OccurrenceDied(run_key=key, reason=decision.reason, error=decision.error))
        if decision.reason == "poison":
            kind, _, name = (row["target_key"] or "").partition(":")
            poisoned.labels(row["queue"] or "", name if kind == "handler" else kind).inc()
