"""The HTTP server as a service of a process: it listens, serves until told, and ends after the requests it holds."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from rota.base.errors import ConfigError
from rota.base.service import Service
from rota.web.door import Door

KEEP_ALIVE_S = 75
BACKLOG = 2048
TICK_S = 1.0


class _Uvicorn(uvicorn.Server):
    """A server that leaves signals to the process around it, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self.listens.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


class Server(Service):
    """Listens from `start` on. `drain` takes no new requests and waits for those that are being answered."""

    name = "api"

    def __init__(self, app: Door, *, host: str, port: int, drain_s: float = 10.0) -> None:
        self._app = app
        self._host = host
        self._port = port
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=max(1, round(drain_s)),
        )
        self._server = _Uvicorn(config)
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where it listens, with the port it really has when 0 was asked for."""
        host = "127.0.0.1" if self._host in ("", "0.0.0.0") else self._host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._port if self._socket is None else int(self._socket.getsockname()[1])

    async def start(self) -> None:
        """Bind and begin to serve; a second call changes nothing. ConfigError when the address cannot be had."""
        if self._task is not None:
            return
        bound = self._bind()
        self._task = asyncio.create_task(self._server.serve(sockets=[bound]), name="http-server")
        listens = asyncio.ensure_future(self._server.listens.wait())
        await asyncio.wait([self._task, listens], return_when=asyncio.FIRST_COMPLETED)
        listens.cancel()
        if self._task.done():
            self._task.result()

    def _bind(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        # The protocol is named, or the event loop would not know to send small answers at once.
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((self._host, self._port))
        except OSError as error:
            made.close()
            raise ConfigError(
                f"cannot listen on {self._host}:{self._port}: {error.strerror}", hint="choose another one with --port"
            ) from error
        self._socket = made
        return made

    async def tick(self) -> float:
        """See that it still serves."""
        if self._task is not None and self._task.done() and not self._server.should_exit:
            self._task.result()
            raise RuntimeError("the HTTP server ended by itself")
        return TICK_S

    async def drain(self) -> None:
        """Take nothing new, answer what was taken; readiness says so meanwhile."""
        self._app.parts.health.is_draining = True
        self._server.should_exit = True
        if self._task is not None:
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """Drain, at the latest when the drain time is over. May be called twice."""
        await self.drain()
