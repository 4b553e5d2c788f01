"""Alive, ready and measured: the pages tell the truth."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from rota.base.db import Database
from rota.base.service import Service, Supervisor
from rota.base.settings import Settings
from rota.web.app import create_app
from rota.web.server import Server
from support.api import Api
from support.waiting import eventually

CUT_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


class Idle(Service):
    """A loop that finds nothing to do."""

    name = "idle"

    async def tick(self) -> float:
        return 3600.0


class Hangs(Service):
    """A loop whose tick never comes back until it is let go."""

    name = "hangs"
    max_silence_s = 0.2

    def __init__(self) -> None:
        self.let_go = asyncio.Event()

    async def tick(self) -> float:
        await self.let_go.wait()
        return 3600.0


@pytest.fixture
async def hanging(database: Database) -> AsyncIterator[tuple[Api, Hangs]]:
    """An API whose process has a loop that hangs."""
    service = Hangs()
    supervisor = Supervisor([Idle(), service])
    await supervisor.start()
    app = await create_app(database, Settings(node="n"), supervisor.health, roles=("api", "planner"))
    server = Server(app, host="127.0.0.1", port=0, drain_s=1)
    await server.start()
    async with Api(server.url, database) as api:
        yield api, service
    service.let_go.set()
    await server.stop()
    await supervisor.stop(within_s=1)


async def test_an_idle_process_is_alive_and_ready(api: Api):
    assert (await api.get("/healthz", key="")).json["status"] == "alive"
    ready = await api.get("/readyz", key="")
    assert ready.status == 200
    assert ready.json["checks"] == {"draining": "ok", "database": "ok", "schema": "ok"}


async def test_a_hanging_loop_fails_the_liveness_of_its_process(hanging: tuple[Api, Hangs]):
    api, service = hanging

    async def fails() -> bool:
        return (await api.get("/healthz", key="")).status == 503

    await eventually(fails)
    loops = (await api.get("/healthz", key="")).json["loops"]
    assert loops["idle"]["alive"] is True
    assert loops["hangs"]["alive"] is False
    service.let_go.set()

    async def is_well() -> bool:
        return (await api.get("/healthz", key="")).status == 200

    await eventually(is_well)


async def test_a_database_that_takes_no_writes_makes_not_ready_but_stays_alive(
    api: Api, connection: asyncpg.Connection
):
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    await connection.execute(CUT_OTHERS)

    async def is_not_ready() -> bool:
        return (await api.get("/readyz", key="")).status == 503

    await eventually(is_not_ready)
    assert (await api.get("/healthz", key="")).status == 200
    await connection.execute("SET default_transaction_read_only = off")
    await connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    await connection.execute(CUT_OTHERS)

    async def is_ready() -> bool:
        return (await api.get("/readyz", key="")).status == 200

    await eventually(is_ready)
    assert (await api.get("/v1/me")).status == 200


async def test_a_schema_of_another_program_makes_not_ready(api: Api, connection: asyncpg.Connection):
    await connection.execute("INSERT INTO schema_migrations (number, name) VALUES (9999, 'from_the_future')")

    async def is_not_ready() -> bool:
        answer = await api.get("/readyz", key="")
        return answer.status == 503 and answer.json["checks"]["schema"] == "schema_too_new"

    await eventually(is_not_ready)


async def test_metrics_are_measured_and_name_no_tenant(api: Api):
    await api.sign_up("secret-tenant-name")
    await api.make(name="secret-schedule-name")
    text = (await api.get("/metrics", key="")).body.decode()
    for name in (
        "rota_schedule_lag_seconds",
        "rota_occurrences_total",
        "rota_oldest_due_age_seconds",
        "rota_lease_expiries_total",
        "rota_cell_metrics_age_seconds",
        "rota_database_up 1.0",
    ):
        assert name in text
    assert "secret" not in text
    assert "acme" not in text
    assert f"{api.caller.tenant_id:013x}" not in text


async def test_a_scrape_costs_no_look_at_the_database_while_the_last_one_is_fresh(
    api: Api, connection: asyncpg.Connection
):
    await api.get("/metrics", key="")
    await connection.execute("ALTER TABLE occurrences RENAME TO occurrences_hidden")
    for _ in range(20):
        # With the table gone, a look at it would fail.
        assert (await api.get("/metrics", key="")).status == 200
