"""A real HTTP server over a fresh database for each test, and tenants with keys to call it with."""

from collections.abc import AsyncIterator

import pytest

from rota.base.db import Database
from rota.base.settings import Settings
from rota.web.app import create_app
from rota.web.server import Server
from support.api import Api


@pytest.fixture
def api_settings() -> Settings:
    """The settings of the server; a test file may replace them."""
    return Settings(node="test-node", max_body_bytes=65_536, allow_private_targets=True)


@pytest.fixture
async def api(database: Database, api_settings: Settings) -> AsyncIterator[Api]:
    """The served API, called with the key of a tenant named acme that may do everything."""
    server = Server(await create_app(database, api_settings), host="127.0.0.1", port=0, drain_s=1)
    await server.start()
    try:
        async with Api(server.url, database) as made:
            await made.sign_up("acme")
            yield made
    finally:
        await server.stop()


@pytest.fixture
async def second_api(api: Api, database: Database, api_settings: Settings) -> AsyncIterator[Api]:
    """A second API node of the same cell."""
    server = Server(await create_app(database, api_settings), host="127.0.0.1", port=0, drain_s=1)
    await server.start()
    try:
        async with Api(server.url, database) as made:
            yield made
    finally:
        await server.stop()
