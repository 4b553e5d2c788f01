"""Routes of tenants, keys and the audit trail: who is who, what each may do, and who did what."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from rota.base.errors import Forbidden, NotFound
from rota.base.model import TenantId, format_tenant_id, parse_tenant_id
from rota.catalog import audit_trail, keys, tenants
from rota.catalog.audit_trail import Entry
from rota.catalog.keys import ApiKey, Principal
from rota.catalog.tenants import Tenant
from rota.web import documents
from rota.web.answers import PROBLEM_RESPONSES, Cursor, Limit, Page, answers, json_answer, page_answer
from rota.web.auth import Admin, Anyone, Operator, Reader, actor_of
from rota.web.bodies import StrictRoute
from rota.web.state import Shared
from rota.web.wire import KeyBody, TenantBody, TenantChange

router = APIRouter(route_class=StrictRoute, responses=PROBLEM_RESPONSES)


@router.get("/v1/me", tags=["keys"], **answers(documents.Me))
async def me(principal: Anyone, shared: Shared) -> Response:
    """Whose key this is and what it may do."""
    tenant = await tenants.get_tenant(shared.db, principal.tenant_id)
    return json_answer(
        {
            "tenant_id": format_tenant_id(principal.tenant_id),
            "tenant": tenant.name,
            "key_id": principal.key_id,
            "scopes": sorted(principal.scopes),
            "is_operator": principal.is_operator,
            "is_suspended": tenant.is_suspended,
        }
    )


@router.get("/v1/tenants", tags=["tenants"], **answers(Page[documents.Tenant]))
async def list_tenants(principal: Admin, shared: Shared, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Tenants by name: an operator sees all, everybody else their own."""
    if not principal.is_operator:
        own = await tenants.get_tenant(shared.db, principal.tenant_id)
        return json_answer({"items": [render_tenant(own)], "next_cursor": None})
    position = shared.cursors.decode(cursor, 0, "tenants", {}) if cursor else [""]
    found = await tenants.list_tenants(shared.db, after_name=str(position[0]), limit=limit + 1)
    return page_answer(found, limit, render_tenant, lambda last: shared.cursors.encode(0, "tenants", {}, [last.name]))


@router.post("/v1/tenants", tags=["tenants"], **answers(documents.NewTenant, 201))
async def create_tenant(body: TenantBody, principal: Operator, shared: Shared, request: Request) -> Response:
    """Add a tenant, with a first key that may do everything inside it. The key is shown this once."""
    settings = body.model_dump(exclude={"name"})
    actor = actor_of(principal, request)
    async with shared.db.transaction() as tx:
        tenant = await tenants.create_tenant(tx, body.name, actor, settings)
        _, text = await keys.create_key(tx, tenant.tenant_id, actor, name="first")
    location = f"/v1/tenants/{format_tenant_id(tenant.tenant_id)}"
    return json_answer({**render_tenant(tenant), "key": text}, 201, {"Location": location})


@router.get("/v1/tenants/{tenant_id}", tags=["tenants"], **answers(documents.Tenant))
async def get_tenant(tenant_id: str, principal: Admin, shared: Shared) -> Response:
    """One tenant with its quotas and how many schedules it has."""
    wanted = visible_tenant(principal, tenant_id)
    tenant = await tenants.get_tenant(shared.db, wanted)
    n_schedules = await tenants.count_schedules(shared.db, wanted)
    return json_answer({**render_tenant(tenant), "n_schedules": n_schedules})


@router.patch("/v1/tenants/{tenant_id}", tags=["tenants"], **answers(documents.Tenant))
async def change_tenant(
    tenant_id: str, body: TenantChange, principal: Operator, shared: Shared, request: Request
) -> Response:
    """Change a tenant's name, weight, quotas, region, or suspend it. Null lifts a quota."""
    changes = body.model_dump(exclude_unset=True, exclude={"reason"})
    async with shared.db.transaction() as tx:
        wanted = visible_tenant(principal, tenant_id)
        tenant = await tenants.set_tenant(tx, wanted, changes, actor_of(principal, request, body.reason))
    return json_answer(render_tenant(tenant))


