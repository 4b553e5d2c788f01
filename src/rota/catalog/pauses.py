"""What a tenant holds back as a whole: all of it, a queue, a target, or a group; the claim leaves it out."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from rota.base.db import Executor, Row, load_queries
from rota.base.errors import NotFound
from rota.base.model import Actor, TenantId
from rota.catalog import audit_trail
from rota.catalog.audit_trail import Change
from rota.catalog.fields import format_instant

_QUERIES = load_queries(__file__, "pauses.sql")


class PauseScope(StrEnum):
    """What is held back. A tenant's value is empty; a target's is its target key, such as http:example.com:443."""

    TENANT = "tenant"
    QUEUE = "queue"
    TARGET = "target"
    GROUP = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """One pause that holds. paused_until None: until somebody resumes it."""

    tenant_id: TenantId
    scope: PauseScope
    value: str
    reason: str | None
    actor: str
    paused_at: datetime
    paused_until: datetime | None


async def put_pause(
    tx: Executor,
    tenant_id: TenantId,
    scope: PauseScope,
    value: str,
    actor: Actor,
    *,
    reason: str | None = None,
    until: datetime | None = None,
) -> Pause:
    """Hold something back from the next claim on; said again, it changes reason and end. Nothing running is stopped."""
    row = await tx.fetch_row(
        _QUERIES["pause_put"], tenant_id, str(scope), value, reason, audit_trail.actor_text(actor), until
    )
    if row is None:
        raise NotFound(f"there is no tenant to pause {scope} {value} of")
    pause = _pause(row)
    after = {"until": None if until is None else format_instant(until)}
    await audit_trail.record(tx, actor, _change(pause, "pause.set", after=after, reason=reason))
    return pause


async def lift_pause(
    tx: Executor, tenant_id: TenantId, scope: PauseScope, value: str, actor: Actor, *, reason: str | None = None
) -> Pause:
    """Let it go on; NotFound if it was not paused."""
    row = await tx.fetch_row(_QUERIES["pause_delete"], tenant_id, str(scope), value)
    if row is None:
        raise NotFound(f"{scope} {value} is not paused".replace("  ", " "))
    pause = _pause(row)
    await audit_trail.record(tx, actor, _change(pause, "pause.lift", before={"reason": pause.reason}, reason=reason))
    return pause


async def list_pauses(db: Executor, tenant_id: TenantId) -> list[Pause]:
    """The pauses that hold now."""
    return [_pause(row) for row in await db.fetch(_QUERIES["pause_list"], tenant_id)]


async def expire_pauses(tx: Executor, actor: Actor, limit: int = 1000) -> list[Pause]:
    """Remove at most limit pauses whose end has come, and name the actor in the trail of each."""
    ended = [_pause(row) for row in await tx.fetch(_QUERIES["pause_expire"], limit)]
    changes = [
        _change(pause, "pause.end", before={"reason": pause.reason}, reason="its end has come") for pause in ended
    ]
    await audit_trail.record_many(tx, actor, changes)
    return ended


def _pause(row: Row) -> Pause:
    return Pause(**{**row, "scope": PauseScope(row["scope"])})


def _change(
    pause: Pause,
    action: str,
    *,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
    reason: str | None,
) -> Change:
    return Change(
        tenant_id=pause.tenant_id,
        action=action,
        object_kind=str(pause.scope),
        object_id=pause.value or str(pause.scope),
        before=before,
        after=after,
        reason=reason,
    )
