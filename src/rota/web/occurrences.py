"""Routes of occurrences: what was planned, what came of it, and putting dead ones back."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rota.base.db import Row
from rota.base.errors import NotFound
from rota.base.model import OccurrenceState, RunKey, TenantId
from rota.catalog import schedules
from rota.plan import occurrences as queue_door
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
from rota.web.calls import IdempotencyHeader, idempotency_of
from rota.web.reports import EARLIEST, LATEST, Filter, Position
from rota.web.state import AppState, Shared
from rota.web.wire import Instant, ReasonBody, ReplayManyBody

router = APIRouter(route_class=StrictRoute, responses=PROBLEM_RESPONSES, tags=["occurrences"])

From = Annotated[Instant | None, Query(alias="from", description="Scheduled at or after.")]
To = Annotated[Instant | None, Query(description="Scheduled before.")]


@router.get("/v1/occurrences", **answers(Page[documents.Occurrence]))
async def list_occurrences(
    principal: Reader,
    shared: Shared,
    schedule_id: OfSchedule = None,
    state: OccurrenceState | None = None,
    from_: From = None,
    to: To = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Occurrences, latest scheduled first: those to come, those that run and those that ended."""
    wanted = Filter(
        schedule_id=None if schedule_id is None else parse_uuid(schedule_id, "schedule"),
        state=None if state is None else str(state),
        start=from_ or EARLIEST,
        end=to or LATEST,
    )
    place = _Place(shared, principal.tenant_id, "occurrences", wanted)
    found = await reports.list_occurrences(shared.db, principal.tenant_id, wanted, place.before(cursor), limit + 1)
    now = await shared.now()
    return page_answer(found, limit, lambda row: render(row, now), lambda row: place.cursor(row, row["scheduled_for"]))


