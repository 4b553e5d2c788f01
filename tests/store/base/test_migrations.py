"""Migrations from several nodes at once, after a kill, and against a database that is ahead."""

import asyncio
import json

import asyncpg
import pytest

from rota.base.db import Database
from rota.base.errors import SchemaTooNew, SchemaTooOld
from rota.base.migrations import known_migrations, migrate, require_current_schema, schema_status
from support.processes import Processes
from support.waiting import eventually

ALL = [f"{one.number:04d}_{one.name}" for one in known_migrations()]


async def test_several_nodes_at_once_apply_each_file_once(empty_dsn: str, processes: Processes) -> None:
    nodes = [await processes.rota("migrate", "--json", env={"ROTA_DATABASE_URL": empty_dsn}) for _ in range(4)]
    assert [await node.ends() for node in nodes] == [0, 0, 0, 0]
    applied = [name for node in nodes for name in json.loads(node.output[-1])["applied"]]
    assert sorted(applied) == ALL
    assert await migrate(empty_dsn) == []


async def test_a_killed_migrator_leaves_whole_files_and_the_next_one_goes_on(
    empty_dsn: str, processes: Processes
) -> None:
    program = (
        "import asyncio, os, signal, sys\nfrom rota.base.migrations import migrate\n"
        "asyncio.run(migrate(sys.argv[1], on_progress=lambda name: os.kill(os.getpid(), signal.SIGKILL)))"
    )
    killed = await processes.python(program, empty_dsn)
    assert await killed.ends() == -9
    assert await migrate(empty_dsn) == ALL[1:]


async def test_a_migration_waits_for_nobody_for_long(empty_dsn: str) -> None:
    first = await asyncpg.connect(empty_dsn)
    await first.execute("BEGIN; SELECT pg_advisory_xact_lock(7410, 0)")
    waiting = asyncio.create_task(migrate(empty_dsn))
    other = await asyncpg.connect(empty_dsn)

    async def waits() -> bool:
        found = await other.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        return bool(found)

    await eventually(waits)
    await first.execute("ROLLBACK")
    assert await waiting == ALL
    await first.close()
    await other.close()


async def test_an_older_program_refuses_a_newer_schema_in_one_line(dsn: str, processes: Processes) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("INSERT INTO schema_migrations (number, name) VALUES (9999, 'from_the_future')")
    await connection.close()
    with pytest.raises(SchemaTooNew, match="9999"):
        await migrate(dsn)
    for words in (("serve", "--port", "0"), ("migrate",)):
        node = await processes.rota(*words, env={"ROTA_DATABASE_URL": dsn})
        assert await node.ends() == 1
        assert "the database has schema 9999" in node.text
        assert "Traceback" not in node.text


async def test_a_program_refuses_to_serve_an_older_schema_and_says_what_to_do(
    empty_dsn: str, processes: Processes
) -> None:
    node = await processes.rota("serve", "--port", "0", env={"ROTA_DATABASE_URL": empty_dsn})
    assert await node.ends() == 1
    assert "rota migrate" in node.text
    db = await Database.connect(empty_dsn, max_size=1)
    with pytest.raises(SchemaTooOld):
        await require_current_schema(db)
    assert list((await schema_status(db)).pending) == ALL
    await db.close()
