"""Limits by key: how many at once and how many a second, for a target or for a key that schedules share."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from rota.base.db import Executor, load_queries
from rota.base.errors import NotFound
from rota.base.model import Actor, TenantId
from rota.catalog import audit_trail
from rota.catalog.audit_trail import Change
from rota.catalog.fields import Fields

_QUERIES = load_queries(__file__, "limits.sql")
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*/\s*(s|m|h|d)", re.ASCII)
_PER = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit that a definition names: the key alone joins it, numbers set it for all that share the key."""

    key: str
    max_concurrency: int | None = None
    rate: str | None = None

    @property
    def scope(self) -> str:
        """The name of the limit in the store."""
        return f"key:{self.key}"

    @property
    def sets_numbers(self) -> bool:
        """Whether it changes the limit or only joins it."""
        return self.max_concurrency is not None or self.rate is not None

    def document(self) -> dict[str, object]:
        """The canonical JSON."""
        document: dict[str, object] = {"key": self.key}
        if self.max_concurrency is not None:
            document["max_concurrency"] = self.max_concurrency
        if self.rate is not None:
            document["rate"] = self.rate
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeLimit:
    """A limit as stored: scope is target:… or key:…, rate and burst are starts a second and starts at once."""

    scope: str
    max_concurrency: int | None
    rate: float | None
    burst: float | None


def parse_rate(text: str) -> float:
    """10/s, 100/m, 5/h or 1/d as a number a second; ValueError if it is none of these or nothing."""
    found = _RATE.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise ValueError("must be a rate such as 10/s, 100/m, 5/h or 1/d")
    return float(found[1]) / _PER[found[2]]


def read_limit(fields: Fields, value: object) -> Limit | None:
    """The limit member of a definition; None if faults were added to fields."""
    before = len(fields.errors)
    document = fields.members("limit", value, ("key", "max_concurrency", "rate"))
    if document is None:
        return None
    key = fields.text("limit.key", document.get("key"), 128)
    if key is not None and not _KEY.fullmatch(key):
        fields.add("limit.key", "must be letters, digits and _ . : / - only", key)
    most = document.get("max_concurrency")
    n_most = None if most is None else fields.whole("limit.max_concurrency", most, 1, 1_000_000)
    rate = document.get("rate")
    if rate is not None:
        try:
            parse_rate(rate if isinstance(rate, str) else "")
        except ValueError as reason:
            fields.add("limit.rate", str(reason), rate)
    if key is None or len(fields.errors) > before:
        return None
    return Limit(key=key, max_concurrency=n_most, rate=rate if isinstance(rate, str) else None)


async def put_named(tx: Executor, tenant_id: TenantId, limits: Collection[Limit]) -> None:
    """Set the numbers of those limits that have some; of two with the same key the later one counts."""
    by_scope = {
        limit.scope: ScopeLimit(
            scope=limit.scope,
            max_concurrency=limit.max_concurrency,
            rate=None if limit.rate is None else parse_rate(limit.rate),
            burst=None if limit.rate is None else max(1.0, parse_rate(limit.rate)),
        )
        for limit in limits
        if limit.sets_numbers
    }
    if by_scope:
        await put_limits(tx, tenant_id, list(by_scope.values()))


async def put_limits(
    tx: Executor, tenant_id: TenantId, limits: Collection[ScopeLimit], *, actor: Actor | None = None
) -> None:
    """Set limits by scope; what already has these numbers is not touched.

    With an actor the trail tells of it; without one the entry of the schedule that names the limit does.
    """
    await tx.execute(
        _QUERIES["limit_put"],
        tenant_id,
        [limit.scope for limit in limits],
        [limit.max_concurrency for limit in limits],
        [limit.rate for limit in limits],
        [limit.burst for limit in limits],
    )
    if actor is not None:
        await audit_trail.record_many(tx, actor, [_change(tenant_id, limit, "limit.set") for limit in limits])


async def list_limits(db: Executor, tenant_id: TenantId) -> list[ScopeLimit]:
    """All limits of a tenant, by scope."""
    return [ScopeLimit(**row) for row in await db.fetch(_QUERIES["limit_list"], tenant_id)]


async def delete_limit(tx: Executor, tenant_id: TenantId, scope: str, *, actor: Actor | None = None) -> None:
    """Lift a limit; NotFound if there is none. With an actor the trail tells of it."""
    row = await tx.fetch_row(_QUERIES["limit_delete"], tenant_id, scope)
    if row is None:
        raise NotFound(f"there is no limit on {scope}")
    if actor is not None:
        gone = ScopeLimit(**row)
        await audit_trail.record(tx, actor, _change(tenant_id, gone, "limit.lift"))


def _change(tenant_id: TenantId, limit: ScopeLimit, action: str) -> Change:
    numbers = {"max_concurrency": limit.max_concurrency, "rate": limit.rate, "burst": limit.burst}
    return Change(
        tenant_id=tenant_id,
        action=action,
        object_kind="limit",
        object_id=limit.scope,
        before=numbers if action == "limit.lift" else None,
        after=numbers if action == "limit.set" else None,
    )
