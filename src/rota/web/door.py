"""What every request passes before it reaches a route: a request id, limits, the key; and afterwards the headers.

Also the last line of defence: an error that nobody foresaw is logged and answered with a problem that says nothing of
the inside.
"""

import re
import secrets
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.base.errors import Unauthenticated
from rota.base.telemetry import ApiFailed, ApiRequest, emit
from rota.web.auth import bearer
from rota.web.bodies import bounded, check_head
from rota.web.problems import Problem, problem_of, respond
from rota.web.state import AppState

JSON_TYPES = ("application/json", "application/merge-patch+json")
NDJSON_TYPES = ("application/x-ndjson", "application/ndjson", "application/jsonl")
BULK_PATH = "/v1/schedules/bulk"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}", re.ASCII)
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)

SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
)


class Door:
    """The ASGI application around all others."""

    def __init__(self, app: ASGIApp, parts: AppState) -> None:
        self.parts = parts
        self._app = app
        self._keys = parts.keys
        self._settings = parts.settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request in, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = _request_id(scope)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message.get("headers", ()))
                present = {name for name, _ in headers}
                headers += [header for header in SECURITY_HEADERS if header[0] not in present]
                headers.append((b"x-request-id", request_id.encode()))
                message = {**message, "headers": headers}
            await send(message)

        try:
            receive = await self._admit(scope, receive)
            await self._app(scope, receive, sending)
        except Exception as error:  # noqa: BLE001 - the outermost frame: answered, logged, never raised into the server
            problem = problem_of(error)
            if problem.status_code >= 500 and not isinstance(error, Problem):
                emit(ApiFailed(request_id=request_id, method=scope["method"], path=scope["path"], error=error))
            if status == 0:
                await respond(problem, instance=scope["path"], request_id=request_id)(scope, receive, sending)
        finally:
            route = scope.get("route")
            emit(
                ApiRequest(
                    request_id=request_id,
                    method=scope["method"],
                    route=getattr(route, "path", "") or "none",
                    status=status,
                    seconds=time.perf_counter() - started,
                )
            )

    async def _admit(self, scope: Scope, receive: Receive) -> Receive:
        """Check what can be checked before the body is read. Returns the bounded receive."""
        path: str = scope["path"]
        if "\x00" in path or b"%00" in scope["query_string"]:
            raise Problem(400, "the address holds the character NUL (%00), which no name can hold")
        is_bulk = path == BULK_PATH
        limit = self._settings.max_bulk_bytes if is_bulk else self._settings.max_body_bytes
        if path.startswith("/v1/") or path == "/v1":
            text = bearer(scope)
            principal = await self._keys.principal(text)
            if principal is None:
                raise Unauthenticated(
                    "the key is not known, or was revoked", hint="ask an admin of your tenant for a new key"
                )
            scope["state"]["principal"] = principal
            check_head(scope, max_bytes=limit, media_types=NDJSON_TYPES if is_bulk else JSON_TYPES)
        return bounded(receive, limit)


def _request_id(scope: Scope) -> str:
    """The caller's X-Request-Id, else the trace id of its traceparent, else a new one."""
    trace = ""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(text := value.decode("latin-1")):
            return str(text)
        if name == b"traceparent" and (found := _TRACEPARENT.fullmatch(value.decode("latin-1"))):
            trace = found[1]
    return trace or secrets.token_hex(16)
