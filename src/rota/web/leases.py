"""Routes of the lease protocol: workers in any language claim work, keep it with heartbeats, and report."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from fastapi import APIRouter
from starlette.responses import Response

from rota.base.errors import FieldError, LeaseLost, NotFound, ValidationFailed
from rota.calendar import TimingError, parse_duration
from rota.catalog.keys import Principal
from rota.run import leases
from rota.web import documents, reports
from rota.web.answers import PROBLEM_RESPONSES, answers, json_answer
from rota.web.auth import Worker
from rota.web.bodies import StrictRoute
from rota.web.state import AppState, Shared
from rota.web.wire import ClaimBody, CompleteBody, FailBody, HeartbeatBody

router = APIRouter(route_class=StrictRoute, responses=PROBLEM_RESPONSES, tags=["leases"])
SHORTEST = timedelta(seconds=1)
LONGEST = timedelta(hours=1)


@router.post("/v1/leases", **answers(documents.Leases))
async def claim(body: ClaimBody, principal: Worker, shared: Shared) -> Response:
    """Lease up to `limit` due occurrences of this tenant. An empty list: nothing is due, ask again a little later."""
    found = await leases.claim_for_tenant(
        shared.db,
        principal.tenant_id,
        queues=body.queues,
        handlers=body.handlers,
        limit=body.limit,
        worker=body.worker,
        lease_s=_lease_s(body.lease, shared),
    )
    return json_answer({"leases": [lease.document() for lease in found]})


@router.post("/v1/leases/{token}/heartbeat", **answers(documents.LeaseState))
async def heartbeat(token: str, principal: Worker, shared: Shared, body: HeartbeatBody | None = None) -> Response:
    """Keep a lease. `cancel_requested`: stop as soon as you can and report. 409 when the lease is lost."""
    lease_s = _lease_s(None if body is None else body.lease, shared)
    async with _own(shared, principal, token):
        return json_answer(await leases.heartbeat(shared.db, principal.tenant_id, token, lease_s=lease_s))


@router.post("/v1/leases/{token}/complete", **answers(documents.LeaseState))
async def complete(token: str, principal: Worker, shared: Shared, body: CompleteBody | None = None) -> Response:
    """Report success. 409 when somebody else has the work by now; then this attempt does not count."""
    result = None if body is None else body.result
    async with _own(shared, principal, token):
        return json_answer(await leases.complete(shared.db, principal.tenant_id, token, result))


@router.post("/v1/leases/{token}/fail", **answers(documents.LeaseState))
async def fail(token: str, body: FailBody, principal: Worker, shared: Shared) -> Response:
    """Report failure. The answer says whether it is tried again, and when, or is dead."""
    async with _own(shared, principal, token):
        answer = await leases.fail(
            shared.db, principal.tenant_id, token, body.error, error_class=body.error_class, retry=body.retry
        )
        return json_answer(answer)


@asynccontextmanager
async def _own(shared: AppState, principal: Principal, token: str) -> AsyncIterator[None]:
    """A lease that does not hold is lost if its occurrence is the tenant's, and unknown otherwise."""
    try:
        yield
    except LeaseLost:
        key, _ = leases.parse_token(token)
        try:
            await reports.get_occurrence(shared.db, principal.tenant_id, key)
        except NotFound as error:
            raise NotFound(f"there is no lease {token[:120]!r}") from error
        raise


def _lease_s(text: str | None, shared: AppState) -> float:
    if text is None:
        return shared.settings.lease_s
    try:
        length = parse_duration(text)
    except TimingError as error:
        raise ValidationFailed((FieldError(field="lease", message=str(error), value=text, hint=error.hint),)) from error
    if not SHORTEST <= length <= LONGEST:
        raise ValidationFailed((FieldError(field="lease", message="must be from 1s to 1h", value=text),))
    return length.total_seconds()
