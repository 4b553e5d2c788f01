"""A cell on virtual time, at noon of 2026-06-01 unless a test says otherwise."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from rota.base.db import Database
from support.planning import Cell

NOON = "2026-06-01T12:00:00Z"


@pytest.fixture
async def cell(database: Database, connection: asyncpg.Connection) -> AsyncIterator[Cell]:
    made = Cell(database, connection)
    await made.start(NOON)
    yield made
    await made.coordinator.leave()
