"""A database and two tenants for the tests of the catalog."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.base.db import Database
from rota.base.model import Actor
from rota.catalog.tenants import Tenant, create_tenant

ACTOR = Actor(kind="key", id="k1", request_id="req-1", node="node-1")


@pytest.fixture
async def db(dsn: str) -> AsyncIterator[Database]:
    database = await Database.connect(dsn, max_size=6)
    yield database
    await database.close()


@pytest.fixture
async def tenant(db: Database) -> Tenant:
    return await create_tenant(db, "acme", ACTOR)


@pytest.fixture
async def stranger(db: Database) -> Tenant:
    return await create_tenant(db, "other", ACTOR)


@pytest.fixture
def document() -> dict[str, Any]:
    return {
        "name": "daily",
        "timing": {"cron": "0 9 * * *", "time_zone": "America/New_York"},
        "target": {"http": {"url": "https://example.com/hook", "headers": {"Authorization": "Bearer s3cret"}}},
        "payload": {"customer": 123},
    }
