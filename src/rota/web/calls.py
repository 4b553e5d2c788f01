"""What routes read from their requests besides parameters and bodies: preconditions and idempotency keys."""

from typing import Annotated, Any

from fastapi import Header, Request

from rota.base.errors import FieldError, ValidationFailed
from rota.catalog.idempotency import IdempotencyKey

_SENT_AGAIN = "Sent again, it gives the first answer and no second effect."
IdempotencyHeader = Annotated[str | None, Header(alias="Idempotency-Key", description=_SENT_AGAIN)]
# The same, described for a route that reads the header itself.
IDEMPOTENCY_PARAMETER: dict[str, Any] = {
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": _SENT_AGAIN,
            "schema": {"type": "string"},
        }
    ]
}
IfMatch = Annotated[str | None, Header(alias="If-Match", description='The version that was read, such as "3".')]


async def object_body(request: Request) -> dict[str, Any]:
    """The body of a request, which must be a JSON object."""
    value = await request.json()
    if not isinstance(value, dict):
        raise ValidationFailed((FieldError(field="body", message="must be an object"),))
    return value


async def idempotency_of(request: Request, key: str | None) -> IdempotencyKey | None:
    """The request's Idempotency-Key with its fingerprint, if it has one."""
    if key is None:
        return None
    return IdempotencyKey.of(key, request.method, request.url.path, await request.body())


def replayed(is_replayed: bool) -> dict[str, str]:
    """The header that tells a first answer given again."""
    return {"Idempotency-Replayed": "true"} if is_replayed else {}


def parse_version(if_match: str | None) -> int | None:
    """The version in an If-Match header. ValidationFailed when it is none of ours; `*` stands for any."""
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix("W/").strip('"')
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        fault = FieldError(field="If-Match", message='must be a version such as "3"', value=if_match[:40])
        raise ValidationFailed((fault,))
    return int(text)


def parse_label(text: str) -> tuple[str, str]:
    """key=value of a filter."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValidationFailed((FieldError(field="label", message="must be of the form key=value", value=text),))
    return key, value