@router.get("/v1/keys", tags=["keys"], **answers(Page[documents.Key]))
async def list_keys(
    principal: Admin, shared: Shared, tenant_id: str | None = None, limit: Limit = 100, cursor: Cursor = None
) -> Response:
    """The tenant's keys, revoked ones too, without their secrets."""
    owner = visible_tenant(principal, tenant_id)
    position = shared.cursors.decode(cursor, owner, "keys", {}) if cursor else [""]
    found = await keys.list_keys(shared.db, owner, after_id=str(position[0]), limit=limit + 1)
    return page_answer(found, limit, render_key, lambda last: shared.cursors.encode(owner, "keys", {}, [last.key_id]))


@router.post("/v1/keys", tags=["keys"], **answers(documents.NewKey, 201))
async def create_key(body: KeyBody, principal: Admin, shared: Shared, request: Request) -> Response:
    """Make a key. Its text is shown this once and can never be read again."""
    owner = visible_tenant(principal, body.tenant_id)
    if body.is_operator and not principal.is_operator:
        raise Forbidden("only an operator can make operator keys")
    async with shared.db.transaction() as tx:
        key, text = await keys.create_key(
            tx, owner, actor_of(principal, request), name=body.name, scopes=body.scopes, is_operator=body.is_operator
        )
    return json_answer({**render_key(key), "key": text}, 201)


@router.delete("/v1/keys/{key_id}", tags=["keys"], **answers(documents.Key))
async def revoke_key(key_id: str, principal: Admin, shared: Shared, request: Request) -> Response:
    """End a key for good; within a second on every node."""
    owner = None if principal.is_operator else principal.tenant_id
    async with shared.db.transaction() as tx:
        key = await keys.revoke_key(tx, owner, key_id, actor_of(principal, request))
    shared.keys.forget(key.key_id)
    return json_answer(render_key(key))


@router.get("/v1/audit-trail", tags=["audit trail"], **answers(Page[documents.AuditEntry]))
async def audit_entries(
    principal: Reader,
    shared: Shared,
    object_id: str | None = None,
    actor_id: str | None = None,
    action: str | None = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Who changed what, when and why, newest first; by object (such as a schedule's id) or by actor."""
    filters = {"object_id": object_id, "actor_id": actor_id, "action": action}
    position = shared.cursors.decode(cursor, principal.tenant_id, "audit", filters) if cursor else [None]
    before = position[0] if isinstance(position[0], int) else None
    found = await audit_trail.list_entries(
        shared.db,
        principal.tenant_id,
        object_id=object_id,
        actor_id=actor_id,
        action=action,
        before_id=before,
        limit=limit + 1,
    )

    def cursor_after(last: Entry) -> str:
        return shared.cursors.encode(principal.tenant_id, "audit", filters, [last.audit_id])

    return page_answer(found, limit, render_entry, cursor_after)


def visible_tenant(principal: Principal, text: str | None) -> TenantId:
    """The tenant that a caller names: its own, or any for an operator. NotFound otherwise."""
    if text is None:
        return principal.tenant_id
    try:
        tenant_id = parse_tenant_id(text)
    except ValueError as error:
        raise NotFound(f"there is no tenant {text[:40]!r}") from error
    if tenant_id != principal.tenant_id and not principal.is_operator:
        raise NotFound(f"there is no tenant {text[:40]!r}")
    return tenant_id


def render_tenant(tenant: Tenant) -> dict[str, object]:
    """A tenant as JSON members."""
    head = {"tenant_id": format_tenant_id(tenant.tenant_id)}
    return {**head, **tenant.document(), "created_at": tenant.created_at}


def render_key(key: ApiKey) -> dict[str, object]:
    """A key as JSON members."""
    return {
        "key_id": key.key_id,
        "tenant_id": format_tenant_id(key.tenant_id),
        "name": key.name,
        "scopes": sorted(key.scopes),
        "is_operator": key.is_operator,
        "created_at": key.created_at,
        "revoked_at": key.revoked_at,
    }


def render_entry(entry: Entry) -> dict[str, object]:
    """An entry of the audit trail as JSON members."""
    return {
        "audit_id": entry.audit_id,
        "at": entry.at,
        "actor_kind": entry.actor_kind,
        "actor_id": entry.actor_id,
        "action": entry.action,
        "object_kind": entry.object_kind,
        "object_id": entry.object_id,
        "reason": entry.reason,
        "request_id": entry.request_id,
        "node": entry.node,
        "before": entry.before,
        "after": entry.after,
    }
