"""Time as a dependency: facts come from `now`, waits from `monotonic` and `sleep`.

What is due and whose lease holds is never asked here but of the database (`rota_now()`).
"""

import asyncio
import heapq
import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """What a component may know of time."""

    def now(self) -> datetime:
        """This node's wall clock, aware UTC: for logs and for measuring its offset, never for decisions."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow; unaffected by changes of the wall clock."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Come back after so many monotonic seconds."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """The wall clock, aware UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """The monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep for real."""
        await asyncio.sleep(max(seconds, 0))


class FakeClock:
    """A clock that stands still until it is told to advance; sleepers wake in order of their time."""

    def __init__(self, start: datetime) -> None:
        self._now = start.astimezone(UTC)
        self._monotonic = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def now(self) -> datetime:
        """The instant it was set to."""
        return self._now

    def monotonic(self) -> float:
        """Seconds advanced since it was made."""
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was advanced that far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._monotonic + seconds, next(self._numbers), woken))
        await woken

    def advance(self, seconds: float) -> None:
        """Move on and wake whose time has come."""
        self._monotonic += seconds
        self._now += timedelta(seconds=seconds)
        while self._sleepers and self._sleepers[0][0] <= self._monotonic:
            _, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
