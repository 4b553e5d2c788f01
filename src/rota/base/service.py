"""Loops that live as long as the process: each is a tick that says when to come back.

    class Planner(Service):
        name = "planner"
        async def tick(self) -> float:      # seconds until it wants to be called again
            ...

A tick can be called by a test; the loop around it belongs to the supervisor: it restarts a failed tick with jittered
back-off, says so once as an event, and knows how long ago each service last made progress. A tick that hangs therefore
shows (`Supervisor.health`), and the process is reported as not alive.
"""

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass

from rota.base.clock import Clock, SystemClock
from rota.base.telemetry import ServiceFailed, ServiceStarted, ServiceStopped, emit, service_progress

_FIRST_WAIT_S, _MOST_WAIT_S = 0.2, 10.0


class Service:
    """One loop. `max_silence_s`: without progress for longer it counts as hung."""

    name: str = "service"
    max_silence_s: float = 60.0

    async def start(self) -> None:
        """What is needed before the first tick; called again after a failure of itself only."""

    async def tick(self) -> float:
        """Do what is due; return the seconds until the next call."""
        raise AssertionError(f"{type(self).__name__} has no tick")

    async def drain(self) -> None:
        """Finish what is held; no tick is called any more."""

    async def stop(self) -> None:
        """Let go of everything. Called once, whatever happened before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceHealth:
    """How one service is: seconds since its last progress, and its last error if the last tick failed."""

    name: str
    silent_s: float
    is_alive: bool
    error: str | None


class _Loop:
    """One supervised service."""

    def __init__(self, service: Service, clock: Clock) -> None:
        self.service = service
        self._clock = clock
        self._stopping = asyncio.Event()
        self._wake = asyncio.Event()
        self._progress_at = clock.monotonic()
        self._planned_s = 0.0
        self.error: str | None = None

    def health(self) -> ServiceHealth:
        """A planned sleep is not silence; a failing service makes no progress but is not hung."""
        silent = max(0.0, self._clock.monotonic() - self._progress_at - self._planned_s)
        alive = silent <= self.service.max_silence_s
        return ServiceHealth(name=self.service.name, silent_s=silent, is_alive=alive, error=self.error)

    def wake(self) -> None:
        """Call the tick at once instead of when it wanted to come back."""
        self._wake.set()

    def end(self) -> None:
        """Call no further tick."""
        self._stopping.set()
        self._wake.set()

    async def run(self) -> None:
        """Until it is ended."""
        emit(ServiceStarted(service=self.service.name))
        wait = _FIRST_WAIT_S
        started = False
        while not self._stopping.is_set():
            self._mark(0.0)
            try:
                if not started:
                    await self.service.start()
                    started = True
                pause = await self.service.tick()
                wait, self.error = _FIRST_WAIT_S, None
            except Exception as error:  # noqa: BLE001 - a loop outlives whatever its tick raises
                self.error = f"{type(error).__name__}: {error}"
                pause = random.uniform(wait / 2, wait)  # noqa: S311 - spreads retries
                wait = min(wait * 2, _MOST_WAIT_S)
                emit(ServiceFailed(service=self.service.name, error=self.error, retry_s=pause))
            self._mark(pause)
            await self._sleep(pause)
        emit(ServiceStopped(service=self.service.name))

    def _mark(self, planned_s: float) -> None:
        self._progress_at, self._planned_s = self._clock.monotonic(), planned_s
        service_progress(self.service.name)

    async def _sleep(self, seconds: float) -> None:
        self._wake.clear()
        if self._stopping.is_set():
            return
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass


class Supervisor:
    """Runs services side by side; `stop` may be called twice and ends them in reverse order of their start."""

    def __init__(self, services: Iterable[Service], clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._loops = [_Loop(service, self._clock) for service in services]
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = asyncio.Event()

    @property
    def services(self) -> list[Service]:
        """The supervised services."""
        return [loop.service for loop in self._loops]

    def health(self) -> list[ServiceHealth]:
        """How each service is."""
        return [loop.health() for loop in self._loops]

    def wake(self, name: str) -> None:
        """Wake the services of that name."""
        for loop in self._loops:
            if loop.service.name == name:
                loop.wake()

    async def start(self) -> None:
        """Start every loop."""
        self._tasks = [asyncio.create_task(loop.run(), name=f"service:{loop.service.name}") for loop in self._loops]

    async def stop(self, *, within_s: float = 30.0) -> None:
        """End the loops, drain, stop. What does not end within `within_s` is cancelled."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        for loop in self._loops:
            loop.end()
        for loop, task in reversed(list(zip(self._loops, self._tasks, strict=False))):
            await self._end(loop.service, task, within_s)

    async def _end(self, service: Service, task: asyncio.Task[None], within_s: float) -> None:
        try:
            async with asyncio.timeout(within_s):
                await asyncio.wait([task])
                await service.drain()
        except Exception as error:  # noqa: BLE001 - ending must go on
            emit(ServiceFailed(service=service.name, error=f"drain: {type(error).__name__}: {error}", retry_s=0.0))
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            try:
                await service.stop()
            except Exception as error:  # noqa: BLE001 - ending must go on
                emit(ServiceFailed(service=service.name, error=f"stop: {type(error).__name__}: {error}", retry_s=0.0))
