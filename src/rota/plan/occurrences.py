"""The only door to the queue: occurrences are put, cancelled, held, released and replayed here, in the caller's transaction.

A pending row is the outbox record and the queue entry; nothing else is written for it.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from rota.base.db import Database, Executor, Row, Transaction, load_queries
from rota.base.errors import Conflict, NotFound
from rota.base.model import Actor, RunKey, TenantId, Trigger, shard_of
from rota.catalog import audit_trail
from rota.catalog.audit_trail import Change
from rota.catalog.idempotency import IdempotencyKey, claim, store_answer

_QUERIES = load_queries(__file__, "occurrences.sql")
MOST_REPLAYED: Final = 1000
DEFAULT_REPLAY_RATE: Final = 50.0

Fire = tuple[UUID, datetime, Trigger, bool]


async def share_shards(tx: Executor, schedule_ids: Collection[UUID]) -> tuple[dict[int, datetime], datetime]:
    """Keep the planner out of the schedules' shards; how far each is planned, and the cell's time."""
    shards = sorted({shard_of(schedule_id) for schedule_id in schedule_ids})
    await tx.fetch(_QUERIES["shard_share"], shards)
    rows = await tx.fetch(_QUERIES["shard_cursor"], shards)
    return {row["shard"]: row["planned_through"] for row in rows}, rows[0]["now"]


async def cell_now(db: Executor) -> datetime:
    """The cell's time."""
    now: datetime = await db.fetch_value(_QUERIES["now_get"])
    return now


async def put(tx: Executor, fires: Sequence[Fire]) -> list[Row]:
    """Occurrences (schedule, instant, trigger, into the recovery lane?) of the current versions; those that are new."""
    if not fires:
        return []
    ids, instants, triggers, recovery = zip(*fires, strict=True)
    return await tx.fetch(
        _QUERIES["occurrence_put"], list(ids), list(instants), [str(one) for one in triggers], list(recovery)
    )


async def put_manual(tx: Executor, schedule_id: UUID) -> dict[str, Any]:
    """One occurrence at this very moment, microseconds included, as a JSON document."""
    row = await tx.fetch_row(_QUERIES["occurrence_put_manual"], schedule_id)
    if row is None:
        raise NotFound(f"there is no schedule {schedule_id}")
    key = RunKey(row["schedule_id"], row["version"], row["scheduled_for"])
    at = row["scheduled_for"].isoformat().replace("+00:00", "Z")
    ahead = dict.fromkeys(("reason", "started_at", "finished_at", "worker", "status"))
    return {
        "id": str(key),
        "schedule_id": str(key.schedule_id),
        "version": key.version,
        "scheduled_for": at,
        "state": "enqueued",
        "trigger": "manual",
        "attempt": 0,
        "failures": 0,
        "losses": 0,
        "planned_at": at,
        "available_at": at,
        "enqueued_at": at,
        **ahead,
    }


async def cancel_unstarted(
    tx: Executor, schedule_ids: Collection[UUID], reason: str, *, with_retries: bool = False
) -> list[Row]:
    """Cancel what has not started; `with_retries` also what waits for another attempt. The rows that were cancelled."""
    return await tx.fetch(_QUERIES["occurrence_cancel_unstarted"], list(schedule_ids), reason, with_retries)


async def hold(tx: Executor, schedule_ids: Collection[UUID]) -> int:
    """Let what waits for another attempt wait for the end of a pause."""
    return await tx.execute(_QUERIES["occurrence_hold"], list(schedule_ids))


async def release(tx: Executor, schedule_ids: Collection[UUID]) -> int:
    """Let it go on."""
    return await tx.execute(_QUERIES["occurrence_release"], list(schedule_ids))


async def stop_running(tx: Executor, schedule_ids: Collection[UUID]) -> int:
    """Ask what runs to stop."""
    return await tx.execute(_QUERIES["occurrence_stop_running"], list(schedule_ids))


async def cancel_occurrence(db: Database, tenant_id: TenantId, key: RunKey, actor: Actor) -> None:
    """Cancel one that has not started or waits for another attempt; ask one that runs to stop.

    NotFound if it is neither; what is finished stays as it is (Conflict is the caller's to tell).
    """
    named = (tenant_id, key.schedule_id, key.scheduled_for, key.version)
    async with db.transaction() as tx:
        reason = actor.reason or "cancelled"
        if await tx.fetch_row(_QUERIES["occurrence_cancel_one"], *named, reason[:500]) is not None:
            action = "occurrence.cancel"
        elif await tx.fetch_row(_QUERIES["occurrence_stop_one"], *named) is not None:
            action = "occurrence.stop"
        else:
            raise Conflict(f"occurrence {key} is finished", hint="only what is pending or runs can be cancelled")
        await audit_trail.record(tx, actor, _change(tenant_id, action, str(key)))


