"""The one file that imports the driver: pool, transactions, named statements, and what to do when a link dies.

Pooled connections hold no state (no SET, LISTEN or session lock outlives a transaction), so they are not reset when
they come back, and transaction-level poolers may stand in between. A read-only or broken connection is thrown away.
JSON columns come and go as text (see `rota.base.json`).
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import asyncpg
import structlog

from rota.base.errors import DatabaseUnavailable
from rota.base.queries import Queries, Query, load_queries

__all__ = ["Database", "Executor", "LockTimeout", "Queries", "Query", "Row", "Transaction", "load_queries"]

Row: TypeAlias = asyncpg.Record
# A lock was not to be had within the lock_timeout that the statement's own transaction has set.
LockTimeout: TypeAlias = asyncpg.LockNotAvailableError
T = TypeVar("T")

_log = structlog.get_logger("rota.db")
_FIRST_WAIT_S, _MOST_WAIT_S = 0.1, 5.0
_RETRIED_AT_ONCE = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
# The connection is of no use any more, whatever it was doing.
_BROKEN = (
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    ConnectionError,
    OSError,
)
_UNREACHABLE = (
    *_BROKEN,
    asyncpg.TooManyConnectionsError,
    TimeoutError,
)


class Executor(Protocol):
    """What runs statements: a transaction, or the database itself with a transaction for each."""

    async def fetch(self, query: Query, *args: object) -> list[Row]:
        """All rows."""
        ...

    async def fetch_row(self, query: Query, *args: object) -> Row | None:
        """The first row, or None."""
        ...

    async def fetch_value(self, query: Query, *args: object) -> Any:
        """The first column of the first row, or None."""
        ...

    async def execute(self, query: Query, *args: object) -> int:
        """The number of rows the statement touched."""
        ...


class Transaction:
    """One open transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, query: Query, *args: object) -> list[Row]:
        """All rows."""
        rows: list[Row] = await self._connection.fetch(query.text, *args)
        return rows

    async def fetch_row(self, query: Query, *args: object) -> Row | None:
        """The first row, or None."""
        row: Row | None = await self._connection.fetchrow(query.text, *args)
        return row

    async def fetch_value(self, query: Query, *args: object) -> Any:
        """The first column of the first row, or None."""
        return await self._connection.fetchval(query.text, *args)

    async def execute(self, query: Query, *args: object) -> int:
        """The number of rows the statement touched."""
        return _row_count(await self._connection.execute(query.text, *args))

    async def stream(self, query: Query, *args: object, prefetch: int = 1000) -> AsyncIterator[Row]:
        """The rows one by one, `prefetch` of them in memory."""
        async for row in self._connection.cursor(query.text, *args, prefetch=prefetch):
            yield row

    async def copy_records(self, table: str, columns: Sequence[str], records: Iterable[Sequence[object]]) -> int:
        """COPY rows into a table; the number of rows."""
        done = await self._connection.copy_records_to_table(table, columns=list(columns), records=records)
        return _row_count(done)


