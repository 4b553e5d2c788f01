"""Fixtures every test may use: fresh databases, real processes, a scripted HTTP target.

One embedded PostgreSQL serves the whole run, whatever the number of workers. It starts when the first test asks for a
database, so a run of pure tests never starts it.
"""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import hypothesis
import pytest

from rota.base.db import Database
from support import services
from support.databases import RUN_DIR_VARIABLE, Databases, Run, shared_server
from support.http_target import HttpTarget
from support.processes import Processes

RUN = pytest.StashKey[Run]()

# A busy machine is no failure; what failed can be repeated from the printed blob.
hypothesis.settings.register_profile(
    "rota", deadline=None, print_blob=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("rota")


def pytest_configure(config: pytest.Config) -> None:
    """Only the first process makes the run's folder; workers find it in their environment."""
    if not hasattr(config, "workerinput"):
        config.stash[RUN] = Run()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Nothing is left behind."""
    if run := config.stash.get(RUN, None):
        run.end()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests/crash, and leave out what needs a program this machine has not (see the summary's last lines)."""
    for item in items:
        if "crash" in item.path.parts:
            item.add_marker("crash")
    missing = services.missing()
    left_out = [item for item in items if any(item.get_closest_marker(marker) for marker in missing)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly which tests this machine cannot run."""
    for marker, what in services.missing().items():
        terminalreporter.write_line(f"LEFT OUT: tests marked {marker}, since {what} is not installed here", yellow=True)


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    """The run's server, for tests that need several databases: `with databases.fresh() as dsn`."""
    made = Databases(shared_server(Path(os.environ[RUN_DIR_VARIABLE])))
    yield made
    made.close()


@pytest.fixture
def dsn(databases: Databases) -> Iterator[str]:
    """A fresh database with the current schema, for this test alone."""
    with databases.fresh() as made:
        yield made


@pytest.fixture
def empty_dsn(databases: Databases) -> Iterator[str]:
    """A fresh database without any schema."""
    with databases.fresh("template0") as made:
        yield made


@pytest.fixture
async def connection(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A plain driver connection to the test's database, for looking at it from outside."""
    made = await asyncpg.connect(dsn)
    yield made
    await made.close()


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    """Our own pool on the test's database."""
    made = await Database.connect(dsn, min_size=1, max_size=8)
    yield made
    await made.close()


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    """Starts real processes (`await processes.rota("dev")`); all are gone after the test."""
    made = Processes()
    yield made
    await made.close()


@pytest.fixture
async def http_target() -> AsyncIterator[HttpTarget]:
    """A scripted HTTP server on a loopback port."""
    async with HttpTarget() as target:
        yield target
