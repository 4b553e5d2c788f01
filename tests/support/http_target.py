"""A scripted HTTP server to aim schedules at: it records every request and answers, per path, as told."""

import asyncio
import json
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web
from multidict import CIMultiDictProxy

from support.waiting import eventually


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request: `at` is Unix time of its arrival, `headers` look up without regard to case."""

    at: float
    method: str
    path: str
    query: Mapping[str, str]
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def key(self) -> str:
        """The Idempotency-Key, which is the run key."""
        return self.headers["Idempotency-Key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer. `chunks` are streamed with `gap_s` between them; `hang` never answers; `drop` cuts the connection."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    chunks: tuple[bytes, ...] = ()
    gap_s: float = 0.0
    hang: bool = False
    drop: bool = False


OK = Reply()


class HttpTarget:
    """The server; `async with` starts and stops it. A path that was told nothing answers 200 with no body."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.url = ""
        self.n_open = 0
        self.n_open_most = 0
        self._next: dict[str, deque[Reply]] = defaultdict(deque)
        self._then: dict[str, Reply | Callable[[Received], Reply]] = {}
        self._closing = asyncio.Event()
        self._runner: web.ServerRunner | None = None

    def tell(self, path: str, *replies: Reply, then: Reply | Callable[[Received], Reply] = OK) -> str:
        """Answer on `path` with these in turn, and with `then` (a reply, or a function of the request) ever after.

        Returns the path's URL.
        """
        self._next[path] = deque(replies)
        self._then[path] = then
        return self.url + path

    def on(self, path: str) -> list[Received]:
        """The requests to one path, in order of arrival."""
        return [request for request in self.requests if request.path == path]

    async def receives(self, n: int, path: str | None = None, within: float = 30.0) -> list[Received]:
        """Wait for at least `n` requests (to `path`) and return all of them."""

        def enough() -> list[Received] | None:
            found = self.requests if path is None else self.on(path)
            return list(found) if len(found) >= n else None

        return await eventually(enough, within) or []

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        assert self._runner is not None
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        at = time.time()
        self.n_open += 1
        self.n_open_most = max(self.n_open_most, self.n_open)
        try:
            received = Received(
                at=at,
                method=request.method,
                path=request.path,
                query=dict(request.query),
                headers=request.headers,
                body=await request.read(),
            )
            self.requests.append(received)
            return await self._answer(request, self._choose(received))
        finally:
            self.n_open -= 1

    def _choose(self, received: Received) -> Reply:
        if self._next[received.path]:
            return self._next[received.path].popleft()
        then = self._then.get(received.path, OK)
        return then if isinstance(then, Reply) else then(received)

    async def _answer(self, request: web.BaseRequest, reply: Reply) -> web.StreamResponse:
        if reply.hang:
            await self._closing.wait()
        if reply.delay_s:
            await self._pause(reply.delay_s)
        if reply.drop or reply.hang:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)
        if not reply.chunks:
            return web.Response(status=reply.status, body=reply.body, headers=reply.headers)
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        await response.prepare(request)
        for chunk in reply.chunks:
            await response.write(chunk)
            await self._pause(reply.gap_s)
        await response.write_eof()
        return response

    async def _pause(self, seconds: float) -> None:
        """Take that long, unless the test ends before."""
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            pass
