"""The ground a scenario runs on: a database of its own, seeded by set, gone afterwards; and how results are told."""

import hashlib
import json
import os
import platform
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from rota.base.db import Database, Query, load_queries
from rota.base.migrations import migrate
from rota.calendar import Timing, tzdata_version
from rota.embedded import EmbeddedPostgres

SEED = load_queries(__file__, "seeding.sql")
HANDLER: Final = "bench_noop"
TARGET: Final = json.dumps({"handler": {"name": HANDLER, "queue": "default"}})
CHUNK: Final = 250_000
Tell = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Result:
    """What a scenario found. `ratio` is rate over reference (or the other way where less is better, see `target`)."""

    scenario: str
    rate: float
    reference: float
    ratio: float
    target: str
    met: bool
    rows: list[dict[str, Any]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The JSON line: scenario, rate, reference, ratio, target, met, then all details."""
        return {
            "scenario": self.scenario,
            "rate": round(self.rate, 3),
            "reference": round(self.reference, 3),
            "ratio": round(self.ratio, 4),
            "target": self.target,
            "met": self.met,
            "rows": self.rows,
            "settings": self.settings,
            "machine": machine(),
        }


def machine() -> dict[str, Any]:
    """Where the figures come from."""
    return {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.platform(terse=True),
        "rota": version("rota-scheduler"),
        "asyncpg": version("asyncpg"),
    }


@asynccontextmanager
async def ground(dsn: str | None, *, pool: int = 8) -> AsyncIterator[Database]:
    """A fresh database: of an embedded server with full durability, or `dsn`, which must be empty of schedules."""
    if dsn:
        await migrate(dsn)
        db = await _connect(dsn, pool)
        try:
            yield db
        finally:
            await db.close()
        return
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        settings = {"shared_buffers": "1GB", "max_wal_size": "8GB"}
        async with EmbeddedPostgres(Path(folder), settings=settings) as server:
            await migrate(server.dsn)
            db = await _connect(server.dsn, pool)
            try:
                yield db
            finally:
                await db.close()


async def _connect(dsn: str, pool: int) -> Database:
    return await Database.connect(dsn, min_size=1, max_size=pool, application_name="rota-bench", command_timeout_s=3600)


async def seed_schedules(
    db: Database, n: int, *, timings: Sequence[dict[str, Any]], tenants: int = 250, tell: Tell | None = None
) -> list[int]:
    """`n` schedules over so many tenants, dealt out over the timings. The cadence ids."""
    await db.execute(SEED["bench_tenants"], tenants, 1)
    await db.execute(SEED["bench_lanes"], f"handler:{HANDLER}")
    policy_id = await db.fetch_value(SEED["bench_policy"])
    made = [Timing.parse(timing) for timing in timings]
    now = datetime.now(UTC)
    rows = await db.fetch(
        SEED["bench_cadences"],
        [json.dumps(timing.to_json()) for timing in made],
        [hashlib.sha256(timing.key().encode()).digest() for timing in made],
        [timing.next_after(now - timedelta(days=1)) for timing in made],
        tzdata_version(),
    )
    cadences = [row["cadence_id"] for row in rows]
    for first in range(0, n, CHUNK):
        await db.execute(SEED["bench_schedules"], first, min(CHUNK, n - first), cadences, policy_id, TARGET)
        if tell is not None:
            tell(f"{min(first + CHUNK, n):,} of {n:,} schedules")
    await vacuum(db, "schedules", "schedule_versions")
    return cadences


async def vacuum(db: Database, *tables: str) -> None:
    """What autovacuum does within minutes, now: visibility map and statistics."""
    for table in tables:
        await db.execute(Query("vacuum", f"VACUUM (ANALYZE) {table}", ()))


async def timed(work: Any) -> tuple[float, Any]:
    """Seconds and result of an awaitable."""
    started = time.perf_counter()
    result = await work
    return time.perf_counter() - started, result