async def replay(
    db: Database, tenant_id: TenantId, key: RunKey, actor: Actor, *, idempotency: IdempotencyKey | None = None
) -> dict[str, Any]:
    """Put one dead letter back into the queue at once. Conflict if it is not dead."""
    async with db.transaction() as tx:
        if idempotency is not None:
            before = await claim(tx, tenant_id, idempotency)
            if before is not None and isinstance(before.response, dict):
                return before.response
        rows = await _replay(tx, tenant_id, [key], [0], in_recovery=False)
        if not rows:
            raise Conflict(f"occurrence {key} is not dead", hint="only dead letters can be replayed")
        await audit_trail.record(tx, actor, _change(tenant_id, "occurrence.replay", str(key)))
        answer: dict[str, Any] = {
            "id": str(key),
            "schedule_id": str(key.schedule_id),
            "version": key.version,
            "scheduled_for": key.scheduled_for.isoformat().replace("+00:00", "Z"),
            "state": "enqueued",
        }
        if idempotency is not None:
            await store_answer(tx, tenant_id, idempotency.key, 200, answer)
    return answer


async def replay_many(
    db: Database,
    tenant_id: TenantId,
    actor: Actor,
    *,
    schedule_id: UUID | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    dead_reason: str | None = None,
    rate: float | None = None,
    idempotency: IdempotencyKey | None = None,
) -> dict[str, Any]:
    """Put the dead letters that fit back, in the recovery lane and spread to at most `rate` a second.

    Each batch is one transaction and takes rows out of the dead letters, so a second press finds nothing to add.
    """
    pace = rate or DEFAULT_REPLAY_RATE
    total = 0
    if idempotency is not None:
        async with db.transaction() as tx:
            before = await claim(tx, tenant_id, idempotency)
            if before is not None and isinstance(before.response, dict):
                return before.response
            await store_answer(tx, tenant_id, idempotency.key, 200, {"replayed": 0, "rate": pace})
    while True:
        async with db.transaction() as tx:
            picked = await tx.fetch(
                _QUERIES["dead_letter_pick"], tenant_id, schedule_id, start, end, dead_reason, MOST_REPLAYED
            )
            keys = [RunKey(row["schedule_id"], row["version"], row["scheduled_for"]) for row in picked]
            delays = [int((total + i) * 1000 / pace) for i in range(len(keys))]
            done = await _replay(tx, tenant_id, keys, delays, in_recovery=True)
            if done:
                after = {"n": len(done), "rate": pace}
                what = str(schedule_id or tenant_id)
                change = _change(tenant_id, "occurrence.replay_many", what, after=after)
                await audit_trail.record(tx, actor, change)
        total += len(done)
        if len(keys) < MOST_REPLAYED:
            break
    answer = {"replayed": total, "rate": pace}
    if idempotency is not None:
        async with db.transaction() as tx:
            await store_answer(tx, tenant_id, idempotency.key, 200, answer)
    return answer


async def _replay(
    tx: Transaction, tenant_id: TenantId, keys: Sequence[RunKey], delays_ms: Sequence[int], *, in_recovery: bool
) -> list[Row]:
    if not keys:
        return []
    return await tx.fetch(
        _QUERIES["dead_letter_replay"],
        tenant_id,
        [shard_of(key.schedule_id) for key in keys],
        [key.schedule_id for key in keys],
        [key.scheduled_for for key in keys],
        [key.version for key in keys],
        list(delays_ms),
        in_recovery,
    )


def _change(tenant_id: TenantId, action: str, object_id: str, after: dict[str, Any] | None = None) -> Change:
    return Change(tenant_id=tenant_id, action=action, object_kind="occurrence", object_id=object_id, after=after)


__all__ = [
    "NotFound",
    "cancel_occurrence",
    "cancel_unstarted",
    "cell_now",
    "hold",
    "put",
    "release",
    "replay",
    "replay_many",
    "share_shards",
    "stop_running",
]
