"""Heartbeats from a thread of their own, with a loop and a connection of their own: user code cannot block them.

The thread keeps every held lease alive, learns which were lost and which are asked to stop, and watches deadlines: an
attempt past its time is cancelled, and when it does not react its lease is ended here as timed out, whatever its code
does.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from rota.base.db import Database
from rota.base.errors import DatabaseUnavailable, RotaError
from rota.base.model import AttemptOutcome
from rota.base.telemetry import ServiceFailed, emit
from rota.run.lease import Lease, Outcome
from rota.run.outcomes import heartbeat, key_of, write_outcomes

_WATCH_S: Final = 0.25
_STUCK_GRACE_S: Final = 1.0


@dataclass(slots=True, eq=False)
class Held:
    """A lease in this worker's hands. `deadline` and `claimed_at` are monotonic; `cancel` asks its code to stop."""

    lease: Lease
    claimed_at: float
    deadline: float = float("inf")
    cancel: Callable[[str], None] | None = None
    asked: str = ""
    asked_at: float = 0.0
    is_stuck: bool = field(default=False)


class Heartbeats:
    """The thread. `held` is shared: the worker adds and removes, the thread reads a copy."""

    def __init__(
        self,
        dsn: str,
        *,
        worker: str,
        lease_s: float,
        heartbeat_s: float,
        max_losses: int,
        on_stuck: Callable[[Held], None],
        stop_grace_s: float = 10.0,
    ) -> None:
        self._dsn = dsn
        self._worker = worker
        self._lease_s = lease_s
        self._heartbeat_s = heartbeat_s
        self._max_losses = max_losses
        self._on_stuck = on_stuck
        self._stop_grace_s = stop_grace_s
        self.held: dict[int, Held] = {}
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._started: Future[None] = Future()
        self.beat_at = time.monotonic()

    def add(self, held: Held) -> None:
        """Keep this lease alive."""
        self.held[id(held)] = held

    def remove(self, held: Held) -> None:
        """Its outcome is on the way."""
        self.held.pop(id(held), None)

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._main, name="rota-heartbeats", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """End the thread; call it last, heartbeats go on while anything runs."""
        self._stopping.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 10.0)

    def _main(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        db: Database | None = None
        last = time.monotonic()
        try:
            while not self._stopping.is_set():
                await asyncio.sleep(_WATCH_S)
                now = time.monotonic()
                try:
                    if db is None:
                        db = await Database.connect(
                            self._dsn, max_size=2, application_name="rota-heartbeats", wait_s=self._lease_s / 3
                        )
                    if self.held:
                        await self._watch(db, now)
                    due = [held for held in list(self.held.values()) if not held.lease.is_lost]
                    if due and now - last >= min(self._heartbeat_s, self._lease_s / 3):
                        last = now
                        await self._beat(db, due)
                    self.beat_at = time.monotonic()
                except (RotaError, OSError, TimeoutError) as error:
                    text = f"{type(error).__name__}: {error}"
                    emit(ServiceFailed(service="heartbeats", error=text, retry_s=_WATCH_S))
        finally:
            if db is not None:
                await db.close()

    async def _beat(self, db: Database, due: list[Held]) -> None:
        for start in range(0, len(due), 5000):
            some = due[start : start + 5000]
            rows = await heartbeat(db, [held.lease for held in some], self._lease_s)
            alive = {(row["schedule_id"], row["scheduled_for"], row["version"]): row for row in rows}
            for held in some:
                row = alive.get(key_of(held.lease))
                if row is None:
                    if id(held) in self.held and not held.lease.is_lost:
                        held.lease.is_lost = True
                        self._ask(held, "lost")
                elif row["is_cancel_requested"] and not held.lease.is_cancelled:
                    held.lease.is_cancelled = True
                    if held.cancel is not None and not held.asked:
                        held.asked, held.asked_at = "requested", time.monotonic()

    async def _watch(self, db: Database, now: float) -> None:
        stuck: list[Held] = []
        for held in list(self.held.values()):
            if held.is_stuck or held.cancel is None:
                continue
            if held.asked == "requested" and now - held.asked_at > self._stop_grace_s:
                self._ask(held, "cancelled")
            elif not held.asked and now > held.deadline:
                self._ask(held, "timeout")
            elif held.asked in ("timeout", "cancelled") and now - held.asked_at > _STUCK_GRACE_S:
                stuck.append(held)
        if stuck:
            await self._abandon(db, stuck)

    def _ask(self, held: Held, why: str) -> None:
        held.asked, held.asked_at = why, time.monotonic()
        if held.cancel is not None:
            held.cancel(why)

    async def _abandon(self, db: Database, stuck: list[Held]) -> None:
        """Code that ignores its end: the attempt is over all the same, its late result will be refused."""
        ended: list[tuple[Lease, Outcome]] = [(held.lease, _abandoned(held)) for held in stuck if id(held) in self.held]
        for held in stuck:
            held.is_stuck = True
            self.remove(held)
        with contextlib.suppress(DatabaseUnavailable):  # without heartbeats the lease runs out and is rescued
            await write_outcomes(db, ended, worker=self._worker, max_losses=self._max_losses)
        for held in stuck:
            held.lease.is_lost = True
            self._on_stuck(held)


def _abandoned(held: Held) -> Outcome:
    if held.asked == "cancelled":
        return Outcome(outcome=AttemptOutcome.CANCELLED, error="did not stop when asked to")
    return Outcome(
        outcome=AttemptOutcome.TIMED_OUT,
        error_class="Timeout",
        error="did not end at its timeout and ignores cancellation",
    )
