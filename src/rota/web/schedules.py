"""Routes of schedules: create, read, list, replace, patch, cancel, pause, resume, run now, backfill."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rota.base.model import ScheduleState
from rota.catalog import schedules
from rota.catalog.keys import Scope
from rota.catalog.schedules import Schedule, Version
from rota.plan import edits, states
from rota.web import documents
from rota.web.answers import (
    PROBLEM_RESPONSES,
    Cursor,
    Limit,
    Page,
    answers,
    body_of,
    json_answer,
    page_answer,
    parse_uuid,
    replays,
)
from rota.web.auth import Reader, Writer, actor_of, caller_of
from rota.web.bodies import StrictRoute
from rota.web.calls import (
    IDEMPOTENCY_PARAMETER,
    IdempotencyHeader,
    IfMatch,
    idempotency_of,
    object_body,
    parse_label,
    parse_version,
    replayed,
)
from rota.web.creates import Wish
from rota.web.problems import Problem
from rota.web.state import AppState, Shared, parts_of
from rota.web.wire import PauseBody, ReasonBody, ResumeBody

router = APIRouter(route_class=StrictRoute, responses=PROBLEM_RESPONSES, tags=["schedules"])
N_NEXT_FIRES = 3

Force = Annotated[bool, Query(description="Replace whatever version is there.")]


@router.post(
    "/v1/schedules",
    openapi_extra=body_of(documents.ScheduleBody) | IDEMPOTENCY_PARAMETER,
    **replays(documents.Schedule, 201),
)
async def create_schedule(request: Request) -> Response:
    """Create a schedule. It is planned when this answers: no fire after now is missed."""
    # The busiest route takes its parameters itself: having them injected costs as much as the rest of it.
    principal, shared = caller_of(request, Scope.WRITE), parts_of(request)
    idempotency_key = request.headers.get("idempotency-key")
    document = await object_body(request)
    definition = await shared.definitions.parse(principal.tenant_id, document)
    key = await idempotency_of(request, idempotency_key)
    wish = Wish(definition=definition, actor=actor_of(principal, request), idempotency=key)
    made = await shared.creates.create(principal.tenant_id, wish)
    where = {"Location": f"/v1/schedules/{made.document['id']}", "ETag": f'"{made.document["version"]}"'}
    return json_answer(made.document, 201, {**where, **replayed(made.is_replayed)}, is_repeatable=key is not None)


@router.get("/v1/schedules", **answers(Page[documents.Schedule]))
async def list_schedules(
    principal: Reader,
    shared: Shared,
    name: Annotated[str | None, Query(max_length=255, description="Exactly this name.")] = None,
    state: ScheduleState | None = None,
    group: Annotated[str | None, Query(max_length=255)] = None,
    label: Annotated[str | None, Query(max_length=400, description="key=value")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """The tenant's schedules by age."""
    tenant_id = principal.tenant_id
    filters = {"name": name, "state": state, "group": group, "label": label}
    position = shared.cursors.decode(cursor, tenant_id, "schedules", filters) if cursor else [None]
    after_id = parse_uuid(str(position[0]), "schedule") if position[0] is not None else None
    found = await schedules.list_schedules(
        shared.db,
        tenant_id,
        name=name,
        group=group,
        state=state,
        label=None if label is None else parse_label(label),
        after_id=after_id,
        limit=limit + 1,
    )
    fires = await shared.next_fires.of(found, await shared.now(), 1)

    def cursor_after(last: Schedule) -> str:
        return shared.cursors.encode(tenant_id, "schedules", filters, [str(last.schedule_id)])

    return page_answer(found, limit, lambda one: render(one, fires.get(one.schedule_id, [])), cursor_after)


@router.get("/v1/schedules/{schedule_id}", **answers(documents.Schedule))
async def get_schedule(schedule_id: str, principal: Reader, shared: Shared) -> Response:
    """One schedule with its next fires. `ETag` is its version."""
    wanted = parse_uuid(schedule_id, "schedule")
    return await shown(shared, await schedules.get_schedule(shared.db, principal.tenant_id, wanted))


@router.get("/v1/schedules/{schedule_id}/versions", **answers(Page[documents.ScheduleVersion]))
async def list_versions(
    schedule_id: str, principal: Reader, shared: Shared, limit: Limit = 100, cursor: Cursor = None
) -> Response:
    """What it was, newest first: every version with who made it and why."""
    tenant_id = principal.tenant_id
    wanted = parse_uuid(schedule_id, "schedule")
    listing = f"versions {wanted}"
    position = shared.cursors.decode(cursor, tenant_id, listing, {}) if cursor else [2**31 - 1]
    await schedules.get_schedule(shared.db, tenant_id, wanted)
    found = await schedules.list_versions(
        shared.db, tenant_id, wanted, before_version=int(position[0] or 0), limit=limit + 1
    )
    return page_answer(
        found, limit, render_version, lambda last: shared.cursors.encode(tenant_id, listing, {}, [last.version])
    )


