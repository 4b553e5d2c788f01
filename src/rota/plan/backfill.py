"""Backfills: what a schedule's rule gives in a past range, planned slowly, visibly and stoppably.

A backfill is a row with a cursor of its own. The service takes one at a time and plans the next slice of it: rows and
cursor in one transaction, so a node that dies loses and doubles nothing. Its occurrences wait in the recovery lane and
have the trigger `backfill`; the regular rhythm is not touched. It follows the schedule: after a change it goes on with
the new version; cancelling the schedule ends it.
"""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import cast
from uuid import UUID

from rota.base.db import Database, Row, Transaction, load_queries
from rota.base.errors import Conflict, FieldError, NotFound, ValidationFailed
from rota.base.model import Actor, ScheduleState, TenantId, shard_of
from rota.base.service import Service
from rota.catalog import audit_trail, schedules
from rota.catalog.audit_trail import Change
from rota.catalog.fields import format_instant
from rota.catalog.idempotency import IdempotencyKey
from rota.plan.answers import Created, keep_answer, known_answer
from rota.plan.decide import Once, Rhythm
from rota.plan.opening import committed
from rota.plan.passed import limit_waits
from rota.plan.timings import Timings
from rota.plan.writing import actor_text

_QUERIES = load_queries(__file__, "backfill.sql")
DEFAULT_RATE = 10.0
# Slices are small, so that the cursor tells how far it is and a stop takes effect at once.
_MAX_SLICE = 1000
_START = (datetime(1970, 1, 1, tzinfo=UTC), UUID(int=0))


async def start_backfill(
    db: Database,
    tenant_id: TenantId,
    schedule_id: UUID,
    actor: Actor,
    *,
    start: datetime,
    end: datetime,
    rate: float = DEFAULT_RATE,
    idempotency: IdempotencyKey | None = None,
) -> Created:
    """Plan the fires in [start, end), at most `rate` a second; `end` must not lie ahead of now."""

    async def work(tx: Transaction) -> Created:
        await limit_waits(tx)
        if (known := await known_answer(tx, tenant_id, idempotency)) is not None:
            return known
        schedule = await schedules.get_schedule(tx, tenant_id, schedule_id)
        if schedule.state is ScheduleState.CANCELLED:
            raise Conflict("the schedule is cancelled", hint="create a new one")
        await _refuse_future(tx, end)
        row = await tx.fetch_row(
            _QUERIES["backfill_insert"],
            uuid.uuid4(),
            tenant_id,
            schedule_id,
            schedule.version,
            start,
            end,
            rate,
            actor_text(actor),
        )
        document = _document(cast(Row, row))
        await audit_trail.record(tx, actor, _change(tenant_id, "backfill.start", str(document["id"]), document))
        return await keep_answer(tx, tenant_id, idempotency, 201, document)

    return await committed(db, work)


async def cancel_backfill(db: Database, tenant_id: TenantId, backfill_id: UUID, actor: Actor) -> None:
    """Plan no more of it, and cancel what has not started. One that is over stays as it is. NotFound."""

    async def work(tx: Transaction) -> None:
        row = await tx.fetch_row(_QUERIES["backfill_cancel"], backfill_id, tenant_id)
        if row is None:
            if await tx.fetch_row(_QUERIES["backfill_find"], backfill_id, tenant_id) is None:
                raise NotFound(f"there is no backfill {backfill_id}")
            return
        of = (shard_of(row["schedule_id"]), row["schedule_id"], row["range_from"], row["range_until"])
        n_gone = await tx.execute(_QUERIES["backfill_cancel_occurrences"], *of, "backfill_cancelled")
        after: dict[str, object] = {"state": "cancelled", "occurrences_cancelled": n_gone}
        await audit_trail.record(tx, actor, _change(tenant_id, "backfill.cancel", str(backfill_id), after))

    await committed(db, work)


class Backfiller(Service):
    """Plans running backfills, slice after slice; any number of nodes may run it."""

    name = "backfiller"

    def __init__(self, db: Database, *, tick_s: float = 1.0) -> None:
        self._db = db
        self._tick_s = tick_s
        self._timings = Timings(db)

    async def tick(self) -> float:
        """One slice of each running backfill; at once again while one could go on."""
        place, goes_on = _START, False
        while (done := await self._next(place)) is not None:
            place, is_behind = done
            goes_on |= is_behind
        return 0.0 if goes_on else self._tick_s

    async def _next(self, place: tuple[datetime, UUID]) -> tuple[tuple[datetime, UUID], bool] | None:
        async with self._db.transaction() as tx:
            await limit_waits(tx)
            row = await tx.fetch_row(_QUERIES["backfill_take"], *place)
            if row is None:
                return None
            is_behind = await self._plan(tx, row)
            return (row["created_at"], row["backfill_id"]), is_behind

    async def _plan(self, tx: Transaction, row: Row) -> bool:
        """The next slice of one that is held. Whether it is behind its rate still."""
        if row["schedule_state"] == ScheduleState.CANCELLED:
            await tx.execute(_QUERIES["backfill_advance"], row["backfill_id"], row["planned_through"], 0, "cancelled")
            return False
        rhythm = await self._rhythm(row)
        n_wanted = min(_MAX_SLICE, row["n_due"])
        if rhythm is None or n_wanted <= 0:
            return False
        fires: Sequence[datetime] = list(islice(rhythm.fires(row["planned_through"], row["range_until"]), n_wanted))
        fires = [fire for fire in fires if fire < row["range_until"]]
        n_new = await tx.execute(_QUERIES["backfill_put"], row["schedule_id"], fires) if fires else 0
        is_over = len(fires) < n_wanted
        through = row["range_until"] if is_over else fires[-1]
        state = "done" if is_over else "running"
        await tx.execute(_QUERIES["backfill_advance"], row["backfill_id"], through, n_new, state)
        return not is_over and row["n_due"] - n_new > 0

    async def _rhythm(self, row: Row) -> Rhythm | None:
        if row["fire_at"] is not None:
            return Once(row["fire_at"])
        await self._timings.learn([row["cadence_id"]])
        return self._timings.get(row["cadence_id"])


async def _refuse_future(tx: Transaction, end: datetime) -> None:
    now: datetime = await tx.fetch_value(_QUERIES["backfill_now"])
    if end > now:
        fault = FieldError(
            field="to",
            message="must not be later than now",
            value=format_instant(end),
            hint="the rhythm plans the rest",
        )
        raise ValidationFailed((fault,))


def _document(row: Row) -> dict[str, object]:
    return {
        "id": str(row["backfill_id"]),
        "schedule_id": str(row["schedule_id"]),
        "version": row["version"],
        "state": row["state"],
        "from": format_instant(row["range_from"]),
        "to": format_instant(row["range_until"]),
        "rate": row["rate"],
        "planned": row["n_planned"],
        "planned_through": format_instant(row["planned_through"]),
        "created_at": format_instant(row["created_at"]),
    }


def _change(tenant_id: TenantId, action: str, object_id: str, after: dict[str, object]) -> Change:
    return Change(tenant_id=tenant_id, action=action, object_kind="backfill", object_id=object_id, after=after)
