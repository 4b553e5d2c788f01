"""`rota dev`: every role in one process on an embedded PostgreSQL, with a tenant and a key ready to use."""

import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from rota.base.db import Database
from rota.base.errors import NotFound
from rota.base.migrations import migrate
from rota.base.model import Actor
from rota.catalog.keys import create_key
from rota.catalog.tenants import create_tenant, get_tenant_named
from rota.dev_registry import RunningDev, announce
from rota.embedded import EmbeddedPostgres

TENANT: Final = "default"
_ACTOR: Final = Actor(kind="cli", id="rota dev")


@dataclass(frozen=True, slots=True, kw_only=True)
class DevDatabase:
    """A running embedded database with its schema, the dev tenant and its key."""

    data_dir: Path
    dsn: str
    key: str
    is_kept: bool


@asynccontextmanager
async def dev_database(data_dir: Path | None, key: str | None) -> AsyncIterator[DevDatabase]:
    """Start the embedded database, migrate it and see to tenant and key; without a folder nothing is left behind.

    Raises DataFolderInUseError when another process has the folder.
    """
    with tempfile.TemporaryDirectory(prefix="rota-dev-", ignore_cleanup_errors=True) as temporary:
        folder = (data_dir or Path(temporary)).expanduser().absolute()
        async with EmbeddedPostgres(folder) as server:
            await migrate(server.dsn)
            text = await _ensure_key(server.dsn, folder, key)
            yield DevDatabase(data_dir=folder, dsn=server.dsn, key=text, is_kept=data_dir is not None)


async def _ensure_key(dsn: str, folder: Path, key: str | None) -> str:
    """The key that was asked for, the one of the last start, or a new one. Its text is kept beside the data, mode
    600."""
    kept = folder / "dev-key"
    text = key or (kept.read_text().strip() if kept.exists() else None)
    db = await Database.connect(dsn, max_size=1, application_name="rota-dev")
    try:
        async with db.transaction() as tx:
            try:
                tenant = await get_tenant_named(tx, TENANT)
            except NotFound:
                tenant = await create_tenant(tx, TENANT, _ACTOR)
            _, made = await create_key(tx, tenant.tenant_id, _ACTOR, name="dev", is_operator=True, text=text)
    finally:
        await db.close()
    kept.touch(mode=0o600)
    kept.write_text(made)
    return made


def registered(dev: DevDatabase, url: str, pid: int) -> Path:
    """Let other commands of this user find the running dev."""
    return announce(RunningDev(pid=pid, data_dir=str(dev.data_dir), url=url, key=dev.key, dsn=dev.dsn))


def welcome(dev: DevDatabase, url: str) -> str:
    """What is printed once everything runs: where, the key, and a first call to copy."""
    soon = (datetime.now(UTC) + timedelta(seconds=20)).replace(microsecond=0).isoformat().replace("+00:00", "Z")
    body = json.dumps(
        {"name": "hello", "timing": {"at": soon}, "target": {"http": {"url": f"{url}/healthz", "method": "GET"}}}
    )
    where = str(dev.data_dir) if dev.is_kept else "temporary, gone at the end (keep it with --data DIR)"
    return "\n".join(
        (
            "",
            f"  rota is ready     {url}      (docs: {url}/docs)",
            f"  API key           {dev.key}",
            f"  data              {where}",
            "",
            "  A first schedule, 20 seconds from now:",
            "",
            f"    curl -s {url}/v1/schedules -H 'Authorization: Bearer {dev.key}' \\",
            f"      -H 'Content-Type: application/json' -d '{body}'",
            "",
            "  What came of it:",
            "",
            f"    curl -s {url}/v1/occurrences -H 'Authorization: Bearer {dev.key}'",
            "",
            "  Ctrl-C ends it.",
            "",
        )
    )
