"""Routes of what a tenant shares between schedules: pauses by scope, exclusion calendars, limits by key."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rota.base.errors import FieldError, ValidationFailed
from rota.catalog import calendars, limits, pauses
from rota.catalog.calendars import Calendar
from rota.catalog.limits import ScopeLimit
from rota.catalog.pauses import Pause, PauseScope
from rota.plan import edits
from rota.web import documents
from rota.web.answers import PROBLEM_RESPONSES, Cursor, Limit, Page, answers, json_answer, page_answer
from rota.web.auth import Reader, Writer, actor_of
from rota.web.bodies import StrictRoute
from rota.web.state import Shared
from rota.web.wire import CalendarBody, LimitBody, ScopePauseBody

router = APIRouter(route_class=StrictRoute, responses=PROBLEM_RESPONSES)

Reason = Annotated[str | None, Query(max_length=500, description="Why; kept in the audit trail.")]
Value = Annotated[str, Query(max_length=300)]


@router.get("/v1/pauses", tags=["pauses"], **answers(Page[documents.ScopePause]))
async def list_pauses(principal: Reader, shared: Shared) -> Response:
    """What is held back as a whole now."""
    found = await pauses.list_pauses(shared.db, principal.tenant_id)
    return json_answer({"items": [render_pause(pause) for pause in found], "next_cursor": None})


@router.post("/v1/pauses", tags=["pauses"], **answers(documents.ScopePause))
async def put_pause(body: ScopePauseBody, principal: Writer, shared: Shared, request: Request) -> Response:
    """Hold back the tenant, a queue, a target or a group: due work waits, nothing that runs is stopped."""
    scope = PauseScope(body.scope)
    if (scope is PauseScope.TENANT) != (body.value == ""):
        message = (
            "must be empty for the scope tenant" if scope is PauseScope.TENANT else f"must name the {scope} to pause"
        )
        raise ValidationFailed((FieldError(field="value", message=message, value=body.value),))
    actor = actor_of(principal, request, body.reason)
    async with shared.db.transaction() as tx:
        pause = await pauses.put_pause(
            tx, principal.tenant_id, scope, body.value, actor, reason=body.reason, until=body.until
        )
    return json_answer(render_pause(pause))


@router.delete("/v1/pauses", tags=["pauses"], **answers(documents.ScopePause))
async def lift_pause(
    principal: Writer, shared: Shared, request: Request, scope: PauseScope, value: Value = "", reason: Reason = None
) -> Response:
    """Let go of what a pause held."""
    actor = actor_of(principal, request, reason)
    async with shared.db.transaction() as tx:
        pause = await pauses.lift_pause(tx, principal.tenant_id, scope, value, actor)
    return json_answer(render_pause(pause))


@router.get("/v1/calendars", tags=["calendars"], **answers(Page[documents.Calendar]))
async def list_calendars(principal: Reader, shared: Shared, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """The tenant's exclusion calendars by name."""
    tenant_id = principal.tenant_id
    position = shared.cursors.decode(cursor, tenant_id, "calendars", {}) if cursor else [""]
    found = await calendars.list_calendars(shared.db, tenant_id, after_name=str(position[0]), limit=limit + 1)

    def cursor_after(last: Calendar) -> str:
        return shared.cursors.encode(tenant_id, "calendars", {}, [last.name])

    return page_answer(found, limit, render_calendar, cursor_after)


@router.get("/v1/calendars/{name}", tags=["calendars"], **answers(documents.Calendar))
async def get_calendar(name: str, principal: Reader, shared: Shared) -> Response:
    """One calendar."""
    return json_answer(render_calendar(await calendars.get_calendar(shared.db, principal.tenant_id, name)))


@router.put("/v1/calendars/{name}", tags=["calendars"], **answers(documents.Calendar))
async def put_calendar(name: str, body: CalendarBody, principal: Writer, shared: Shared, request: Request) -> Response:
    """Create or replace a calendar. Schedules that name it go on with the new days, as a new version."""
    days = [day if isinstance(day, str) else day.model_dump(by_alias=True) for day in body.days]
    made = await edits.put_calendar(shared.db, principal.tenant_id, name, days, actor_of(principal, request))
    return json_answer(render_calendar(made))


@router.delete("/v1/calendars/{name}", tags=["calendars"], **answers(documents.Calendar))
async def delete_calendar(name: str, principal: Writer, shared: Shared, request: Request) -> Response:
    """Remove a calendar that no active schedule names."""
    async with shared.db.transaction() as tx:
        gone = await calendars.delete_calendar(tx, principal.tenant_id, name, actor_of(principal, request))
    return json_answer(render_calendar(gone))


@router.get("/v1/limits", tags=["limits"], **answers(Page[documents.Limit]))
async def list_limits(principal: Reader, shared: Shared) -> Response:
    """The tenant's limits by target and by key."""
    found = await limits.list_limits(shared.db, principal.tenant_id)
    return json_answer({"items": [render_limit(limit) for limit in found], "next_cursor": None})


@router.put("/v1/limits", tags=["limits"], **answers(documents.Limit))
async def put_limit(body: LimitBody, principal: Writer, shared: Shared, request: Request) -> Response:
    """Limit how many at once and how many a second of one target or key."""
    burst = None if body.rate is None else max(1.0, body.rate if body.burst is None else body.burst)
    limit = ScopeLimit(scope=body.scope, max_concurrency=body.max_concurrency, rate=body.rate, burst=burst)
    async with shared.db.transaction() as tx:
        await limits.put_limits(tx, principal.tenant_id, [limit], actor=actor_of(principal, request))
    return json_answer(render_limit(limit))


@router.delete("/v1/limits", tags=["limits"], **answers(None, 204))
async def delete_limit(
    principal: Writer, shared: Shared, request: Request, scope: Annotated[str, Query(max_length=300)]
) -> Response:
    """Lift a limit."""
    async with shared.db.transaction() as tx:
        await limits.delete_limit(tx, principal.tenant_id, scope, actor=actor_of(principal, request))
    return Response(status_code=204)


def render_pause(pause: Pause) -> dict[str, object]:
    """A pause as JSON members."""
    return {
        "scope": str(pause.scope),
        "value": pause.value,
        "reason": pause.reason,
        "actor": pause.actor,
        "paused_at": pause.paused_at,
        "paused_until": pause.paused_until,
    }


def render_calendar(calendar: Calendar) -> dict[str, object]:
    """A calendar as JSON members."""
    return {
        "name": calendar.name,
        "days": calendar.days,
        "version": calendar.version,
        "updated_at": calendar.updated_at,
    }


def render_limit(limit: ScopeLimit) -> dict[str, object]:
    """A limit as JSON members."""
    return {
        "scope": limit.scope,
        "max_concurrency": limit.max_concurrency,
        "rate": limit.rate,
        "burst": limit.burst,
    }