@router.get("/v1/missed", **answers(Page[documents.MissedRange]))
async def list_missed(
    principal: Reader,
    shared: Shared,
    schedule_id: OfSchedule = None,
    from_: From = None,
    to: To = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Occurrences that were due and not run, one item a schedule and outage, with how many and why."""
    wanted = Filter(
        schedule_id=None if schedule_id is None else parse_uuid(schedule_id, "schedule"),
        start=from_ or EARLIEST,
        end=to or LATEST,
    )
    place = _Place(shared, principal.tenant_id, "missed", wanted)
    found = await reports.list_missed(shared.db, principal.tenant_id, wanted, place.before(cursor), limit + 1)
    return page_answer(found, limit, render_missed, lambda row: place.cursor(row, row["last_at"]))


@router.post("/v1/occurrences/replay", **replays(documents.Replayed))
async def replay_many(
    body: ReplayManyBody,
    request: Request,
    principal: Writer,
    shared: Shared,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """Put the dead letters that fit back into the queue, at most `rate` a second. Pressed twice it adds nothing."""
    schedule_id = None
    if body.schedule_id is not None:
        schedule_id = parse_uuid(body.schedule_id, "schedule")
        await schedules.get_schedule(shared.db, principal.tenant_id, schedule_id)
    made = await queue_door.replay_many(
        shared.db,
        principal.tenant_id,
        actor_of(principal, request, body.reason),
        schedule_id=schedule_id,
        start=body.from_,
        end=body.to,
        dead_reason=body.dead_reason,
        rate=body.rate,
        idempotency=await idempotency_of(request, idempotency_key),
    )
    return json_answer(made)


@router.get("/v1/occurrences/{run_key}", **answers(documents.OccurrenceDetail))
async def get_occurrence(run_key: str, principal: Reader, shared: Shared) -> Response:
    """One occurrence with its attempts, its result, and what it was to do."""
    return json_answer(await detail(shared, principal.tenant_id, parse_run_key(run_key)))


@router.post("/v1/occurrences/{run_key}/replay", **replays(documents.Occurrence))
async def replay(
    run_key: str,
    request: Request,
    principal: Writer,
    shared: Shared,
    body: ReasonBody | None = None,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """Put a dead occurrence back into the queue, with the same run key, scheduled time and payload."""
    key = parse_run_key(run_key)
    await reports.get_occurrence(shared.db, principal.tenant_id, key)
    actor = actor_of(principal, request, None if body is None else body.reason)
    idempotency = await idempotency_of(request, idempotency_key)
    made = await queue_door.replay(shared.db, principal.tenant_id, key, actor, idempotency=idempotency)
    return json_answer(made, is_repeatable=idempotency is not None)


@router.post("/v1/occurrences/{run_key}/cancel", **answers(documents.Occurrence))
async def cancel(
    run_key: str, request: Request, principal: Writer, shared: Shared, body: ReasonBody | None = None
) -> Response:
    """Cancel what has not started; ask what runs to stop (its heartbeats tell it)."""
    key = parse_run_key(run_key)
    await reports.get_occurrence(shared.db, principal.tenant_id, key)
    actor = actor_of(principal, request, None if body is None else body.reason)
    await queue_door.cancel_occurrence(shared.db, principal.tenant_id, key, actor)
    return await shown(shared, principal.tenant_id, key)


class _Place:
    """Where one listing is: makes and reads its cursors."""

    def __init__(self, shared: AppState, tenant_id: TenantId, listing: str, wanted: Filter) -> None:
        self._cursors = shared.cursors
        self._tenant_id = tenant_id
        self._listing = listing
        self._filters = {
            "schedule_id": wanted.schedule_id,
            "state": wanted.state,
            "start": wanted.start,
            "end": wanted.end,
        }

    def before(self, cursor: str | None) -> Position:
        """The position a cursor holds; none: the very front."""
        if cursor is None:
            return Position()
        at, schedule_id, version = self._cursors.decode(cursor, self._tenant_id, self._listing, self._filters)
        return Position(
            at=datetime.fromisoformat(str(at)),
            schedule_id=parse_uuid(str(schedule_id), "schedule"),
            version=int(version or 0),
        )

    def cursor(self, row: Row, at: datetime) -> str:
        """The cursor of what comes after a row."""
        position = [at.isoformat(), str(row["schedule_id"]), row["version"]]
        return self._cursors.encode(self._tenant_id, self._listing, self._filters, position)


def parse_run_key(text: str) -> RunKey:
    """The run key in a path. NotFound when no such occurrence can exist."""
    try:
        return RunKey.parse(text)
    except ValueError as error:
        raise NotFound(f"there is no occurrence {text[:120]!r}", hint="its id is its run key") from error


async def shown(shared: AppState, tenant_id: TenantId, key: RunKey) -> Response:
    """One occurrence as it is now."""
    return json_answer(render(await reports.get_occurrence(shared.db, tenant_id, key), await shared.now()))


async def detail(shared: AppState, tenant_id: TenantId, key: RunKey) -> dict[str, Any]:
    """One occurrence with everything known about it."""
    row = await reports.get_occurrence(shared.db, tenant_id, key)
    failed = await reports.list_attempts(shared.db, tenant_id, key)
    attempts = [render_attempt(attempt) for attempt in failed]
    if row["state"] == "succeeded":
        attempts.append(_succeeded(row))
    (version,) = await schedules.list_versions(
        shared.db, tenant_id, key.schedule_id, before_version=key.version + 1, limit=1
    )
    return {
        **render(row, await shared.now()),
        "attempts": attempts,
        "result": row["result"],
        "last_error": row["last_error"] or (failed[-1]["error"] if failed else None),
        "schedule_name": version.document["name"],
        "target": version.document["target"],
        "payload": version.document["payload"],
    }


def render(row: Row, now: datetime) -> dict[str, object]:
    """An occurrence as JSON members; `now` is the cell's time."""
    at, planned_at = row["available_at"], row["planned_at"]
    held = at is not None and at.year > 9000
    enqueued_at = None if at is None or planned_at is None or held else max(at, planned_at)
    return {
        "id": str(RunKey(row["schedule_id"], row["version"], row["scheduled_for"])),
        "schedule_id": row["schedule_id"],
        "version": row["version"],
        "scheduled_for": row["scheduled_for"],
        "state": row["state"],
        "trigger": row["trigger"],
        "reason": row["reason"],
        "attempt": row["attempt"],
        "failures": row["failures"],
        "losses": row["losses"],
        "planned_at": planned_at,
        "available_at": None if held else at,
        "enqueued_at": enqueued_at if enqueued_at is not None and enqueued_at <= now else None,
        "started_at": row["started_at"],
        "finished_at": row["finished_at"],
        "worker": row["worker"],
        "lease_until": row["lease_until"],
        "cancel_requested_at": row["cancel_requested_at"],
        "status": row["status"],
    }


def render_attempt(row: Row) -> dict[str, object]:
    """An attempt that did not succeed as JSON members."""
    names = ("number", "outcome", "worker", "started_at", "finished_at", "status", "error_class", "error", "retry_at")
    return {name: row[name] for name in names}


def _succeeded(row: Row) -> dict[str, object]:
    nothing = {"error_class": None, "error": None, "retry_at": None}
    names = ("worker", "started_at", "finished_at", "status")
    return {"number": row["attempt"], "outcome": "succeeded", **{name: row[name] for name in names}, **nothing}


def render_missed(row: Row) -> dict[str, object]:
    """A range of missed occurrences as JSON members."""
    return {
        "schedule_id": row["schedule_id"],
        "version": row["version"],
        "first_at": row["first_at"],
        "last_at": row["last_at"],
        "count": row["n_missed"],
        "reason": row["reason"],
        "recorded_at": row["recorded_at"],
    }
