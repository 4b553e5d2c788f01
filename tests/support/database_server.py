"""The one PostgreSQL of a whole test run, as a process of its own: started by the first test that asks, shared by all.

`python database_server.py RUN_DIR` starts the server, makes the migrated template, writes RUN_DIR/dsn (or
RUN_DIR/error) and ends when the last writer of RUN_DIR/lifeline has gone: pytest's first process holds that, so even a
killed test run leaves nothing behind.
"""

import asyncio
import fcntl
import shutil
import sys
import traceback
from pathlib import Path

import asyncpg

from rota.base.migrations import migrate
from rota.embedded import EmbeddedPostgres

TEMPLATE = "rota_template"
SETTINGS = {"max_connections": "300", "shared_buffers": "128MB", "max_wal_size": "256MB", "autovacuum_naptime": "60s"}


def publish(path: Path, text: str) -> None:
    """Write a file that is either absent or whole."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


async def make_template(dsn: str) -> None:
    """Make the migrated database that every test gets a copy of."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(f"CREATE DATABASE {TEMPLATE}")
    finally:
        await connection.close()
    await migrate(dsn.replace("/rota?", f"/{TEMPLATE}?"))


async def serve(run_dir: Path) -> None:
    """Serve until the lifeline closes."""
    async with EmbeddedPostgres(run_dir / "data", settings=SETTINGS, durable=False) as server:
        await make_template(server.dsn)
        publish(run_dir / "dsn", server.dsn)
        await asyncio.to_thread((run_dir / "lifeline").read_bytes)


def main() -> None:
    """Hold RUN_DIR/alive for as long as anything of the server is left."""
    run_dir = Path(sys.argv[1])
    with (run_dir / "alive").open("w") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        try:
            asyncio.run(serve(run_dir))
            shutil.rmtree(run_dir, ignore_errors=True)
        except BaseException:
            publish(run_dir / "error", traceback.format_exc())
            raise


if __name__ == "__main__":
    main()
