"""Answers of routes: JSON bodies, pages of listings, and how the OpenAPI document tells about both."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

import orjson
from fastapi import Query
from pydantic import BaseModel
from starlette.responses import Response

from rota.base.errors import NotFound

MAX_PAGE = 500
Item = TypeVar("Item")
Found = TypeVar("Found")
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many at the most.")]
OfSchedule = Annotated[str | None, Query(max_length=36, description="Of this schedule.")]
Cursor = Annotated[str | None, Query(max_length=2000, description="next_cursor of the page before.")]

PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "A problem: what went wrong and what to do",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
    }
}


class Page(BaseModel, Generic[Item]):
    """One page of a listing."""

    items: list[Item]
    next_cursor: str | None


def json_answer(
    document: object, status: int = 200, headers: Mapping[str, str] | None = None, *, is_repeatable: bool = False
) -> Response:
    """A JSON answer. One that may be given again from the store is the same to the byte: its members are sorted."""
    return Response(dump(document, sort=is_repeatable), status, headers=headers, media_type="application/json")


def dump(document: object, *, sort: bool = False) -> bytes:
    """JSON bytes; instants as RFC 3339 in UTC with Z."""
    options = orjson.OPT_PASSTHROUGH_DATETIME | (orjson.OPT_SORT_KEYS if sort else 0)
    return orjson.dumps(document, default=_plain, option=options)


def _plain(value: object) -> object:
    match value:
        case datetime():
            return instant(value)
        case UUID():
            return str(value)
        case frozenset() | set():
            return sorted(value)
        case _:
            raise TypeError(f"no JSON form for {type(value).__name__}")


def instant(moment: datetime) -> str:
    """RFC 3339 in UTC, with a fraction only if there is one."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def answers(model: object, status: int = 200, description: str = "Done") -> dict[str, Any]:
    """The keyword arguments of a route that answers with this model, built by the route itself."""
    content = {"description": description} if model is None else {"model": model, "description": description}
    return {"response_model": None, "status_code": status, "responses": {status: content}}


def replays(model: object, status: int = 200) -> dict[str, Any]:
    """As `answers`, for routes that honour Idempotency-Key."""
    made = answers(model, status)
    made["responses"][status]["headers"] = {
        "Idempotency-Replayed": {
            "description": "true: this is the answer to the first request with that Idempotency-Key",
            "schema": {"type": "string"},
        }
    }
    return made


def body_of(schema: type[BaseModel], media_type: str = "application/json") -> dict[str, Any]:
    """The description of a body that the route reads itself. The schema must be among the components."""
    return {
        "requestBody": {
            "required": True,
            "content": {media_type: {"schema": {"$ref": f"#/components/schemas/{schema.__name__}"}}},
        }
    }


def page_answer(
    found: Sequence[Found], limit: int, render: Callable[[Found], object], cursor_after: Callable[[Found], str]
) -> Response:
    """A page out of up to limit + 1 found items: the one too many tells that more follow."""
    shown = found[:limit]
    next_cursor = cursor_after(shown[-1]) if len(found) > limit else None
    return json_answer({"items": [render(item) for item in shown], "next_cursor": next_cursor})


def parse_uuid(text: str, what: str) -> UUID:
    """The id of an object in a path. NotFound when no such thing can exist."""
    try:
        made = UUID(text)
    except ValueError as error:
        raise NotFound(f"there is no {what} {text[:60]!r}") from error
    if str(made) != text.lower():
        raise NotFound(f"there is no {what} {text[:60]!r}")
    return made
