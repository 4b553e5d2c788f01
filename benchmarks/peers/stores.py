"""The stores of a run: one embedded PostgreSQL, durable, with a fresh database a measurement; one Redis when needed."""

import asyncio
import contextlib
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from rota.embedded import EmbeddedPostgres


@contextlib.asynccontextmanager
async def postgres(folder: Path) -> AsyncIterator[str]:
    """A server that keeps its promises on a crash; the dsn of its first database, over its Unix socket."""
    async with EmbeddedPostgres(folder, durable=True) as server:
        yield server.dsn


@contextlib.asynccontextmanager
async def database(server: str, name: str) -> AsyncIterator[str]:
    """A database of its own, so that no measurement pays for what the one before left behind."""
    connection = await asyncpg.connect(server)
    try:
        await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await connection.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        await connection.execute("CHECKPOINT")
        try:
            yield urlsplit(server)._replace(path=f"/{name}").geturl()
        finally:
            await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    finally:
        await connection.close()


async def analyze(dsn: str) -> None:
    """Statistics as the autovacuum would have made them by the time a real queue is this long."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("ANALYZE")
    finally:
        await connection.close()


async def version(server: str) -> str:
    """The version of the server, as it says it."""
    connection = await asyncpg.connect(server)
    try:
        return str(await connection.fetchval("SHOW server_version"))
    finally:
        await connection.close()


def has_redis() -> bool:
    """Whether this machine has a Redis server."""
    return shutil.which("redis-server") is not None


@contextlib.contextmanager
def redis(folder: Path, fsync: str) -> Iterator[str]:
    """A fresh Redis on loopback with its log on disk; `fsync` is its appendfsync: everysec or always."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    command += ["--appendonly", "yes", "--appendfsync", fsync, "--loglevel", "warning"]
    with (folder / "redis.log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


async def redis_answers(url: str) -> None:
    """Wait until the server takes connections."""
    where = urlsplit(url)
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(where.hostname, where.port)
                writer.close()
                return
            await asyncio.sleep(0.02)
