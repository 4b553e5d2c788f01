"""Connections that die, turn read-only, or cannot be had."""

import asyncio

import asyncpg
import pytest

from rota.base.db import Database, Query
from rota.base.errors import DatabaseUnavailable
from support.waiting import eventually

ONE = Query("one", "SELECT 1", ())
PID = Query("pid", "SELECT pg_backend_pid()", ())
WRITE = Query("write", "INSERT INTO duties (duty) VALUES ('x') ON CONFLICT DO NOTHING", ())


async def test_a_killed_connection_is_replaced_and_the_next_statement_works(
    database: Database, connection: asyncpg.Connection
) -> None:
    pid = await database.fetch_value(PID)
    await connection.execute("SELECT pg_terminate_backend($1)", pid)

    async def works() -> bool:
        try:
            return bool(await database.fetch_value(ONE))
        except DatabaseUnavailable:
            return False

    assert await eventually(works)
    assert await database.fetch_value(PID) != pid


async def test_a_transaction_cut_off_in_the_middle_is_told_and_leaves_nothing(
    database: Database, connection: asyncpg.Connection
) -> None:
    with pytest.raises(DatabaseUnavailable):
        async with database.transaction() as tx:
            await tx.execute(WRITE)
            await connection.execute("SELECT pg_terminate_backend($1)", await tx.fetch_value(PID))
            await tx.fetch_value(ONE)
    assert await connection.fetchval("SELECT count(*) FROM duties WHERE duty = 'x'") == 0


async def test_a_read_only_database_is_told_and_writes_work_again_once_it_is_not(
    dsn: str, connection: asyncpg.Connection
) -> None:
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    db = await Database.connect(dsn, min_size=1, max_size=2)
    with pytest.raises(DatabaseUnavailable):
        await db.execute(WRITE)
    await connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = off')

    async def writes() -> bool:
        try:
            return await db.execute(WRITE) == 1
        except DatabaseUnavailable:
            return False

    assert await eventually(writes)
    await db.close()


async def test_start_up_waits_for_a_database_that_is_not_there_and_gives_up_in_time() -> None:
    with pytest.raises(DatabaseUnavailable, match="cannot connect"):
        await Database.connect("postgresql://rota@127.0.0.1:1/none", wait_s=0.3)


async def test_a_lost_race_is_run_again_from_the_start(database: Database, connection: asyncpg.Connection) -> None:
    await connection.execute("CREATE TABLE counters (id integer PRIMARY KEY, n integer)")
    await connection.execute("INSERT INTO counters VALUES (1, 0)")
    read = Query("read", "SELECT n FROM counters WHERE id = 1", ())
    write = Query("write", "UPDATE counters SET n = $1 WHERE id = 1", ("n",))

    async def add_one() -> None:
        for _ in range(50):
            try:
                async with database.transaction(isolation="serializable") as tx:
                    await tx.execute(write, await tx.fetch_value(read) + 1)
                    return
            except asyncpg.SerializationError:
                continue

    await asyncio.gather(*(add_one() for _ in range(4)))
    assert await connection.fetchval("SELECT n FROM counters") == 4


async def test_nothing_is_left_in_a_pooled_connection(database: Database) -> None:
    setting = Query("set", "SELECT set_config('lock_timeout', '1s', true)", ())
    shown = Query("show", "SELECT current_setting('lock_timeout')", ())
    async with database.transaction() as tx:
        await tx.fetch_value(setting)
    assert await database.fetch_value(shown) == "0"
