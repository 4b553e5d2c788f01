"""Errors as the API shows them: RFC 9457 problem documents, one shape for every refusal and every failure.

    {"type": "urn:rota:problem:validation_failed", "title": ..., "status": 422, "detail": ..., "code": ...,
     "instance": <path>, "request_id": ..., "errors": [{"field", "message", "value"?, "hint"?}], "hint"?: ...}

`code` is stable and the same as in the command line and the logs; `detail` is for people and may change.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from rota.base import errors

MEDIA_TYPE = "application/problem+json"

# The first class that fits gives the status.
STATUS_BY_ERROR: tuple[tuple[type[errors.RotaError], int], ...] = (
    (errors.ValidationFailed, 422),
    (errors.NotFound, 404),
    (errors.VersionMismatch, 412),
    (errors.LeaseLost, 409),
    (errors.Conflict, 409),
    (errors.QuotaExceeded, 429),
    (errors.PayloadTooLarge, 413),
    (errors.Unauthenticated, 401),
    (errors.Forbidden, 403),
    (errors.DatabaseUnavailable, 503),
)
CODE_BY_STATUS = {
    400: "malformed_request",
    404: "not_found",
    405: "method_not_allowed",
    413: "payload_too_large",
    415: "unsupported_media_type",
    428: "precondition_required",
    500: "internal_error",
    503: "database_unavailable",
}
MAX_VALUE_CHARS = 200


class Problem(HTTPException):
    """An error with its HTTP status: raised where the web layer itself refuses, made from every other error.

    It is an HTTPException because the framework lets only those pass while it reads a body.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str = "",
        hint: str = "",
        fields: Sequence[errors.FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status_code=status, detail=detail, headers=headers)
        self.code = code or CODE_BY_STATUS.get(status, "request_refused")
        self.hint = hint
        self.fields = tuple(fields)

    def document(self, *, instance: str | None = None, request_id: str | None = None) -> dict[str, object]:
        """The problem as JSON members; `instance` and `request_id` name the request, where there is one."""
        document: dict[str, object] = {
            "type": f"urn:rota:problem:{self.code}",
            "title": HTTPStatus(self.status_code).phrase,
            "status": self.status_code,
            "detail": self.detail,
            "code": self.code,
        }
        if instance is not None:
            document["instance"] = instance
        if request_id is not None:
            document["request_id"] = request_id
        if self.hint:
            document["hint"] = self.hint
        if self.fields:
            document["errors"] = [field_document(field) for field in self.fields]
        return document


def field_document(field: errors.FieldError) -> dict[str, object]:
    """One wrong field: where, what, the value if it is short and plain, and what to do."""
    document: dict[str, object] = {"field": field.field, "message": field.message}
    if isinstance(field.value, (str, int, float, bool)):
        document["value"] = field.value[:MAX_VALUE_CHARS] if isinstance(field.value, str) else field.value
    if field.hint:
        document["hint"] = field.hint
    return document


def problem_of(error: Exception) -> Problem:
    """The problem that tells about any error. An error nobody foresaw says nothing of its inside."""
    match error:
        case Problem():
            return error
        case errors.RotaError():
            return _from_rota_error(error)
        case RequestValidationError():
            return _from_request_validation(error)
        case HTTPException():
            return Problem(error.status_code, _phrase(error), headers=error.headers)
        case _:
            return Problem(
                500, "something went wrong inside the server", hint="retry; report the request_id if it stays"
            )


def respond(problem: Problem, *, instance: str, request_id: str) -> Response:
    """The HTTP answer of a problem."""
    body = orjson.dumps(problem.document(instance=instance, request_id=request_id), default=str)
    return Response(body, problem.status_code, headers=problem.headers, media_type=MEDIA_TYPE)


def _from_rota_error(error: errors.RotaError) -> Problem:
    status = next((status for kind, status in STATUS_BY_ERROR if isinstance(error, kind)), 500)
    headers = {"Retry-After": "1"} if status == 503 else None
    if status == 401:
        headers = {"WWW-Authenticate": 'Bearer realm="rota"'}
    fields = error.errors if isinstance(error, errors.ValidationFailed) else ()
    return Problem(status, str(error), code=error.code, hint=error.hint, fields=fields, headers=headers)


def _phrase(error: HTTPException) -> str:
    match error.status_code:
        case 404:
            return "there is no such path"
        case 405:
            return "this path does not answer this method"
        case _:
            return str(error.detail)


def _from_request_validation(error: RequestValidationError) -> Problem:
    """The framework's findings about parameters and bodies, with our field paths."""
    fields = tuple(_field_of(found) for found in error.errors())
    detail = "; ".join(f"{field.field}: {field.message}" for field in fields[:5])
    return Problem(422, detail or "the request is not valid", code="validation_failed", fields=fields)


def _field_of(found: Mapping[str, object]) -> errors.FieldError:
    location = found.get("loc")
    parts = [str(part) for part in location] if isinstance(location, (list, tuple)) else []
    if parts and parts[0] in ("body", "query", "path", "header", "cookie"):
        parts = parts[1:]
    hint = ""
    if found.get("type") == "extra_forbidden":
        hint = "remove it, or look for a typing error: unknown fields are refused"
    value = found.get("input")
    return errors.FieldError(
        field=".".join(parts) or "body",
        message=str(found.get("msg", "not valid")),
        value=value if isinstance(value, (str, int, float, bool)) else None,
        hint=hint,
    )
