"""Where a command finds the cell: its HTTP API for what tenants do, its database for what operators do.

API: `ROTA_URL` and `ROTA_API_KEY`, else the `rota dev` that runs for this user.
Database: `ROTA_DATABASE_URL` (or `database_url` in rota.toml), else the database of that `rota dev`.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rota.base.db import Database
from rota.base.settings import Settings
from rota.cli.output import fail
from rota.client import Client
from rota.dev_registry import running

DEFAULT_URL = "http://127.0.0.1:8080"


def api() -> Client:
    """A client of the HTTP API. Leaves with a hint when no key is to be found."""
    url = os.environ.get("ROTA_URL")
    key = os.environ.get("ROTA_API_KEY") or os.environ.get("ROTA_DEV_KEY")
    if url is None or key is None:
        dev = running()
        if dev is not None:
            url, key = url or dev.url, key or dev.key
    if key is None:
        fail(
            "no API key: set ROTA_API_KEY (and ROTA_URL), or start `rota dev` first",
            hint="an operator makes keys with `rota tenant create NAME` and `rota key create`",
        )
    return Client(url or DEFAULT_URL, key)


def database_dsn() -> str:
    """The dsn of the cell's database. Leaves with a hint when there is none."""
    settings = Settings.load()
    if settings.database_url:
        return settings.database_url
    dev = running()
    if dev is None:
        fail(
            "no database: set ROTA_DATABASE_URL to your PostgreSQL, or start `rota dev` first",
            hint="for example ROTA_DATABASE_URL=postgresql://rota@localhost/rota",
        )
    return dev.dsn


@asynccontextmanager
async def database(*, max_size: int = 4) -> AsyncIterator[Database]:
    """A few connections to the cell's database, closed at the end."""
    db = await Database.connect(database_dsn(), min_size=1, max_size=max_size, application_name="rota-cli")
    try:
        yield db
    finally:
        await db.close()
