"""One measurement: start a system's processes and the watcher, read the figures off the watcher's curve."""

import asyncio
import importlib.metadata
import json
import math
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import stores
from catalogue import System

HERE = Path(__file__).resolve().parent
START_WITHIN_S = 90.0
DRAIN_WITHIN_S = 150.0
AFTER_DUE_S = 75.0


class MeasurementError(RuntimeError):
    """A system could not be measured; says why and where its output is."""


def python_of(environment: str) -> str:
    """The interpreter of a system's environment. Raises MeasurementError when setup.sh has not made it."""
    if environment == "product":
        return sys.executable
    python = HERE / ".venvs" / environment / "bin" / "python"
    if not python.exists():
        raise MeasurementError(f"the environment {environment} is not there: run sh {HERE / 'setup.sh'}")
    return str(python)


def version_of(system: System) -> str:
    """The installed version of a system's package."""
    if system.environment == "product":
        return importlib.metadata.version(system.package)
    folders = (HERE / ".venvs" / system.environment / "lib").glob("python*/site-packages")
    found = importlib.metadata.distributions(name=system.package, path=[str(one) for one in folders])
    return next((one.version for one in found), "?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one measurement runs: its stores and its folder for gate, marks and output."""

    folder: Path
    dsn: str
    redis_url: str

    def environment(self) -> dict[str, str]:
        """What every process of the measurement is started with."""
        own = {"PEERS_DSN": self.dsn, "PEERS_REDIS_URL": self.redis_url, "PEERS_RUN": str(self.folder)}
        return {**os.environ, **own, "PYTHONDONTWRITEBYTECODE": "1"}

    async def start(self, system: System, *arguments: object) -> asyncio.subprocess.Process:
        """Start a role of a system in a process group of its own; its output goes to a file."""
        command = [python_of(system.environment), str(HERE / system.module), *map(str, arguments)]
        with (self.folder / f"{arguments[0]}.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *command, stdout=log, stderr=log, cwd=self.folder, env=self.environment(), start_new_session=True
            )

    async def load(self, system: System, *arguments: object) -> None:
        """Run a loading role to its end. Raises MeasurementError when it fails."""
        process = await self.start(system, *arguments)
        if await process.wait() != 0:
            raise MeasurementError(self.told(str(arguments[0])))

    async def watch(self, system: System, count: str, *options: object) -> asyncio.subprocess.Process:
        """Start the watcher and return once it is connected."""
        store = "sql" if system.store == "postgresql" else "redis"
        process = await asyncio.create_subprocess_exec(
            python_of("postgres"),
            str(HERE / "watch.py"),
            store,
            count,
            *map(str, options),
            stdout=asyncio.subprocess.PIPE,
            cwd=self.folder,
            env=self.environment(),
        )
        if process.stdout is None or await process.stdout.readline() != b"ready\n":
            raise MeasurementError("the watcher could not connect")
        return process

    def told(self, role: str) -> str:
        """The last words of a role."""
        path = self.folder / f"{role}.log"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return f"{role} failed: {' | '.join(lines[-3:])[-400:]} (all of it in {path})"


async def stop(processes: Sequence[asyncio.subprocess.Process]) -> None:
    """End the process groups that were started here: first asked to, then killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            if process.returncode is None or number is signal.SIGKILL:
                try:
                    os.killpg(process.pid, number)
                except ProcessLookupError:
                    continue
        waits = [asyncio.create_task(process.wait()) for process in processes]
        if waits:
            await asyncio.wait(waits, timeout=6)


def instant_for(system: System, n: int) -> int:
    """The instant at which n schedules will be due: late enough to load them, a whole minute where one is needed."""
    earliest = time.time() + system.lead_s(n)
    return math.ceil(earliest / 60) * 60 if system.is_whole_minutes else math.ceil(earliest)


def seen_at(points: Sequence[tuple[float, int]], share: float, n: int) -> float | None:
    """When that share of n had first been counted."""
    return next((at for at, counted in points if counted >= max(1.0, share * n)), None)


async def at_the_hour(system: System, n: int, place: Place) -> dict[str, Any]:
    """n schedules due at one instant: how long after it their queue entries are durable."""
    due_at = instant_for(system, n)
    assert system.queued is not None
    count = system.queued.format(n=n, due_at=due_at)
    await place.load(system, "load-fires", n, due_at)
    scheduler = await place.start(system, "fire", n, due_at)
    try:
        begin_at = max(time.time(), due_at - 1.5)
        if time.time() > due_at - 1:
            raise MeasurementError("loading took until after the instant: too busy a machine, or too many schedules")
        options = ["--until", n, "--from", begin_at, "--within", AFTER_DUE_S]
        watcher = await place.watch(system, count, *options)
        output, _ = await watcher.communicate()
        if scheduler.returncode is not None:
            raise MeasurementError(place.told("fire"))
    finally:
        await stop([scheduler])
    curve = json.loads(output)
    points: list[tuple[float, int]] = [(at, counted) for at, counted in curve["points"]]
    reached = points[-1][1]
    if reached == 0:
        raise MeasurementError(f"nothing was queued within {AFTER_DUE_S:.0f} s of the instant; {place.told('fire')}")
    lags = {
        f"lag_{name}_s": None if at is None else round(at - due_at, 3)
        for name, share in (("first", 0.0), ("p50", 0.5), ("p99", 0.99), ("max", 1.0))
        for at in [seen_at(points, share, n)]
    }
    took = max(points[-1][0] - due_at, curve["poll_s"])
    early = max((counted for at, counted in points if at < due_at), default=0)
    return {**lags, "reached": reached, "early": early, "rate": round(reached / took, 1), "poll_s": curve["poll_s"]}


async def lifecycle(system: System, n: int, place: Place, workers: int) -> dict[str, Any]:
    """n no-op jobs already due: from the first one's start until the last completion is recorded."""
    assert system.completed is not None
    await place.load(system, "load-jobs", n)
    if system.store == "postgresql":
        await stores.analyze(place.dsn)
    watcher = await place.watch(system, system.completed.format(n=n), "--until", n, "--within", DRAIN_WITHIN_S)
    processes = [await place.start(system, "work", index) for index in range(workers)]
    try:
        if system.has_gate:
            await ready(place, processes)
        (place.folder / "go").touch()
        go_at = time.time()
        output, _ = await watcher.communicate()
    finally:
        await stop(processes)
    curve = json.loads(output)
    ended_at, completed = curve["points"][-1]
    starts = [float(path.read_text()) for path in place.folder.glob("started.*")]
    if not starts or completed <= 0:
        raise MeasurementError(f"nothing was completed within {DRAIN_WITHIN_S:.0f} s; {place.told('work')}")
    took = ended_at - min(starts)
    return {
        "completed": completed,
        "workers": workers,
        "seconds": round(took, 3),
        "seconds_from_go": round(ended_at - go_at, 3),
        "rate": round(completed / took, 1),
        "poll_s": curve["poll_s"],
    }


async def ready(place: Place, processes: Sequence[asyncio.subprocess.Process]) -> None:
    """Wait until every worker stands at the gate."""
    give_up_at = time.monotonic() + START_WITHIN_S
    while len(list(place.folder.glob("ready.*"))) < len(processes):
        if time.monotonic() > give_up_at or any(process.returncode is not None for process in processes):
            raise MeasurementError(place.told("work"))
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.2)
