"""How much of everything a load needs: Little's law over measured rates. Pure: numbers in, numbers out.

Concurrency is arrival rate times time in the system (L = lambda * W). The peak, `peak` occurrences due at one instant
that must all have started within `within_s`, sets workers and slots; the day sets storage; the number of schedules sets
the size of the database. Each limit is a demand over what one cell was measured to bear; the largest share is first.
"""

import math
from dataclasses import dataclass, field, replace

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is asked of a cell. Durations in seconds, sizes in bytes, `failure_share` of attempts between 0 and 1."""

    schedules: float
    per_day: float
    peak: float = 0.0
    within_s: float = 5.0
    mean_s: float = 0.2
    failure_share: float = 0.01
    payload_bytes: float = 100.0
    retention_days: float = 30.0
    horizon_s: float = 300.0
    slots_per_worker: float = 64.0
    headroom: float = 1.5
    disk_bytes: float | None = None

    def __post_init__(self) -> None:
        for name in ("schedules", "per_day", "peak", "mean_s", "failure_share", "payload_bytes", "retention_days"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}: give a number of 0 or more")
        for name in ("within_s", "horizon_s", "slots_per_worker"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}: give a number above 0")
        if self.failure_share >= 1:
            raise ValueError(f"failure_share is {self.failure_share}: give the share of attempts that fail, below 1")
        if not 1 <= self.headroom < math.inf:
            raise ValueError(f"headroom is {self.headroom}: give a factor of 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What one cell bears: rates a second, bytes a row with its indexes. Measured on a 2-core machine."""

    plan_per_s: float = 100_000.0  # occurrences planned on one connection at 20 M schedules
    lifecycles_per_worker_s: float = 20_000.0  # claim, no-op handler, finish: one worker process, fairness on
    lifecycles_per_cell_s: float = 30_000.0  # the same through one primary, however many workers
    schedule_bytes: float = 504.0  # schedules: 153 heap, 351 indexes
    version_bytes: float = 553.0  # schedule_versions: 512 heap with a short target, 41 index; payload not counted
    hot_bytes: float = 546.0  # occurrences: 347 heap with one dead version, 199 indexes
    finished_bytes: float = 342.0  # finished_occurrences: 168 heap, 174 indexes
    attempt_bytes: float = 234.0  # attempts that failed: 175 heap, 59 index
    wal_bytes: float = 1_393.0  # plan 442, claim 443, finish 508
    wal_per_cell_s: float = 50e6  # what one ordinary disk and one replica link bear
    connections_per_cell: float = 200.0
    connections_per_worker: float = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One thing that can break: what is asked of it, what it bears, both in `unit`."""

    name: str
    demand: float
    bears: float
    unit: str

    @property
    def share(self) -> float:
        """1.0 is the edge."""
        return self.demand / self.bears if self.bears else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer. Counts are whole and include the head-room; `limits` begins with what breaks first."""

    load: Load
    mean_rate: float
    peak_rate: float
    mean_concurrency: float
    peak_concurrency: float
    workers: int
    planners: int
    cells: int
    hot_rows: float
    bytes_per_day: float
    wal_bytes_per_day: float
    database_bytes: float
    limits: tuple[Limit, ...] = field(default=())

    @property
    def breaks_first(self) -> Limit:
        """The limit with the largest share."""
        return self.limits[0]

    @property
    def grows(self) -> float:
        """The load may grow by this factor until the first limit is reached; below 1 it is passed already."""
        return 1 / self.breaks_first.share if self.breaks_first.share else math.inf


def capacity(load: Load, rates: Rates | None = None) -> Plan:
    """What `load` needs on cells of `rates`."""
    rates = rates or Rates()
    attempts = 1 / (1 - load.failure_share)  # attempts an occurrence, retries of retries included
    mean_rate = load.per_day * attempts / DAY_S
    peak_rate = max(load.peak * attempts / load.within_s, mean_rate)
    mean_concurrency = mean_rate * load.mean_s
    # A burst never holds more slots than it has occurrences, however long each takes.
    burst = min(peak_rate * load.mean_s, load.peak * attempts) if load.peak else 0.0
    peak_concurrency = max(burst, mean_concurrency)
    cells = max(1, math.ceil(peak_rate * load.headroom / rates.lifecycles_per_cell_s))
    workers = max(
        math.ceil(peak_concurrency * load.headroom / load.slots_per_worker),
        math.ceil(peak_rate * load.headroom / rates.lifecycles_per_worker_s),
        1,
    )
    planners = max(1, math.ceil(peak_rate / rates.plan_per_s * load.headroom))
    hot_rows = mean_rate * (load.horizon_s + load.mean_s) + load.peak
    finished = load.per_day * rates.finished_bytes
    failed = load.per_day * (attempts - 1) * rates.attempt_bytes
    bytes_per_day = finished + failed
    schedules = load.schedules * (rates.schedule_bytes + rates.version_bytes + load.payload_bytes)
    plan = Plan(
        load=load,
        mean_rate=mean_rate,
        peak_rate=peak_rate,
        mean_concurrency=mean_concurrency,
        peak_concurrency=peak_concurrency,
        workers=workers,
        planners=planners,
        cells=cells,
        hot_rows=hot_rows,
        bytes_per_day=bytes_per_day,
        wal_bytes_per_day=load.per_day * rates.wal_bytes * attempts,
        database_bytes=schedules + hot_rows * rates.hot_bytes + bytes_per_day * load.retention_days,
    )
    return replace(plan, limits=_limits(plan, rates))


