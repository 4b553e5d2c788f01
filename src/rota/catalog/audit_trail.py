"""Who changed what, when and why: entries are only ever added, in the transaction of the change they tell of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from rota.base.db import Executor, load_queries
from rota.base.json import dump_json, load_json
from rota.base.model import Actor, TenantId

_QUERIES = load_queries(__file__, "audit_trail.sql")
_NEWEST = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change to one object. before and after hold what differs, without secrets."""

    tenant_id: TenantId
    action: str
    object_kind: str
    object_id: str
    before: Mapping[str, object] | None = None
    after: Mapping[str, object] | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of the trail, as read. at is the cell's time in UTC."""

    audit_id: int
    at: datetime
    tenant_id: TenantId
    actor_kind: str
    actor_id: str
    action: str
    object_kind: str
    object_id: str
    reason: str | None
    request_id: str | None
    node: str | None
    before: object
    after: object


def actor_text(actor: Actor) -> str:
    """How a version history names an actor: kind:id."""
    return f"{actor.kind}:{actor.id}"


def creation(tenant_id: TenantId, schedule_ids: Sequence[UUID], after: Mapping[str, object] | None = None) -> Change:
    """The change that made these schedules: one entry however many they are.

    An entry for each would cost as much as the schedule itself. Who made one of many is read from its first version.
    """
    if len(schedule_ids) == 1:
        kind, after = "schedule", after or {"version": 1}
    else:
        kind, after = "schedules", {"n_created": len(schedule_ids), "last": str(schedule_ids[-1])}
    return Change(
        tenant_id=tenant_id, action="schedule.create", object_kind=kind, object_id=str(schedule_ids[0]), after=after
    )


async def record(tx: Executor, actor: Actor, change: Change) -> None:
    """Add the entry of one change."""
    await record_many(tx, actor, (change,))


async def record_many(tx: Executor, actor: Actor, changes: Sequence[Change]) -> None:
    """Add the entries of many changes by one actor, in one statement. A change without a reason has the actor's."""
    await record_each(tx, [(actor, change) for change in changes])


async def record_each(tx: Executor, entries: Sequence[tuple[Actor, Change]]) -> None:
    """As record_many, each change with an actor of its own: creates of many requests, written together."""
    if not entries:
        return
    await tx.execute(
        _QUERIES["audit_record"],
        [change.tenant_id for _, change in entries],
        [actor.kind for actor, _ in entries],
        [actor.id for actor, _ in entries],
        [change.action for _, change in entries],
        [change.object_kind for _, change in entries],
        [change.object_id for _, change in entries],
        [change.reason or actor.reason or None for actor, change in entries],
        [actor.request_id or None for actor, _ in entries],
        [actor.node or None for actor, _ in entries],
        [None if change.before is None else dump_json(change.before, lossy=True) for _, change in entries],
        [None if change.after is None else dump_json(change.after, lossy=True) for _, change in entries],
    )


async def list_entries(
    db: Executor,
    tenant_id: TenantId,
    *,
    object_id: str | None = None,
    actor_id: str | None = None,
    action: str | None = None,
    before_id: int | None = None,
    limit: int = 100,
) -> list[Entry]:
    """The newest entries first, those older than before_id if it is given. One of object_id and actor_id may be.

    The entry of a schedule's creation among many has the audit_id 0: nothing is older.
    """
    start = _NEWEST if before_id is None else before_id
    if object_id is not None:
        rows = await db.fetch(_QUERIES["audit_list_of_object"], tenant_id, start, limit, action, object_id)
        if len(rows) < limit and start > 0 and action in {None, "schedule.create"} and (made := _uuid(object_id)):
            rows += await db.fetch(_QUERIES["audit_read_creation"], tenant_id, made)
    elif actor_id is not None:
        rows = await db.fetch(_QUERIES["audit_list_of_actor"], tenant_id, start, limit, action, actor_id)
    else:
        rows = await db.fetch(_QUERIES["audit_list"], tenant_id, start, limit, action)
    return [Entry(**{**row, "before": _document(row["before"]), "after": _document(row["after"])}) for row in rows]


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _document(text: str | None) -> object:
    return None if text is None else load_json(text)