class Database:
    """A pool of connections to one cell's database."""

    def __init__(self, pool: Any, dsn: str) -> None:
        self._pool = pool
        self.dsn = dsn

    @classmethod
    async def connect(
        cls,
        dsn: str,
        *,
        min_size: int = 1,
        max_size: int = 10,
        statement_cache: bool = True,
        application_name: str = "rota",
        wait_s: float | None = None,
        command_timeout_s: float = 60.0,
    ) -> Self:
        """Open the pool. While the database is not there yet, says so once in a while and tries again.

        `wait_s` bounds that (None: for ever); DatabaseUnavailable afterwards. `statement_cache=False` for poolers that
        do not carry prepared statements from one transaction to the next.
        """
        loop = asyncio.get_running_loop()
        give_up_at = None if wait_s is None else loop.time() + wait_s
        wait = _FIRST_WAIT_S
        while True:
            pool: Any = asyncpg.create_pool(
                dsn,
                min_size=min_size,
                max_size=max_size,
                connection_class=_Connection,
                statement_cache_size=1000 if statement_cache else 0,
                max_inactive_connection_lifetime=300,
                command_timeout=command_timeout_s,
                timeout=10,
                server_settings={"application_name": application_name, "TimeZone": "UTC"},
            )
            try:
                await pool
                return cls(pool, dsn)
            except (*_UNREACHABLE, asyncpg.InvalidCatalogNameError) as error:
                pool.terminate()
                if give_up_at is not None and loop.time() + wait > give_up_at:
                    raise DatabaseUnavailable(
                        f"cannot connect to the database: {error}",
                        hint="check ROTA_DATABASE_URL and that PostgreSQL runs",
                    ) from error
                _log.warning("database.waiting", error=str(error), retry_s=round(wait, 2))
            await asyncio.sleep(random.uniform(wait / 2, wait))  # noqa: S311
            wait = min(wait * 2, _MOST_WAIT_S)

    async def close(self, *, within_s: float = 5.0) -> None:
        """Close the pool; what still runs after `within_s` is cut off."""
        try:
            async with asyncio.timeout(within_s):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    @asynccontextmanager
    async def transaction(self, *, isolation: str | None = None, read_only: bool = False) -> AsyncIterator[Transaction]:
        """A transaction: committed at the end of the block, rolled back when the block raises.

        Raises DatabaseUnavailable when no working, writable connection is to be had; the failed one is thrown away.
        """
        connection = await self._acquire()
        is_broken = False
        try:
            async with connection.transaction(isolation=isolation, readonly=read_only):
                yield Transaction(connection)
        except _BROKEN as error:
            is_broken = True
            raise DatabaseUnavailable(f"lost the database: {type(error).__name__}: {error}") from error
        finally:
            await self._release(connection, is_broken)

    async def fetch(self, query: Query, *args: object) -> list[Row]:
        """All rows of one statement in a transaction of its own."""
        return await self._once(lambda tx: tx.fetch(query, *args))

    async def fetch_row(self, query: Query, *args: object) -> Row | None:
        """The first row, or None."""
        return await self._once(lambda tx: tx.fetch_row(query, *args))

    async def fetch_value(self, query: Query, *args: object) -> Any:
        """The first column of the first row, or None."""
        return await self._once(lambda tx: tx.fetch_value(query, *args))

    async def execute(self, query: Query, *args: object) -> int:
        """The number of rows the statement touched."""
        return await self._once(lambda tx: tx.execute(query, *args))

    async def run(self, work: Callable[[Transaction], Awaitable[T]], *, retries: int = 5) -> T:
        """`work` in a transaction, again from the start when it lost a race (40001, 40P01) and only then."""
        for number in range(retries + 1):
            try:
                async with self.transaction() as tx:
                    return await work(tx)
            except _RETRIED_AT_ONCE:
                if number == retries:
                    raise
                await asyncio.sleep(random.uniform(0, 0.01 * 2**number))  # noqa: S311
        raise AssertionError("the last try returns or raises")

    async def _once(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        connection = await self._acquire()
        is_broken = False
        try:
            return await work(Transaction(connection))
        except _BROKEN as error:
            is_broken = True
            raise DatabaseUnavailable(f"lost the database: {type(error).__name__}: {error}") from error
        finally:
            await self._release(connection, is_broken)

    async def _acquire(self) -> Any:
        try:
            return await self._pool.acquire(timeout=15)
        except _UNREACHABLE as error:
            raise DatabaseUnavailable(f"cannot reach the database: {type(error).__name__}: {error}") from error

    async def _release(self, connection: Any, is_broken: bool) -> None:
        # A connection that died is taken back by the pool itself: letting go of it must not fail.
        with contextlib.suppress(asyncpg.InterfaceError):
            if is_broken:
                connection.terminate()
        with contextlib.suppress(asyncpg.InterfaceError, OSError):
            await asyncio.shield(self._pool.release(connection))


class _Connection(asyncpg.Connection):
    """A pooled connection that is not reset between uses: it never holds state."""

    def get_reset_query(self) -> str:
        """Nothing to reset; sending nothing saves a round trip for every use."""
        return ""


def _row_count(status: str) -> int:
    """The count at the end of a command tag such as `INSERT 0 5`."""
    last = status.rpartition(" ")[2]
    return int(last) if last.isdigit() else 0