def _limits(plan: Plan, rates: Rates) -> tuple[Limit, ...]:
    """Everything of one cell that can break, the nearest to its edge first."""
    wal_per_s = plan.peak_rate * rates.wal_bytes
    found = [
        Limit(name="lifecycles", demand=plan.peak_rate, bears=rates.lifecycles_per_cell_s, unit="occurrences/s"),
        Limit(name="planning", demand=plan.peak_rate, bears=rates.plan_per_s, unit="occurrences/s"),
        Limit(name="write-ahead log", demand=wal_per_s, bears=rates.wal_per_cell_s, unit="bytes/s"),
        Limit(
            name="connections",
            demand=plan.workers * rates.connections_per_worker,
            bears=rates.connections_per_cell,
            unit="connections",
        ),
    ]
    if plan.load.disk_bytes is not None:
        found.append(Limit(name="disk", demand=plan.database_bytes, bears=plan.load.disk_bytes, unit="bytes"))
    return tuple(sorted(found, key=lambda limit: -limit.share))


def as_json(plan: Plan) -> dict[str, object]:
    """The answer as a JSON document: rates a second, sizes in bytes."""
    return {
        "mean_rate": round(plan.mean_rate, 3),
        "peak_rate": round(plan.peak_rate, 3),
        "mean_concurrency": round(plan.mean_concurrency, 3),
        "peak_concurrency": round(plan.peak_concurrency, 3),
        "workers": plan.workers,
        "slots_per_worker": plan.load.slots_per_worker,
        "planners": plan.planners,
        "cells": plan.cells,
        "hot_rows": round(plan.hot_rows),
        "bytes_per_day": round(plan.bytes_per_day),
        "wal_bytes_per_day": round(plan.wal_bytes_per_day),
        "database_bytes": round(plan.database_bytes),
        "headroom": plan.load.headroom,
        "breaks_first": plan.breaks_first.name,
        "grows": round(plan.grows, 3),
        "limits": [
            {
                "name": at.name,
                "demand": round(at.demand, 3),
                "bears": at.bears,
                "unit": at.unit,
                "share": round(at.share, 4),
            }
            for at in plan.limits
        ],
    }


def as_table(plan: Plan) -> list[tuple[str, str, str]]:
    """The answer as rows of (what, how much, why)."""
    load, first = plan.load, plan.breaks_first
    fits = f"the load may grow {plan.grows:.2g}x" if plan.grows >= 1 else f"beyond one cell by {1 / plan.grows:.2g}x"
    return [
        ("mean rate", f"{_short(plan.mean_rate)}/s", f"{_short(load.per_day)} a day, retries included"),
        (
            "peak rate",
            f"{_short(plan.peak_rate)}/s",
            f"{_short(load.peak)} due at once, started within {load.within_s:g} s",
        ),
        ("in flight, mean", _short(plan.mean_concurrency), f"Little's law: rate x {load.mean_s:g} s"),
        ("in flight, peak", _short(plan.peak_concurrency), f"Little's law: peak rate x {load.mean_s:g} s"),
        ("worker processes", str(plan.workers), f"{load.slots_per_worker:g} slots each, head-room {load.headroom:g}x"),
        ("planners", str(plan.planners), f"the peak rate, head-room {load.headroom:g}x; two for fail-over"),
        ("database cells", str(plan.cells), "PostgreSQL primaries; split by shard"),
        ("pending rows", _short(plan.hot_rows), f"horizon {load.horizon_s:g} s and the peak"),
        ("history a day", f"{_short(plan.bytes_per_day)}B", "finished occurrences and failed attempts, with indexes"),
        ("log a day", f"{_short(plan.wal_bytes_per_day)}B", "write-ahead log: what replicas and archives carry"),
        (
            "database",
            f"{_short(plan.database_bytes)}B",
            f"{_short(load.schedules)} schedules, {load.retention_days:g} days kept",
        ),
        ("breaks first", first.name, f"{first.share:.0%} of {_short(first.bears)} {first.unit}; {fits}"),
    ]


def _short(value: float) -> str:
    """Three digits and a decimal prefix."""
    for bound, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= bound:
            return f"{value / bound:.3g} {prefix}"
    return f"{value:.3g} "


def parse_count(text: str) -> float:
    """`20M`, `500k`, `1.5G`, `2_000` as a number; ValueError says what is allowed."""
    plain = text.strip().replace("_", "").replace(",", "")
    factor = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "m": 1e6, "g": 1e9, "K": 1e3}.get(plain[-1:], 0.0)
    try:
        value = float(plain[:-1]) * factor if factor else float(plain)
    except ValueError:
        raise ValueError(f"{text!r} is not a count: write 2000, 500k, 20M or 1.5G") from None
    if not 0 <= value < math.inf:
        raise ValueError(f"{text!r} is not a count of 0 or more")
    return value
