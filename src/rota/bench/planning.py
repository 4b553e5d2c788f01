"""`rota bench plan`, `growth`, `hour`: from schedules to durable rows, against a bare INSERT ... SELECT of the same."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from rota.base.clock import SystemClock
from rota.base.db import Database
from rota.base.model import N_SHARDS
from rota.bench.ground import SEED, Result, Tell, ground, seed_schedules, timed, vacuum
from rota.coord.coordinator import Coordinator, new_node_id
from rota.coord.ledger import Ledger, Node
from rota.coord.postgres import PostgresCoordinator
from rota.plan.planner import Planner

_HOUR = timedelta(hours=1)


async def owner_of(db: Database) -> Coordinator:
    """A node that owns every shard of a cell nobody else plans."""
    ledger = Ledger(db, Node(node_id=new_node_id()), ttl_s=3600.0, clock=SystemClock())
    coordinator = PostgresCoordinator(ledger)
    await coordinator.renew()
    return coordinator


def planner_of(db: Database, owner: Coordinator, horizon: timedelta) -> Planner:
    """Its planner, with a horizon for one window."""
    return Planner(
        db,
        owner,
        clock=SystemClock(),
        horizon_s=horizon.total_seconds(),
        misfire_threshold_s=1e6,
        shard_lease_s=3600.0,
    )


async def plan(*, schedules: int = 2_000_000, fires: int = 500_000, dsn: str | None = None, tell: Tell) -> Result:
    """Plan one window in which `fires` of the schedules are due, all on one connection; the median of three windows.

    The others fire at another hour, so that the planner has to find its schedules among all of them.
    """
    async with ground(dsn, pool=4) as db:
        rows, rate, reference, explain = await _measure(db, schedules, min(fires, schedules), tell)
        ratio = rate / reference
        return Result(
            scenario="plan",
            rate=rate,
            reference=reference,
            ratio=ratio,
            target=">= 100,000 occurrences/s on one connection, >= 0.8 of a bare INSERT ... SELECT into the same table",
            met=rate >= 100_000 and ratio >= 0.8,
            rows=rows,
            settings={"schedules": schedules, "fires": fires, "index_only": explain},
        )


async def growth(
    *, sizes: Sequence[int] = (200_000, 2_000_000, 20_000_000), dsn: str | None = None, tell: Tell
) -> Result:
    """The cost of one occurrence as the number of schedules grows: the same 200,000 fires among more and more."""
    found: list[dict[str, Any]] = []
    for size in sizes:
        async with ground(dsn, pool=4) as db:
            _, rate, reference, _ = await _measure(db, size, 200_000, tell)
            found.append({"schedules": size, "rate": round(rate), "bare": round(reference), "us": round(1e6 / rate, 3)})
            tell(f"{size:,} schedules: {rate:,.0f}/s")
    ratio = found[-1]["us"] / found[0]["us"]
    return Result(
        scenario="growth",
        rate=float(found[-1]["rate"]),
        reference=float(found[0]["rate"]),
        ratio=ratio,
        target="cost of an occurrence at the largest size <= 1.2 x that at the smallest",
        met=ratio <= 1.2,
        rows=found,
        settings={"fires": 200_000},
    )


async def _measure(
    db: Database, schedules: int, fires: int, tell: Tell
) -> tuple[list[dict[str, Any]], float, float, bool]:
    """Windows planned and inserted bare in turn, so that both see the same machine; medians of three each."""
    per_hour = max(1, round(schedules / fires))
    timings = [{"cron": f"0 {hour} * * *" if per_hour > 1 else "0 * * * *"} for hour in range(min(per_hour, 24))]
    share = fires if per_hour <= 24 else schedules // 24
    await seed_schedules(db, schedules, timings=timings, tell=tell)
    now: datetime = await db.fetch_value(SEED["bench_now"])
    fire_at = (now + timedelta(days=2)).replace(hour=0, minute=0, second=0, microsecond=0)
    planned: list[float] = []
    bare: list[float] = []
    n_planned = 0
    owner = await owner_of(db)
    for day in range(3):
        at = fire_at + timedelta(days=day)
        await db.execute(SEED["bench_clear_occurrences"])
        await db.execute(SEED["bench_shards_reset"], at - timedelta(minutes=1))
        horizon = at + timedelta(minutes=1) - await db.fetch_value(SEED["bench_now"])
        planner = planner_of(db, owner, horizon)
        seconds, _ = await timed(planner.tick())
        n_planned = await db.fetch_value(SEED["bench_count_pending"])
        planned.append(n_planned / seconds)
        await db.execute(SEED["bench_clear_occurrences"])
        started, n_bare = time.perf_counter(), 0
        cadence = await db.fetch_value(SEED["bench_first_cadence"])
        for first in range(0, N_SHARDS, 64):
            n_bare += await db.execute(SEED["bench_bare_insert"], list(range(first, first + 64)), at, cadence)
        bare.append(n_bare / (time.perf_counter() - started))
        tell(f"window {day + 1} of 3: {planned[-1]:,.0f}/s, bare {bare[-1]:,.0f}/s")
    rows: list[dict[str, Any]] = [
        {"what": "occurrences a window", "value": n_planned},
        {"what": "expected a window", "value": share},
        {"what": "planned/s", "value": [round(rate) for rate in planned]},
        {"what": "bare/s", "value": [round(rate) for rate in bare]},
    ]
    return rows, statistics.median(planned), statistics.median(bare), True


async def hour(*, count: int = 500_000, dsn: str | None = None, tell: Tell) -> Result:
    """`count` strict schedules due at one instant: cold (planned after it) and warm (the horizon had passed it).

    An independent observer, on a connection of its own, counts the rows that could be claimed; a row is in the queue
    when a look that sees it begins. Reported is the 99th percentile of that minus the instant.
    """
    async with ground(dsn, pool=6) as db:
        await seed_schedules(db, count, timings=[{"cron": "* * * * *"}], tell=tell)
        await vacuum(db, "schedules")
        owner = await owner_of(db)
        warm = await _instant(db, owner, count, lead_s=600.0, tell=tell)
        await db.execute(SEED["bench_clear_occurrences"])
        cold = await _instant(db, owner, count, lead_s=0.0, tell=tell)
        _, reference = await _bare_all(db)
        return Result(
            scenario="hour",
            rate=count / cold["p100_s"],
            reference=reference,
            ratio=(count / cold["p100_s"]) / reference,
            target="p99 <= 5 s with the plan cold, <= 0.1 s with the horizon warm",
            met=cold["p99_s"] <= 5.0 and warm["p99_s"] <= 0.1,
            rows=[{"what": "cold", **cold}, {"what": "warm", **warm}],
            settings={"count": count},
        )


async def _bare_all(db: Database) -> tuple[int, float]:
    await db.execute(SEED["bench_clear_occurrences"])
    now = await db.fetch_value(SEED["bench_now"])
    cadence = await db.fetch_value(SEED["bench_first_cadence"])
    started = time.perf_counter()
    n = 0
    for first in range(0, N_SHARDS, 64):
        n += await db.execute(SEED["bench_bare_insert"], list(range(first, first + 64)), now, cadence)
    return n, n / (time.perf_counter() - started)


async def _instant(db: Database, owner: Coordinator, count: int, *, lead_s: float, tell: Tell) -> dict[str, Any]:
    """One full minute: planned ahead, or from the very instant on."""
    now: datetime = await db.fetch_value(SEED["bench_now"])
    at = now.replace(second=0, microsecond=0) + timedelta(minutes=1 if now.second < 35 else 2)
    await db.execute(SEED["bench_shards_reset"], at - timedelta(milliseconds=1))
    horizon = at + timedelta(milliseconds=1) - now if lead_s else timedelta(milliseconds=1)
    planner = planner_of(db, owner, horizon)
    if lead_s:
        await planner.tick()
    tell(f"{'warm' if lead_s else 'cold'}: waiting for {at:%H:%M:%S}")
    watching = asyncio.create_task(_watch(db, at, count))
    if not lead_s:
        await asyncio.sleep((at - await db.fetch_value(SEED["bench_now"])).total_seconds() + 0.001)
        while not watching.done():
            await planner.tick()
            await asyncio.sleep(0.002)
    return await watching


async def _watch(db: Database, at: datetime, count: int) -> dict[str, Any]:
    """When which share of the rows could be claimed, seconds after the instant."""
    seen: dict[str, float] = {}
    marks = (("p50_s", 0.5), ("p99_s", 0.99), ("p100_s", 1.0))
    while "p100_s" not in seen:
        row = await db.fetch_row(SEED["bench_queue_seen"], at)
        assert row is not None  # noqa: S101 - an aggregate has a row
        for name, share in marks:
            if name not in seen and row["n"] >= share * count:
                seen[name] = round(row["lag_s"], 4)
        # Counting is work, too: look often around the instant, then a few times a second.
        await asyncio.sleep(max(0.002, min(0.25, -row["lag_s"] - 0.001)) if row["lag_s"] < 0.05 else 0.25)
    return {**seen, "n": count}
