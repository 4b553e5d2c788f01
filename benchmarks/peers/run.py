"""Measure what a user would pick instead, beside rota: the same machine, PostgreSQL, watcher and definitions.

    python benchmarks/peers/run.py [--peer NAME ...] [--workload W1|W3] [--count N] [--workers N] [--json]

W1: N schedules are due at one instant; how long after it their queue entries are durable. W3: N no-op jobs are already
due; how fast they are run and recorded. Prints a table, and as its last line one JSON document. docs/peers.md tells
how each figure is taken. Run sh benchmarks/peers/setup.sh first.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import stores
from catalogue import HOUR, LIFECYCLE, SYSTEMS, System
from measure import MeasurementError, Place, at_the_hour, lifecycle, version_of

COUNTS = {HOUR: 10_000, LIFECYCLE: 20_000}
TARGETS = {HOUR: 30.0, LIFECYCLE: 3.0}


async def measure(
    system: System, workload: str, n: int, *, server: str, folder: Path, workers: int, fsync: str
) -> dict[str, Any]:
    """One system at one workload; a failure is part of the answer."""
    result: dict[str, Any] = {
        "peer": system.name,
        "version": version_of(system),
        "store": system.store,
        "workload": workload,
        "count": n,
    }
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        async with contextlib.AsyncExitStack() as stack:
            dsn = await stack.enter_async_context(stores.database(server, "measured"))
            url = ""
            if system.store == "redis":
                url = stack.enter_context(stores.redis(folder / "redis", fsync))
                await stores.redis_answers(url)
                result["appendfsync"] = fsync
            place = Place(folder=folder, dsn=dsn, redis_url=url)
            if workload == HOUR:
                result |= await at_the_hour(system, n, place)
            else:
                result |= await lifecycle(system, n, place, min(workers, system.most_workers))
    except MeasurementError as error:
        result["error"] = str(error)
    return {**result, "at": time.strftime("%FT%TZ", time.gmtime()), "load": round(os.getloadavg()[0], 1)}


def chosen(names: Sequence[str], workload: str | None) -> list[tuple[System, str]]:
    """What is to be measured, in the order of the catalogue."""
    workloads = [workload] if workload else [HOUR, LIFECYCLE]
    pairs = [(system, one) for one in workloads for system in SYSTEMS if not names or system.name in names]
    counted = {HOUR: lambda system: system.queued, LIFECYCLE: lambda system: system.completed}
    return [(system, one) for system, one in pairs if counted[one](system) is not None]


def verdict(results: Sequence[dict[str, Any]], workload: str) -> dict[str, Any] | None:
    """rota against the best of the others on the same PostgreSQL, and against the best of all."""
    good = [one for one in results if one["workload"] == workload and "rate" in one]
    own = [one["rate"] for one in good if one["peer"] == "rota"]
    others = [one for one in good if one["peer"] != "rota"]
    durable = [one for one in others if one["store"] == "postgresql"]
    if not own or not durable:
        return None
    best = max(durable, key=lambda one: float(one["rate"]))
    best_of_all = max(others, key=lambda one: float(one["rate"]))
    ratio = round(own[0] / best["rate"], 2)
    return {
        "workload": workload,
        "rate": own[0],
        "best_durable": best["peer"],
        "best_durable_rate": best["rate"],
        "ratio": ratio,
        "ratio_to_best_of_all": round(own[0] / best_of_all["rate"], 2),
        "target": TARGETS[workload],
        "met": ratio >= TARGETS[workload],
    }


def show(results: Sequence[dict[str, Any]], verdicts: Sequence[dict[str, Any]]) -> None:
    """The tables."""
    for workload in (HOUR, LIFECYCLE):
        rows = [one for one in results if one["workload"] == workload]
        if not rows:
            continue
        what = "schedules due at one instant" if workload == HOUR else "no-op jobs already due"
        print(f"\n{workload}: {rows[0]['count']:,} {what}")
        heads = ["lag p50 s", "lag p99 s", "lag max s"] if workload == HOUR else ["workers", "seconds", "completed"]
        print(f"{'system':15}{'version':10}{'store':12}{'rate /s':>11}" + "".join(f"{head:>11}" for head in heads))
        for one in rows:
            lead = f"{one['peer']:15}{one['version']:10}{one['store']:12}"
            if "error" in one:
                print(f"{lead}  {one['error']}")
                continue
            names = ["lag_p50_s", "lag_p99_s", "lag_max_s"] if workload == HOUR else ["workers", "seconds", "completed"]
            cells = "".join(f"{'-' if one[name] is None else one[name]!s:>11}" for name in names)
            print(f"{lead}{one['rate']:>11,.0f}{cells}")
        for one in verdicts:
            if one["workload"] == workload:
                print(f"rota / {one['best_durable']}: {one['ratio']} x (target {one['target']:.0f} x)")


async def main_async(order: argparse.Namespace) -> dict[str, Any]:
    """Measure one after the other and return everything."""
    pairs = chosen(order.peer, order.workload)
    if not stores.has_redis():
        left_out = sorted({system.name for system, _ in pairs if system.store == "redis"})
        pairs = [(system, workload) for system, workload in pairs if system.store != "redis"]
        if left_out:
            print(f"redis-server is not installed: left out {', '.join(left_out)}", file=sys.stderr)
    base = Path(order.folder or tempfile.mkdtemp(prefix="peers-"))
    results = []
    async with stores.postgres(base / "postgres") as server:
        version = await stores.version(server)
        for system, workload in pairs:
            n = order.count or COUNTS[workload]
            folder = base / f"{system.name}-{workload}"
            result = await measure(
                system, workload, n, server=server, folder=folder, workers=order.workers, fsync=order.redis_fsync
            )
            results.append(result)
            told = f"{result['rate']:,.0f}/s" if "rate" in result else result["error"]
            print(f"{workload} {system.name}: {told}", file=sys.stderr, flush=True)
    if order.folder is None and not any("error" in one for one in results):
        shutil.rmtree(base, ignore_errors=True)
    verdicts = [one for workload in (HOUR, LIFECYCLE) if (one := verdict(results, workload))]
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "postgresql": version}
    return {"machine": machine, "results": results, "verdicts": verdicts}


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [system.name for system in SYSTEMS]
    parser.add_argument("--peer", action="append", choices=names, default=[], help="only this one; may be repeated")
    parser.add_argument("--workload", choices=[HOUR, LIFECYCLE])
    parser.add_argument("--count", type=int, help="instead of 10,000 schedules and 20,000 jobs")
    parser.add_argument("--workers", type=int, default=1, help="worker processes of each system (W3)")
    parser.add_argument("--redis-fsync", choices=["everysec", "always"], default="everysec")
    parser.add_argument("--folder", help="keep data and output here instead of in a temporary folder")
    parser.add_argument("--json", action="store_true", help="print the JSON line alone")
    order = parser.parse_args()
    answer = asyncio.run(main_async(order))
    if not order.json:
        show(answer["results"], answer["verdicts"])
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
