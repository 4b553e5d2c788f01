"""One call of the API, apart from how it is sent: request, answer, refusal, and whether it may be sent again."""

import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from rota.base import errors

Document = dict[str, Any]

MAX_TRIES = 5
FIRST_PAUSE_S = 0.2
MAX_PAUSE_S = 5.0
USER_AGENT = "rota-client"
_UNREAD = (429, 503)
_UNSURE = (502, 504)
_ERROR_BY_STATUS: dict[int, type[errors.RotaError]] = {
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    412: errors.VersionMismatch,
    413: errors.PayloadTooLarge,
    429: errors.QuotaExceeded,
    503: errors.DatabaseUnavailable,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to the API. `is_repeatable`: sending it twice does no harm."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = False


def outcome(status: int, body: bytes) -> Document:
    """The document of an answer, or its refusal raised."""
    if status >= 300:
        raise error_of(status, body)
    value = orjson.loads(body) if body else {}
    return value if isinstance(value, dict) else {"value": value}


def error_of(status: int, body: bytes) -> errors.RotaError:
    """The error that a problem document tells about."""
    try:
        problem = orjson.loads(body)
    except orjson.JSONDecodeError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"detail": f"the server answered {status} without a problem document"}
    code = str(problem.get("code", "")) or f"http_{status}"
    message, hint = str(problem.get("detail", "")), str(problem.get("hint", ""))
    if status in (400, 415, 422, 428):
        found = [entry for entry in problem.get("errors", []) if isinstance(entry, dict)]
        fields = tuple(
            errors.FieldError(
                field=str(entry.get("field", "")),
                message=str(entry.get("message", "")),
                value=entry.get("value"),
                hint=str(entry.get("hint", "")),
            )
            for entry in found
        )
        return errors.ValidationFailed(fields or (errors.FieldError(field="body", message=message, hint=hint),))
    if code == "lease_lost":
        return errors.LeaseLost(message, code=code, hint=hint)
    kind = _ERROR_BY_STATUS.get(status, errors.RotaError)
    return kind(message, code=code, hint=hint)


def call(
    method: str,
    path: str,
    *,
    body: object = None,
    query: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Call:
    given = {name: value for name, value in (query or {}).items() if value is not None}
    sent = dict(headers or {})
    if body is not None:
        sent["Content-Type"] = "application/json"
    repeatable = method == "GET" or any(name.lower() == "idempotency-key" for name in sent)
    return Call(
        method=method,
        path=path + ("?" + urlencode(given, doseq=True) if given else ""),
        body=None if body is None else orjson.dumps(body),
        headers=sent,
        is_repeatable=repeatable,
    )


def effect(path: str, body: object, idempotency_key: str | None) -> Call:
    return call("POST", path, body=body, headers={"Idempotency-Key": idempotency_key or str(uuid.uuid4())})


def path(*parts: str) -> str:
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}


def given(**members: object) -> Document:
    return {name: value for name, value in members.items() if value is not None}


def is_again(call: Call, status: int) -> bool:
    return status in _UNREAD or (status in _UNSURE and call.is_repeatable)


def pause_s(number: int) -> float:
    return random.uniform(0, min(MAX_PAUSE_S, FIRST_PAUSE_S * 2**number))  # noqa: S311 - spreads clients, guards nothing


def asked_pause_s(asked: str | None, pause: float) -> float:
    """What the server asked for, within reason."""
    return max(pause, min(float(asked), MAX_PAUSE_S)) if asked and asked.isdigit() else pause


def unreachable(url: str, error: Exception) -> errors.RotaError:
    return errors.DatabaseUnavailable(
        f"no answer from {url}: {str(error) or type(error).__name__}",
        code="api_unreachable",
        hint="check that `rota serve` or `rota dev` runs and that the URL is right",
    )
