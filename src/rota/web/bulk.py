"""The route that creates many schedules in one streamed call."""

from collections.abc import Sequence

from fastapi import APIRouter, Request
from starlette.responses import Response

from rota.base.errors import FieldError, RotaError, ValidationFailed
from rota.base.model import Actor, TenantId, named_schedule_id
from rota.catalog.idempotency import IdempotencyKey
from rota.plan.edits import Created
from rota.web import documents
from rota.web.answers import PROBLEM_RESPONSES, body_of, dump
from rota.web.auth import Writer, actor_of
from rota.web.bodies import parse_json
from rota.web.calls import IdempotencyHeader
from rota.web.creates import Wish, write
from rota.web.definitions import read
from rota.web.ndjson import MEDIA_TYPE, Exchange, Line
from rota.web.problems import Problem, problem_of
from rota.web.state import AppState, Shared

router = APIRouter(responses=PROBLEM_RESPONSES, tags=["schedules"])


@router.post(
    "/v1/schedules/bulk",
    openapi_extra=body_of(documents.ScheduleBody, MEDIA_TYPE),
    response_model=None,
    responses={
        200: {
            "description": "One result a line of the body, in order, while the body still comes in",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/BulkResult"}}},
        }
    },
)
async def create_many(
    request: Request, principal: Writer, shared: Shared, idempotency_key: IdempotencyHeader = None
) -> Response:
    """Create one schedule a line; a bad line harms no other.

    With an Idempotency-Key, a line that was created is not created again.
    """
    if idempotency_key is not None:
        IdempotencyKey.of(idempotency_key, "POST", request.url.path, b"")
    work = _Work(
        shared,
        principal.tenant_id,
        actor_of(principal, request),
        await shared.definitions.max_payload_bytes(principal.tenant_id),
        idempotency_key,
    )
    return Exchange(work.do, refused, max_line_bytes=shared.settings.max_body_bytes)


class _Work:
    """What one call does with each batch of its lines."""

    def __init__(
        self, shared: AppState, tenant_id: TenantId, actor: Actor, max_payload_bytes: int, idempotency_key: str | None
    ) -> None:
        self._shared = shared
        self._tenant_id = tenant_id
        self._actor = actor
        self._max_payload_bytes = max_payload_bytes
        self._idempotency_key = idempotency_key

    async def do(self, lines: Sequence[Line]) -> list[bytes]:
        """Create what the lines say; one result a line."""
        wishes: list[Wish] = []
        results: list[bytes | None] = []
        for line in lines:
            try:
                wishes.append(self._wish(line))
                results.append(None)
            except (Problem, RotaError) as error:
                results.append(refused(line.number, problem_of(error)))
        made = iter(await write(self._shared.db, self._tenant_id, wishes, is_brief=True) if wishes else [])
        return [
            self._result(line.number, next(made)) if result is None else result
            for line, result in zip(lines, results, strict=True)
        ]

    def _wish(self, line: Line) -> Wish:
        document = parse_json(line.text, refuse_twice=False)
        if not isinstance(document, dict):
            raise ValidationFailed((FieldError(field="body", message="must be an object"),))
        definition = read(self._tenant_id, document, self._max_payload_bytes)
        schedule_id = None
        if self._idempotency_key is not None:
            schedule_id = named_schedule_id(self._tenant_id, f"bulk {self._idempotency_key}", str(line.number))
        return Wish(definition=definition, actor=self._actor, schedule_id=schedule_id)

    def _result(self, number: int, made: Created | RotaError) -> bytes:
        if isinstance(made, RotaError):
            return refused(number, problem_of(made))
        document = {"line": number, "status": 201, "id": made.document["id"], "version": made.document["version"]}
        if made.is_replayed:
            document["replayed"] = True
        return dump(document) + b"\n"


def refused(number: int, problem: Problem) -> bytes:
    """The result of a line that was not created."""
    return dump({"line": number, "status": problem.status_code, "error": problem.document()}) + b"\n"
