"""Forward-only schema migrations: numbered files, one transaction each, safe to run from several nodes at once."""

import asyncio
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from rota.base.db import Database, Executor, Query, load_queries
from rota.base.errors import DatabaseUnavailable, SchemaTooNew, SchemaTooOld

_QUERIES = load_queries(__file__, "migrations.sql")
_FILE = re.compile(r"^([0-9]{4})_([a-z0-9_]+)\.sql$")
_LOCK_TRIES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One file of the schema."""

    number: int
    name: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaStatus:
    """What the database has and what is left to do."""

    applied: tuple[str, ...]
    pending: tuple[str, ...]
    newest_known: int
    newest_applied: int


def known_migrations() -> list[Migration]:
    """The migrations this program knows, in order."""
    found = []
    for path in sorted((Path(__file__).parent / "schema").iterdir()):
        match = _FILE.match(path.name)
        if match:
            found.append(Migration(number=int(match[1]), name=match[2], path=path))
    return found


async def migrate(dsn: str, *, on_progress: Callable[[str], None] | None = None) -> list[str]:
    """Bring the schema up to this program; returns the names of what was applied.

    Each file is one transaction with its own record, so a killed migrator leaves a whole number of files applied.
    Locks are waited for one second at a time. Raises SchemaTooNew when the database is ahead of this program.
    """
    db = await Database.connect(dsn, max_size=1, application_name="rota-migrate", command_timeout_s=3600)
    done: list[str] = []
    try:
        for migration in known_migrations():
            if await _apply(db, migration):
                done.append(f"{migration.number:04d}_{migration.name}")
                if on_progress is not None:
                    on_progress(done[-1])
    finally:
        await db.close()
    return done


async def schema_status(db: Executor) -> SchemaStatus:
    """What is applied and what is pending."""
    known = known_migrations()
    applied: dict[int, str] = {}
    if await db.fetch_value(_QUERIES["migration_table_exists"]):
        applied = {row["number"]: row["name"] for row in await db.fetch(_QUERIES["migration_list"])}
    return SchemaStatus(
        applied=tuple(f"{number:04d}_{name}" for number, name in applied.items()),
        pending=tuple(f"{m.number:04d}_{m.name}" for m in known if m.number not in applied),
        newest_known=known[-1].number,
        newest_applied=max(applied, default=0),
    )


async def require_current_schema(db: Executor) -> None:
    """Raise SchemaTooNew or SchemaTooOld unless the schema is this program's."""
    status = await schema_status(db)
    _refuse_newer(status.newest_applied, status.newest_known)
    if status.pending:
        raise SchemaTooOld(
            f"the database lacks {len(status.pending)} migrations, the first is {status.pending[0]}",
            hint="run `rota migrate`, from one node or several",
        )


async def _apply(db: Database, migration: Migration) -> bool:
    for number in range(_LOCK_TRIES):
        try:
            async with db.transaction() as tx:
                await tx.execute(_QUERIES["migration_lock"])
                await tx.execute(_QUERIES["migration_table_create"])
                applied = {row["number"] for row in await tx.fetch(_QUERIES["migration_list"])}
                _refuse_newer(max(applied, default=0), known_migrations()[-1].number)
                if migration.number in applied:
                    return False
                await tx.fetch(_QUERIES["migration_limits"])
                await tx.execute(Query(migration.name, migration.path.read_text(encoding="utf-8"), ()))
                await tx.execute(_QUERIES["migration_record"], migration.number, migration.name)
                return True
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError, DatabaseUnavailable):
            if number == _LOCK_TRIES - 1:
                raise
        await asyncio.sleep(random.uniform(0.1, 1.0))  # noqa: S311
    return False


def _refuse_newer(applied: int, known: int) -> None:
    if applied > known:
        raise SchemaTooNew(
            f"the database has schema {applied:04d}, this program knows only up to {known:04d}",
            hint="use a program at least as new as the one that migrated it",
        )
