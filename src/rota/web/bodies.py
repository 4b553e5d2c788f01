"""Request bodies, read without trust: how long, how deep, and JSON that means one thing only.

Refused with 400: what is not JSON in UTF-8, NaN and Infinity, NUL and lone surrogates in strings, integers beyond
64 bits, a member named twice, nesting deeper than `MAX_DEPTH`. With 413: more bytes than allowed, told by
Content-Length where it is given and counted while reading in any case. With 415: another media type.
"""

import json
import re
from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope

from rota.web.problems import Problem

MAX_DEPTH = 64
MAX_INTEGER = 2**64 - 1
MIN_INTEGER = -(2**63)
_LONG_NUMBER = re.compile(rb"[0-9]{19}")


class _NotExactError(ValueError):
    """A member named twice, or an integer that no reader would keep exactly."""


def parse_json(data: bytes, *, refuse_twice: bool = True) -> Any:
    """The value of a JSON text. Problem 400 with the place and the reason otherwise.

    `refuse_twice=False` is for streams of many small documents, where the check would cost as much as the work.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _malformed(f"the body is not valid JSON: {error}") from error
    if refuse_twice or _LONG_NUMBER.search(data):
        value = _parse_exactly(data)
    if data.count(b"{") + data.count(b"[") > MAX_DEPTH and _depth_exceeds(value, MAX_DEPTH):
        raise _malformed(f"the body is nested deeper than {MAX_DEPTH} levels")
    if b"\\u0000" in data and _has_nul(value):
        raise _malformed("a string holds the character NUL (\\u0000), which cannot be stored")
    return value


def _malformed(detail: str) -> Problem:
    return Problem(400, detail, code="malformed_json")


def _parse_exactly(data: bytes) -> Any:
    """Parse with the slower reader, which sees members named twice and keeps long integers to judge them."""
    try:
        return json.loads(data, object_pairs_hook=_object, parse_int=_integer)
    except _NotExactError as error:
        raise _malformed(str(error)) from error
    except RecursionError as error:
        raise _malformed(f"the body is nested deeper than {MAX_DEPTH} levels") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _NotExactError(f"the member {name[:80]!r} is given twice in one object")
            seen.add(name)
    return made


def _integer(text: str) -> int:
    value = int(text) if len(text) <= 20 else MAX_INTEGER + 1
    if not MIN_INTEGER <= value <= MAX_INTEGER:
        raise _NotExactError(f"the integer {text[:40]} does not fit into 64 bits; send it as a string")
    return value


def _depth_exceeds(value: Any, limit: int) -> bool:
    """Whether it is nested deeper than `limit`, level by level, without recursion."""
    level = [value]
    for _ in range(limit):
        level = [
            member
            for container in level
            if isinstance(container, (dict, list))
            for member in (container.values() if isinstance(container, dict) else container)
        ]
        if not level:
            return False
    return any(isinstance(member, (dict, list)) for member in level)


def _has_nul(value: Any) -> bool:
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            if "\x00" in part:
                return True
        elif isinstance(part, dict):
            pending.extend(part.keys())
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
    return False


class StrictRequest(Request):
    """A request whose JSON is read by `parse_json`."""

    async def json(self) -> Any:
        """The body as a value; Problem 400 if it is not JSON as we take it."""
        if not hasattr(self, "_json"):
            self._json = parse_json(await self.body())
        return self._json


class StrictRoute(APIRoute):
    """A route whose handler and parameters see a StrictRequest."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the framework's handler."""
        inner = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await inner(StrictRequest(request.scope, request.receive))

        return handler


def check_head(scope: Scope, *, max_bytes: int, media_types: tuple[str, ...]) -> None:
    """Refuse by what the head of the request says, before a byte of the body is read."""
    if scope["method"] not in ("POST", "PUT", "PATCH", "DELETE"):
        return
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length[:19]) > max_bytes:
        raise too_large(max_bytes)
    has_body = b"transfer-encoding" in headers or (length.isdigit() and int(length[:19]) > 0)
    if not has_body:
        return
    media_type = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    if media_type not in media_types:
        expected = " or ".join(media_types)
        raise Problem(415, f"content-type {media_type[:80]!r} is not taken here; send {expected}")
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise Problem(415, "compressed bodies are not taken; send the body as it is")


def too_large(max_bytes: int) -> Problem:
    """The refusal of a body that is too long."""
    return Problem(413, f"the body is longer than {max_bytes} bytes", headers={"Connection": "close"})


def bounded(receive: Receive, max_bytes: int) -> Receive:
    """A `receive` that counts, so that a body without an honest Content-Length cannot be longer either."""
    taken = 0

    async def counting() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > max_bytes:
                raise too_large(max_bytes)
        return message

    return counting
