"""The only door to the queue: whatever puts occurrences there, moves them or takes them out before they start.

A pending row is the queue entry. So all that an edit has to do for workers is in its transaction: rows that have not
started are deleted here, and a row that is being claimed at that very moment has started.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from rota.base.db import Database, Row, Transaction, load_queries
from rota.base.errors import Conflict, NotFound
from rota.base.model import Actor, RunKey, TenantId, shard_of
from rota.catalog import audit_trail
from rota.catalog.audit_trail import Change
from rota.catalog.fields import format_instant
from rota.catalog.idempotency import IdempotencyKey
from rota.catalog.schedules import Schedule
from rota.plan.answers import Created, keep_answer, known_answer
from rota.plan.decide import Missed

_QUERIES = load_queries(__file__, "occurrences.sql")
_ROWS_A_STATEMENT = 20_000
_BATCH = 5000
_MAX_SHIFT_US = 1000
# asyncpg reads an infinite timestamp as the last one there is.
_LAST_YEAR = 9000


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """One instant of a schedule's present version. available_at None: by its flexible window, and never in the past."""

    schedule_id: UUID
    fire_at: datetime
    available_at: datetime | None = None
    is_late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """An instant before a pause whose occurrence the pause has cancelled, and when it was to start."""

    scheduled_for: datetime
    available_at: datetime


async def put(tx: Transaction, puts: Sequence[Put]) -> int:
    """Insert occurrences; those that exist, or were dealt with by an older version, are left out. How many were new."""
    total = 0
    for start in range(0, len(puts), _ROWS_A_STATEMENT):
        part = puts[start : start + _ROWS_A_STATEMENT]
        total += await tx.execute(
            _QUERIES["occurrence_put"],
            [one.schedule_id for one in part],
            [one.fire_at for one in part],
            [one.available_at for one in part],
            [one.is_late for one in part],
        )
    return total


async def put_missed(tx: Transaction, missed: Sequence[tuple[UUID, Missed]]) -> Counter[str]:
    """Record missed ranges of schedules; how many fires were missed, by reason."""
    if not missed:
        return Counter()
    columns = missed_columns([one for _, one in missed])
    rows = await tx.fetch(_QUERIES["missed_put"], [schedule_id for schedule_id, _ in missed], *columns)
    return Counter({row["reason"]: row["n_missed"] for row in rows})


def missed_columns(missed: Sequence[Missed]) -> tuple[list[object], ...]:
    """Missed ranges column by column: first, last, count, reason."""
    return (
        [one.first_at for one in missed],
        [one.last_at for one in missed],
        [one.n_missed for one in missed],
        [one.reason for one in missed],
    )


async def cancel_unstarted(
    tx: Transaction, schedule_ids: Collection[UUID], reason: str, *, with_retries: bool = False
) -> int:
    """Cancel what older versions of schedules have not started; also what waits for a retry, if asked. How many."""
    n_gone: int = await tx.fetch_value(
        _QUERIES["occurrence_cancel_unstarted"], *_places(schedule_ids), reason, with_retries
    )
    return n_gone


async def lowest_unstarted(tx: Transaction, schedule_ids: Collection[UUID]) -> dict[UUID, datetime]:
    """The earliest nominal time of what schedules have not started."""
    rows = await tx.fetch(_QUERIES["occurrence_lowest_unstarted"], *_places(schedule_ids))
    return {row["schedule_id"]: row["scheduled_for"] for row in rows}


async def move_unstarted(tx: Transaction, keeps_offset: Mapping[UUID, bool]) -> int:
    """Let what older versions have not started go on in the present ones, at the time it had if its offset is kept."""
    n_moved: int = await tx.fetch_value(
        _QUERIES["occurrence_move_unstarted"], *_places(keeps_offset), list(keeps_offset.values())
    )
    return n_moved


async def hold_retries(tx: Transaction, schedule_ids: Collection[UUID]) -> None:
    """What waits for its next attempt waits until release_retries."""
    await tx.execute(_QUERIES["occurrence_hold_retries"], *_places(schedule_ids))


async def release_retries(tx: Transaction, schedule_ids: Collection[UUID]) -> None:
    """What was held may start now."""
    await tx.execute(_QUERIES["occurrence_release_retries"], *_places(schedule_ids))


async def ask_stop(tx: Transaction, schedule_ids: Collection[UUID]) -> int:
    """Ask what runs to stop; how many were asked."""
    return await tx.execute(_QUERIES["occurrence_ask_stop"], *_places(schedule_ids))


async def paused_occurrences(tx: Transaction, paused_at: Mapping[UUID, datetime]) -> dict[UUID, list[Paused]]:
    """What pauses cancelled though its time had come before they began."""
    found: dict[UUID, list[Paused]] = {}
    for row in await tx.fetch(_QUERIES["occurrence_paused"], list(paused_at), list(paused_at.values())):
        one = Paused(scheduled_for=row["scheduled_for"], available_at=row["available_at"] or row["scheduled_for"])
        found.setdefault(row["schedule_id"], []).append(one)
    return found


def _places(schedule_ids: Collection[UUID]) -> tuple[list[int], list[UUID]]:
    ids = list(schedule_ids)
    return [shard_of(schedule_id) for schedule_id in ids], ids


async def trigger(tx: Transaction, schedule: Schedule) -> dict[str, object]:
    """Put one occurrence of a locked schedule's present version, by hand, now. Its document."""
    for shift_us in range(_MAX_SHIFT_US):
        at = await tx.fetch_value(_QUERIES["occurrence_trigger"], schedule.schedule_id, shift_us)
        if at is not None:
            key = RunKey(schedule.schedule_id, schedule.version, at)
            return _document(await _find(tx, schedule.tenant_id, key))
    raise Conflict("too many runs of this schedule at this very moment", hint="try again")


