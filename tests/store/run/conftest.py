"""A cell with workers, on a real database."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from rota.base.db import Database
from support.running import Running


@pytest.fixture
async def running(database: Database, connection: asyncpg.Connection) -> AsyncIterator[Running]:
    made = Running(database, connection)
    await connection.execute("INSERT INTO tenants (tenant_id, name) VALUES (1, 'acme'), (2, 'other')")
    yield made
    await made.close()
