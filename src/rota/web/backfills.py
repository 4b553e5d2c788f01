"""Routes of backfills: run what a schedule's rule gives in a past range, slowly, visibly, and stoppable."""

from datetime import datetime

from fastapi import APIRouter, Request
from starlette.responses import Response

from rota.base.db import Row
from rota.base.errors import FieldError, ValidationFailed
from rota.plan import backfill
from rota.web import documents, reports
from rota.web.answers import (
    PROBLEM_RESPONSES,
    Cursor,
    Limit,
    OfSchedule,
    Page,
    answers,
    json_answer,
    page_answer,
    parse_uuid,
    replays,
)
from rota.web.auth import Reader, Writer, actor_of
from rota.web.bodies import StrictRoute
from rota.web.calls import IdempotencyHeader, idempotency_of, replayed
from rota.web.reports import LAST_ID, LATEST
from rota.web.state import Shared
from rota.web.wire import BackfillBody, ReasonBody

router = APIRouter(route_class=StrictRoute, responses=PROBLEM_RESPONSES, tags=["backfills"])


@router.post("/v1/schedules/{schedule_id}/backfill", **replays(documents.Backfill, 201))
async def start_backfill(
    schedule_id: str,
    body: BackfillBody,
    request: Request,
    principal: Writer,
    shared: Shared,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """Run what its rule gives in [from, to), at most `rate` a second. Its rhythm is not disturbed."""
    if body.to <= body.from_:
        raise ValidationFailed((FieldError(field="to", message="must be later than from"),))
    made = await backfill.start_backfill(
        shared.db,
        principal.tenant_id,
        parse_uuid(schedule_id, "schedule"),
        actor_of(principal, request, body.reason),
        start=body.from_,
        end=body.to,
        rate=body.rate,
        idempotency=await idempotency_of(request, idempotency_key),
    )
    headers = {"Location": f"/v1/backfills/{made.document['id']}", **replayed(made.is_replayed)}
    return json_answer(made.document, 201, headers)


@router.get("/v1/backfills", **answers(Page[documents.Backfill]))
async def list_backfills(
    principal: Reader, shared: Shared, schedule_id: OfSchedule = None, limit: Limit = 100, cursor: Cursor = None
) -> Response:
    """Backfills and how far they are, newest first."""
    tenant_id = principal.tenant_id
    of = None if schedule_id is None else parse_uuid(schedule_id, "schedule")
    filters = {"schedule_id": of}
    at, before_id = LATEST, LAST_ID
    if cursor is not None:
        position = shared.cursors.decode(cursor, tenant_id, "backfills", filters)
        at, before_id = datetime.fromisoformat(str(position[0])), parse_uuid(str(position[1]), "backfill")
    found = await reports.list_backfills(shared.db, tenant_id, of, at, before_id, limit + 1)

    def cursor_after(row: Row) -> str:
        position = [row["created_at"].isoformat(), str(row["backfill_id"])]
        return shared.cursors.encode(tenant_id, "backfills", filters, position)

    return page_answer(found, limit, render, cursor_after)


@router.get("/v1/backfills/{backfill_id}", **answers(documents.Backfill))
async def get_backfill(backfill_id: str, principal: Reader, shared: Shared) -> Response:
    """One backfill and how far it is."""
    wanted = parse_uuid(backfill_id, "backfill")
    return json_answer(render(await reports.get_backfill(shared.db, principal.tenant_id, wanted)))


@router.post("/v1/backfills/{backfill_id}/cancel", **answers(documents.Backfill))
async def cancel_backfill(
    backfill_id: str, request: Request, principal: Writer, shared: Shared, body: ReasonBody | None = None
) -> Response:
    """Stop it: nothing more is planned, and what has not started of it is cancelled."""
    wanted = parse_uuid(backfill_id, "backfill")
    await reports.get_backfill(shared.db, principal.tenant_id, wanted)
    actor = actor_of(principal, request, None if body is None else body.reason)
    await backfill.cancel_backfill(shared.db, principal.tenant_id, wanted, actor)
    return json_answer(render(await reports.get_backfill(shared.db, principal.tenant_id, wanted)))


def render(row: Row) -> dict[str, object]:
    """A backfill as JSON members."""
    return {
        "id": row["backfill_id"],
        "schedule_id": row["schedule_id"],
        "version": row["version"],
        "state": row["state"],
        "from": row["range_from"],
        "to": row["range_until"],
        "rate": row["rate"],
        "planned": row["n_planned"],
        "planned_through": row["planned_through"],
        "created_at": row["created_at"],
    }
