"""The HTTP server as a part of a process: it listens, serves until told, and ends after the requests it holds."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from rota.base.errors import ConfigError

KEEP_ALIVE_S = 75
BACKLOG = 2048


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


class Server:
    """Listens from `start` on; `stop` takes no new requests and waits for those that are being answered."""

    def __init__(self, app: ASGIApp, *, host: str, port: int, drain_s: float = 10.0) -> None:
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
        """Where it listens; the port it really has when 0 was asked for."""
        host = "127.0.0.1" if self._host in ("", "0.0.0.0") else self._host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._port if self._socket is None else int(self._socket.getsockname()[1])

    async def start(self) -> None:
        """Bind and begin to serve. ConfigError when the address is taken or not this machine's."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((self._host, self._port))
        except OSError as error:
            self._socket.close()
            raise ConfigError(
                f"cannot listen on {self._host}:{self._port}: {error.strerror}", hint="choose another one with --port"
            ) from error
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]), name="http-server")
        listens = asyncio.ensure_future(self._server.listens.wait())
        await asyncio.wait([self._task, listens], return_when=asyncio.FIRST_COMPLETED)
        listens.cancel()
        if self._task.done():
            self._task.result()

    async def stop(self) -> None:
        """End after the requests being answered, at the latest when the drain time is over. May be called twice."""
        self._server.should_exit = True
        if self._task is not None:
            await asyncio.wait([self._task])