async def replay(
    db: Database, tenant_id: TenantId, key: RunKey, actor: Actor, *, idempotency: IdempotencyKey | None = None
) -> dict[str, object]:
    """Put a dead letter back, with the same run key and a clean sheet; its document. Conflict if it is not dead."""

    async def work(tx: Transaction) -> dict[str, object]:
        if (known := await known_answer(tx, tenant_id, idempotency)) is not None:
            return dict(known.document)
        if await tx.execute(_QUERIES["occurrence_replay"], tenant_id, *_place(key)) == 0:
            state = (await _find(tx, tenant_id, key))["state"]
            raise Conflict(f"the occurrence is {state}, only dead ones can be replayed")
        await audit_trail.record(tx, actor, _change(tenant_id, "occurrence.replay", key, "dead", "enqueued"))
        document = _document(await _find(tx, tenant_id, key))
        await keep_answer(tx, tenant_id, idempotency, 200, document)
        return document

    return await db.run(work)


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
) -> dict[str, object]:
    """Put back the dead letters scheduled in [start, end), oldest first, at most `rate` a second: {"replayed": n}.

    They go to the recovery lanes, which never take what new strict work needs. Batch by batch: what is put back once is
    no dead letter any more, so a second call, or one after a crash, adds only what is left. With an Idempotency-Key
    the answer counts what was put back under it.
    """
    gap_us = 0 if rate is None else round(1_000_000 / rate)

    async def work(tx: Transaction, before: int, next_at: datetime | None) -> list[Row] | Created:
        known = None if before else await known_answer(tx, tenant_id, idempotency)
        if known is not None:
            return known
        chosen = (tenant_id, schedule_id, start, end, dead_reason, _BATCH, gap_us, next_at)
        rows = await tx.fetch(_QUERIES["occurrence_replay_many"], *chosen)
        keys = [RunKey(row["schedule_id"], row["version"], row["scheduled_for"]) for row in rows]
        changes = [_change(tenant_id, "occurrence.replay", key, "dead", "enqueued") for key in keys]
        await audit_trail.record_many(tx, actor, changes)
        await keep_answer(tx, tenant_id, idempotency, 200, {"replayed": before + len(rows)})
        return rows

    total, next_at = 0, None
    while True:
        done = await db.run(partial(work, before=total, next_at=next_at))
        if isinstance(done, Created):
            return dict(done.document)
        total += len(done)
        if len(done) < _BATCH:
            return {"replayed": total}
        next_at = max(row["available_at"] for row in done) + timedelta(microseconds=gap_us)


async def cancel_occurrence(db: Database, tenant_id: TenantId, key: RunKey, actor: Actor) -> dict[str, object]:
    """Cancel what waits; ask what runs to stop. Its document afterwards. Conflict if it has ended."""

    async def work(tx: Transaction) -> dict[str, object]:
        if await tx.execute(_QUERIES["occurrence_cancel"], tenant_id, *_place(key), "cancelled_by_user"):
            change = _change(tenant_id, "occurrence.cancel", key, "waiting", "cancelled")
        elif await tx.execute(_QUERIES["occurrence_ask_one_stop"], tenant_id, *_place(key)):
            change = _change(tenant_id, "occurrence.cancel", key, "running", "cancel_requested")
        else:
            state = (await _find(tx, tenant_id, key))["state"]
            raise Conflict(f"the occurrence is {state}, only what waits or runs can be cancelled")
        await audit_trail.record(tx, actor, change)
        return _document(await _find(tx, tenant_id, key))

    return await db.run(work)


async def _find(tx: Transaction, tenant_id: TenantId, key: RunKey) -> Row:
    row = await tx.fetch_row(_QUERIES["occurrence_find"], tenant_id, *_place(key))
    if row is None:
        raise NotFound(f"there is no occurrence {key}", hint="it may be older than the retention of this cell")
    return row


def _place(key: RunKey) -> tuple[object, ...]:
    return shard_of(key.schedule_id), key.schedule_id, key.scheduled_for, key.version


def _document(row: Row) -> dict[str, object]:
    """An occurrence as JSON members; instants are texts."""
    key = RunKey(row["schedule_id"], row["version"], row["scheduled_for"])
    shown: dict[str, object] = {"id": str(key), "schedule_id": str(key.schedule_id), "version": key.version}
    shown["scheduled_for"] = format_instant(key.scheduled_for)
    for name in ("state", "trigger", "reason", "attempt", "failures", "losses", "worker", "status"):
        shown[name] = row[name]
    planned_at, available_at = row["planned_at"], row["available_at"]
    is_held = available_at is not None and available_at.year > _LAST_YEAR
    instants = {
        "planned_at": planned_at,
        "available_at": None if is_held else available_at,
        "enqueued_at": None if available_at is None or is_held or planned_at is None else max(available_at, planned_at),
        "started_at": row["started_at"],
        "finished_at": row["finished_at"],
    }
    return shown | {name: None if at is None else format_instant(at) for name, at in instants.items()}


def _change(tenant_id: TenantId, action: str, key: RunKey, before: str, after: str) -> Change:
    return Change(
        tenant_id=tenant_id,
        action=action,
        object_kind="occurrence",
        object_id=str(key),
        before={"state": before},
        after={"state": after},
    )
