"""Who owns schedules: name, weight, quotas, home region; and how many schedules each has."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from rota.base.db import Executor, Row, load_queries
from rota.base.errors import Conflict, NotFound, QuotaExceeded
from rota.base.model import Actor, TenantId, format_tenant_id
from rota.catalog import audit_trail
from rota.catalog.audit_trail import Change
from rota.catalog.fields import Fields

_QUERIES = load_queries(__file__, "tenants.sql")
_WHOLE_MEMBERS = {
    "weight": (1, 1000),
    "max_schedules": (0, 2**53),
    "max_in_flight": (1, 1_000_000),
    "max_payload_bytes": (0, 16_777_216),
}
_RATE_MEMBERS = ("trigger_rate", "catch_up_rate")
_NEVER_NULL = ("name", "weight", "max_payload_bytes", "home_region", "is_suspended")
# In the order of the statements' arguments.
_MEMBERS = ("name", "weight", "max_schedules", "max_in_flight", "trigger_rate", "catch_up_rate", "max_payload_bytes",
            "home_region", "is_suspended")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """An owner of schedules. Rates are starts a second; None: no limit."""

    tenant_id: TenantId
    name: str
    weight: int = 1
    max_schedules: int | None = None
    max_in_flight: int | None = None
    trigger_rate: float | None = None
    catch_up_rate: float | None = None
    max_payload_bytes: int = 262_144
    home_region: str = "default"
    is_suspended: bool = False
    created_at: datetime

    def document(self) -> dict[str, object]:
        """What may be set of it, as JSON members."""
        return {name: getattr(self, name) for name in _MEMBERS}


async def create_tenant(tx: Executor, name: str, actor: Actor, settings: Mapping[str, object] | None = None) -> Tenant:
    """Add a tenant with a random id; settings are members of Tenant.

    Raises ValidationFailed, or Conflict if the name is taken.
    """
    values = _read_members({**(settings or {}), "name": name})
    usual = {"weight": 1, "max_payload_bytes": 262_144, "home_region": "default"} | values
    tenant_id = TenantId(secrets.randbelow(2**52 - 1) + 1)
    row = await tx.fetch_row(
        _QUERIES["tenant_insert"],
        tenant_id,
        *(usual.get(member) for member in _MEMBERS[:-1]),
    )
    if row is None:
        raise Conflict(f"a tenant named {name} exists", hint="choose another name")
    tenant = _tenant(row)
    await audit_trail.record(tx, actor, _change(tenant, "tenant.create", after=tenant.document()))
    return tenant


async def get_tenant(db: Executor, tenant_id: TenantId) -> Tenant:
    """The tenant with this id, or NotFound."""
    row = await db.fetch_row(_QUERIES["tenant_get"], tenant_id)
    if row is None:
        raise NotFound(f"there is no tenant {format_tenant_id(tenant_id)}")
    return _tenant(row)


async def get_tenant_named(db: Executor, name: str) -> Tenant:
    """The tenant of this name, or NotFound."""
    row = await db.fetch_row(_QUERIES["tenant_get_named"], name)
    if row is None:
        raise NotFound(f"there is no tenant named {name}")
    return _tenant(row)


async def list_tenants(db: Executor, *, after_name: str = "", limit: int = 100) -> list[Tenant]:
    """Tenants by name, those after a name."""
    return [_tenant(row) for row in await db.fetch(_QUERIES["tenant_list"], after_name, limit)]


async def set_tenant(tx: Executor, tenant_id: TenantId, changes: Mapping[str, object], actor: Actor) -> Tenant:
    """Change members of a tenant; null lifts a quota. Raises NotFound, ValidationFailed, or Conflict on the name."""
    values = _read_members(changes)
    row = await tx.fetch_row(_QUERIES["tenant_lock"], tenant_id)
    if row is None:
        raise NotFound(f"there is no tenant {format_tenant_id(tenant_id)}")
    before = _tenant(row).document()
    after = before | values
    name = str(after["name"])
    if name != before["name"] and await tx.fetch_row(_QUERIES["tenant_get_named"], name) is not None:
        raise Conflict(f"a tenant named {name} exists", hint="choose another name")
    written = await tx.fetch_row(_QUERIES["tenant_update"], tenant_id, *(after[member] for member in _MEMBERS))
    tenant = _tenant(cast(Row, written))
    differing = {member for member in _MEMBERS if before[member] != after[member]}
    change = _change(
        tenant,
        "tenant.set",
        before={member: before[member] for member in differing},
        after={member: after[member] for member in differing},
    )
    await audit_trail.record(tx, actor, change)
    return tenant


async def reserve_schedules(tx: Executor, tenant_id: TenantId, n_new: int) -> None:
    """Make sure that a tenant may have n_new schedules more; QuotaExceeded if not.

    Call it first in the transaction that inserts them, before any shard lock: creates of a tenant that has a limit
    wait here for each other, until commit. The statements that write schedules keep the count.
    """
    most: int | None = await tx.fetch_value(_QUERIES["tenant_limit_schedules"], tenant_id)
    if most is None:
        return
    n_now = await count_schedules(tx, tenant_id)
    if n_now + n_new > most:
        raise QuotaExceeded(
            f"the tenant may have {most} schedules, has {n_now}, and {n_new} more were asked for",
            hint="cancel schedules that are not needed, or ask the operator for a higher max_schedules",
        )


async def count_schedules(db: Executor, tenant_id: TenantId) -> int:
    """How many active and paused schedules a tenant has."""
    n_schedules: int = await db.fetch_value(_QUERIES["tenant_count_schedules"], tenant_id)
    return n_schedules


def _read_members(document: Mapping[str, object]) -> dict[str, object]:
    fields = Fields()
    fields.members("", document, _MEMBERS)
    values: dict[str, object] = {}
    for member in _MEMBERS:
        if member not in document:
            continue
        value = document[member]
        if value is None:
            if member in _NEVER_NULL:
                fields.add(member, "must not be null")
            values[member] = None
        elif member in _WHOLE_MEMBERS:
            values[member] = fields.whole(member, value, *_WHOLE_MEMBERS[member])
        elif member in _RATE_MEMBERS:
            values[member] = _read_rate(fields, member, value)
        elif member == "is_suspended":
            if not isinstance(value, bool):
                fields.add(member, "must be true or false", value)
            values[member] = value
        else:
            values[member] = fields.text(member, value, 200)
    fields.raise_if_any()
    return values


def _read_rate(fields: Fields, member: str, value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1e9:
        fields.add(member, "must be a number of starts a second, above 0", value)
        return None
    return float(value)


def _tenant(row: Row) -> Tenant:
    return Tenant(**row)


def _change(
    tenant: Tenant, action: str, *, before: dict[str, object] | None = None, after: dict[str, object] | None = None
) -> Change:
    return Change(
        tenant_id=tenant.tenant_id,
        action=action,
        object_kind="tenant",
        object_id=format_tenant_id(tenant.tenant_id),
        before=before,
        after=after,
    )