@router.put("/v1/schedules/{schedule_id}", openapi_extra=body_of(documents.ScheduleBody), **answers(documents.Schedule))
async def replace_schedule(
    schedule_id: str,
    request: Request,
    principal: Writer,
    shared: Shared,
    if_match: IfMatch = None,
    force: Force = False,
) -> Response:
    """Replace the definition of the version that was read. What has not started of older versions is cancelled."""
    wanted, version = parse_uuid(schedule_id, "schedule"), parse_version(if_match)
    if version is None and not force:
        raise Problem(
            428,
            "a replacement must name the version it replaces",
            hint='send If-Match with the version you read, such as "3", or ?force=true to overwrite whatever is there',
        )
    document = await object_body(request)
    made = await edits.replace_schedule(
        shared.db,
        principal.tenant_id,
        wanted,
        document,
        actor_of(principal, request),
        expected_version=version,
        max_payload_bytes=await shared.definitions.max_payload_bytes(principal.tenant_id),
    )
    return await shown(shared, made)


@router.patch(
    "/v1/schedules/{schedule_id}", openapi_extra=body_of(documents.ScheduleChange), **answers(documents.Schedule)
)
async def patch_schedule(
    schedule_id: str, request: Request, principal: Writer, shared: Shared, if_match: IfMatch = None
) -> Response:
    """Change members (RFC 7396: null takes one back to its default). With If-Match only if nobody was faster."""
    wanted, version = parse_uuid(schedule_id, "schedule"), parse_version(if_match)
    document = await object_body(request)
    made = await edits.patch_schedule(
        shared.db,
        principal.tenant_id,
        wanted,
        document,
        actor_of(principal, request),
        expected_version=version,
        max_payload_bytes=await shared.definitions.max_payload_bytes(principal.tenant_id),
    )
    return await shown(shared, made)


@router.delete("/v1/schedules/{schedule_id}", **answers(documents.Schedule))
async def cancel_schedule(
    schedule_id: str,
    request: Request,
    principal: Writer,
    shared: Shared,
    if_match: IfMatch = None,
    reason: Annotated[str | None, Query(max_length=500, description="Why; kept in the audit trail.")] = None,
    stop_running: Annotated[bool, Query(description="Ask running attempts to stop, too.")] = False,
) -> Response:
    """Cancel it for good. Its history stays; what has not started is cancelled with it."""
    made = await states.cancel_schedule(
        shared.db,
        principal.tenant_id,
        parse_uuid(schedule_id, "schedule"),
        actor_of(principal, request, reason),
        expected_version=parse_version(if_match),
        stop_running=stop_running,
    )
    return await shown(shared, made)


@router.post("/v1/schedules/{schedule_id}/pause", **answers(documents.Schedule))
async def pause_schedule(
    schedule_id: str,
    request: Request,
    principal: Writer,
    shared: Shared,
    body: PauseBody | None = None,
    if_match: IfMatch = None,
) -> Response:
    """Start nothing of it any more, until it is resumed or until `until`. What runs goes on."""
    body = body or PauseBody()
    made = await states.pause_schedule(
        shared.db,
        principal.tenant_id,
        parse_uuid(schedule_id, "schedule"),
        actor_of(principal, request, body.reason),
        until=body.until,
        expected_version=parse_version(if_match),
    )
    return await shown(shared, made)


@router.post("/v1/schedules/{schedule_id}/resume", **answers(documents.Schedule))
async def resume_schedule(
    schedule_id: str,
    request: Request,
    principal: Writer,
    shared: Shared,
    body: ResumeBody | None = None,
    if_match: IfMatch = None,
) -> Response:
    """Go on from now. `missed` decides about what was due during the pause."""
    body = body or ResumeBody()
    made = await states.resume_schedule(
        shared.db,
        principal.tenant_id,
        parse_uuid(schedule_id, "schedule"),
        actor_of(principal, request, body.reason),
        missed=body.missed,
        expected_version=parse_version(if_match),
    )
    return await shown(shared, made)


async def shown(shared: AppState, schedule: Schedule) -> Response:
    """One schedule as an answer."""
    fires = await shared.next_fires.of([schedule], await shared.now(), N_NEXT_FIRES)
    document = render(schedule, fires.get(schedule.schedule_id, []))
    return json_answer(document, 200, {"ETag": f'"{schedule.version}"'})


def render(schedule: Schedule, next_fires: list[Any]) -> dict[str, object]:
    """A schedule as JSON members."""
    absent = {"paused_until": None, "pause_reason": None, "set_aside": None}
    return {**absent, **schedule.document(), "next_fires": next_fires}


def render_version(version: Version) -> dict[str, object]:
    """A version as JSON members."""
    return {
        **version.document,
        "version": version.version,
        "state": str(version.state),
        "activated_at": version.activated_at,
        "active_from": version.active_from,
        "active_until": version.active_until,
        "actor": version.actor,
        "reason": version.reason,
    }


@router.post("/v1/schedules/{schedule_id}/run", **replays(documents.Occurrence, 201))
async def run_schedule(
    schedule_id: str,
    request: Request,
    principal: Writer,
    shared: Shared,
    body: ReasonBody | None = None,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """Run it once now. Its rhythm is not disturbed, a paused one runs too."""
    body = body or ReasonBody()
    key = await idempotency_of(request, idempotency_key)
    made = await edits.run_schedule(
        shared.db,
        principal.tenant_id,
        parse_uuid(schedule_id, "schedule"),
        actor_of(principal, request, body.reason),
        idempotency=key,
    )
    return json_answer(made.document, 201, replayed(made.is_replayed), is_repeatable=key is not None)
