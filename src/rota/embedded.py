"""One PostgreSQL 18 server for one data folder, out of a wheel: what `rota dev` and the tests run on.

Promises:
- the server is gone when its owner is gone, however the owner ended (see `embedded_guard`);
- one data folder has one owner at a time: a second one is refused and told the pid of the first;
- root is dropped: the server runs as the owner of an existing database, else as `postgres`, else as `nobody`.
  Nothing is made readable for that: the server gets the opened folder handed over, not its path;
- it listens on a Unix socket in a private folder only, and nowhere on the network.

Failure by failure. Owner killed: the guard stops the server, and the next start waits for that. Guard killed: Linux
stops the server. All killed at once, or power lost: the next start removes the stale `postmaster.pid`, and PostgreSQL
recovers from its log. Killed within the first start: `pg.new` is thrown away and made again.

The lock is an flock on an open file that owner, guard and every server process share. So it is free exactly when none
of them is left, which no pid file can promise.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from rota import embedded_guard
from rota.embedded_programs import (
    ENVIRONMENT,
    Account,
    EmbeddedPostgresError,
    choose_account,
    find_programs,
    opened,
)

SUPERUSER: Final = "rota"
DATABASE: Final = "rota"

SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0777",  # the folder around it is private; one opened on purpose should be enough
    "cluster_name": "rota",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "max_locks_per_transaction": "256",  # day partitions, each with its indexes
    "jit": "off",  # short statements: compiling costs more than it saves
    "random_page_cost": "1.1",
    "synchronous_commit": "on",
    "wal_level": "minimal",  # no replica hangs on an embedded server
    "max_wal_senders": "0",
    "wal_compression": "on",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "autovacuum_naptime": "15s",
    "log_checkpoints": "off",
    "log_timezone": "UTC",
    "TimeZone": "UTC",
}
NOT_DURABLE: Final[Mapping[str, str]] = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}

_OWNER_GONE_PATIENCE_S = 60.0  # how long a dead owner's server may take to shut down before we give up
_LOG_BYTES = 16 * 1024 * 1024


class DataFolderInUseError(EmbeddedPostgresError):
    """Another process owns the data folder; `pid` is that process."""

    default_code = "data_folder_in_use"

    def __init__(self, data_dir: Path, pid: int) -> None:
        self.pid = pid
        super().__init__(
            f"data folder {data_dir} is in use by process {pid}",
            hint="stop that process, or choose another data folder",
        )


class EmbeddedPostgres:
    """One server on one data folder; `async with` starts and stops it, and `dsn` says how to connect.

    `settings` are added to, or replace, those in `SETTINGS`. `durable=False` trades crash safety for speed and is for
    tests only. `start` raises DataFolderInUseError or EmbeddedPostgresError.
    """

    def __init__(self, data_dir: Path, *, settings: Mapping[str, str] | None = None, durable: bool = True) -> None:
        self._dir = data_dir.expanduser().absolute()
        self._settings = {**SETTINGS, **({} if durable else NOT_DURABLE), **(settings or {})}
        self._durable = durable
        self._guard: subprocess.Popen[bytes] | None = None
        self._dsn = ""

    @property
    def dsn(self) -> str:
        """Where to connect, as the superuser of the database `rota`; empty while not started."""
        return self._dsn

    @property
    def log(self) -> Path:
        """The server's own log."""
        return self._dir / "postgres.log"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> str:
        """Start the server, the first time with a new database, and return the dsn once it accepts connections."""
        starting = asyncio.ensure_future(asyncio.to_thread(self._start))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            with contextlib.suppress(EmbeddedPostgresError):
                await starting  # a thread cannot be cancelled: let it end, then undo it
            await self.stop()
            raise

    async def stop(self) -> None:
        """Shut the server down and wait for it; harmless when it is not running."""
        guard, self._guard, self._dsn = self._guard, None, ""
        if guard is not None:
            await asyncio.shield(asyncio.to_thread(_close, guard))

    def _start(self) -> str:
        if self._guard is not None:
            raise EmbeddedPostgresError(f"the embedded server on {self._dir} is already started")
        self._dir.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
        with _locked(self._dir) as lock:
            account = choose_account(self._dir / "pg")
            programs = find_programs(account)
            if not (self._dir / "pg" / "PG_VERSION").exists():
                self._create(account, programs, lock.fileno())
            _clear_stale(self._dir / "pg" / "postmaster.pid")
            _rotate(self.log)
            socket_dir = Path(tempfile.mkdtemp(prefix="rota-"))  # short: a socket's path has about 100 bytes
            account.own(socket_dir)
            dsn = f"postgresql://{SUPERUSER}@/{DATABASE}?host={socket_dir}&port=5432"
            self._guard = self._launch(account, programs, lock.fileno(), socket_dir)
            _write_owner(lock, {"pid": str(os.getpid()), "dsn": dsn, "socket_dir": str(socket_dir)})
        self._dsn = dsn
        return dsn

    def _create(self, account: Account, programs: Path, lock: int) -> None:
        """Make the database beside its place and move it there when whole."""
        new = self._dir / "pg.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        account.own(new)
        with opened(new, account) as (path, fds):
            initdb = [str(programs / "initdb"), "-D", path, "-U", SUPERUSER, "--auth-local=trust", "--auth-host=reject"]
            # The built-in provider sorts the same on every machine, whatever its locales.
            initdb += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
            account.run(initdb + ([] if self._durable else ["--no-sync"]), (lock, *fds))
            single = [str(programs / "postgres"), "--single", "-D", path, "-c", "log_checkpoints=off"]
            single += [] if self._durable else ["-c", "fsync=off"]
            account.run([*single, "postgres"], (lock, *fds), f"CREATE DATABASE {DATABASE}\n")
        new.rename(self._dir / "pg")
        fd = os.open(self._dir, os.O_RDONLY)  # a lost rename would lose the database at the next start
        os.fsync(fd)
        os.close(fd)

    def _launch(self, account: Account, programs: Path, lock: int, socket_dir: Path) -> subprocess.Popen[bytes]:
        """Start guard and server and wait until the server is ready."""
        with opened(self._dir / "pg", account) as (path, fds):
            settings = {**self._settings, "unix_socket_directories": str(socket_dir)}
            options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
            order = embedded_guard.Order(
                command=[str(programs / "postgres"), "-D", path, "-p", "5432", *options],
                environment=ENVIRONMENT,
                postmaster_pid=str(self._dir / "pg" / "postmaster.pid"),
                log=str(self.log),
                socket_dir=str(socket_dir),
                user=account.user,
                group=account.group,
                keep_fds=[lock, *fds],
                stop_within_s=60.0,
            )
            guard = subprocess.Popen(
                [sys.executable, "-I", "-S", embedded_guard.__file__, json.dumps(asdict(order))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd="/",
                pass_fds=(lock, *fds),
                start_new_session=True,  # Ctrl-C is for us; the server is stopped after its clients
            )
        if guard.stdout is None or guard.stdout.readline() != b"ready\n":
            _close(guard)
            words = "\n".join(self.log.read_text(errors="replace").splitlines()[-8:])
            raise EmbeddedPostgresError(f"PostgreSQL did not start on {self._dir}; the end of {self.log}:\n{words}")
        return guard


def running_dsn(data_dir: Path) -> str | None:
    """The dsn of the server that runs on this data folder now, for a second process that only wants to connect."""
    try:
        with (data_dir.expanduser().absolute() / "lock").open("r+") as lock:
            if _try_lock(lock):
                return None
            return _read_owner(lock).get("dsn")
    except FileNotFoundError:
        return None


def _close(guard: subprocess.Popen[bytes]) -> None:
    """Let go of the guard's lifeline and wait until it has stopped the server."""
    if guard.stdin is not None:
        guard.stdin.close()
    guard.wait()
    if guard.stdout is not None:
        guard.stdout.close()


@contextlib.contextmanager
def _locked(data_dir: Path) -> Iterator[IO[str]]:
    """Own the data folder. The lock lives on in whoever inherited the file, so leaving the block does not free it."""
    with os.fdopen(os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+") as lock:
        give_up_at = time.monotonic() + _OWNER_GONE_PATIENCE_S
        while not _try_lock(lock):
            pid = int(_read_owner(lock).get("pid") or "0")
            if _is_alive(pid) or time.monotonic() > give_up_at:
                raise DataFolderInUseError(data_dir, pid)
            time.sleep(0.02)  # its owner is dead, its server is on the way out
        before = _read_owner(lock).get("socket_dir")
        if before:
            shutil.rmtree(before, ignore_errors=True)
        _write_owner(lock, {"pid": str(os.getpid())})
        yield lock


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_owner(lock: IO[str]) -> dict[str, str]:
    """What the owner wrote; empty when it is just being written."""
    lock.seek(0)
    with contextlib.suppress(json.JSONDecodeError):
        return {str(name): str(value) for name, value in json.load(lock).items()}
    return {}


def _write_owner(lock: IO[str], owner: Mapping[str, str]) -> None:
    lock.seek(0)
    lock.truncate()
    json.dump(owner, lock)
    lock.flush()


def _is_alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _clear_stale(pid_file: Path) -> None:
    """Remove the pid file of a server that was killed with all its keepers.

    We hold the lock, so no server of ours runs; PostgreSQL itself would refuse to start if some unrelated process has
    got that pid since (a container's pids start small every time). A server started past us by hand is left its file.
    """
    with contextlib.suppress(FileNotFoundError, ValueError, IndexError):
        pid = int(pid_file.read_text().splitlines()[0])
        command = Path(f"/proc/{pid}/comm")
        if not _is_alive(pid) or (command.exists() and command.read_text().strip() != "postgres"):
            pid_file.unlink()


def _rotate(log: Path) -> None:
    """Keep one older log, so that a long-lived data folder does not grow by its log."""
    if log.exists() and log.stat().st_size > _LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
