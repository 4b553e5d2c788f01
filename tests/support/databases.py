"""Fresh databases for tests: one shared server, a copy of the migrated template for each test that asks."""

import asyncio
import contextlib
import fcntl
import itertools
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import asyncpg

SERVER_PROGRAM = Path(__file__).with_name("database_server.py")
TEMPLATE = "rota_template"
RUN_DIR_VARIABLE = "ROTA_TEST_RUN"
START_WITHIN_S = 90.0


def memory_folder() -> str | None:
    """A folder in memory with room for the run (a database is copied in 0.02 s there, not 0.2 s), or None."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= 3 * 2**30
    return str(memory) if roomy else None


class Run:
    """The folder of one test run, made by pytest's first process and found by the others through the environment."""

    def __init__(self) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="rota-tests-", dir=memory_folder()))
        os.mkfifo(self.dir / "lifeline")
        self._lifeline = os.open(self.dir / "lifeline", os.O_RDWR | os.O_CLOEXEC)
        os.environ[RUN_DIR_VARIABLE] = str(self.dir)

    def end(self) -> None:
        """Let go of the server and wait until it is gone."""
        os.close(self._lifeline)
        os.environ.pop(RUN_DIR_VARIABLE, None)
        with contextlib.suppress(FileNotFoundError), (self.dir / "alive").open() as alive:
            give_up_at = time.monotonic() + 30
            while time.monotonic() < give_up_at:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(0.01)
        shutil.rmtree(self.dir, ignore_errors=True)


def shared_server(run_dir: Path) -> str:
    """The dsn of the run's server; the first to ask starts it."""
    with (run_dir / "starting").open("a+") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        if not (run_dir / "log").exists():
            _spawn(run_dir)
    give_up_at = time.monotonic() + START_WITHIN_S
    while time.monotonic() < give_up_at:
        if (run_dir / "dsn").exists():
            return (run_dir / "dsn").read_text()
        if (run_dir / "error").exists():
            raise RuntimeError("the tests' database server did not start:\n" + (run_dir / "error").read_text())
        time.sleep(0.01)
    raise RuntimeError("the tests' database server did not start in time:\n" + (run_dir / "log").read_text())


def _spawn(run_dir: Path) -> None:
    """Start the server detached: it belongs to the run, not to the worker that happened to be first."""
    log = os.open(run_dir / "log", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    actions = [(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
    command = [sys.executable, str(SERVER_PROGRAM), str(run_dir)]
    os.posix_spawn(sys.executable, command, os.environ, file_actions=actions, setsid=True)
    os.close(log)


class Databases:
    """Makes and drops databases over one connection, on a loop in a thread of its own, so that any test may ask."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._numbers = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test-databases", daemon=True)
        self._thread.start()
        self._connection: asyncpg.Connection = self._do(asyncpg.connect(dsn))

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    @contextlib.contextmanager
    def fresh(self, template: str = TEMPLATE) -> Iterator[str]:
        """The dsn of a new copy of the template; dropped on leaving, whoever is still connected."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self._do(self._connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY"))
        try:
            yield self._dsn.replace("/rota?", f"/{name}?")
        finally:
            self._do(self._connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))

    def close(self) -> None:
        """End the connection and the thread."""
        self._do(self._connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
