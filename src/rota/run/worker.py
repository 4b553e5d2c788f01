"""The worker: claims ahead of its slots, runs attempts in them, writes outcomes behind them, drains when told to.

died at any point      its leases run out and are rescued; what had an effect is repeated with the same run key
SIGTERM                stops claiming, gives back what has not started, waits for what runs, then interrupts it
loop blocked by code   heartbeats go on in their own thread; deadlines are watched there too
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from rota.base.db import Database, Row, load_queries
from rota.base.json import load_json
from rota.base.model import AttemptOutcome, Policy
from rota.base.service import Service
from rota.base.telemetry import schedule_lag, slots_stuck, slots_used
from rota.queue.claims import Claimer
from rota.queue.lanes import Lane
from rota.run.executor import Executor
from rota.run.heartbeats import Heartbeats, Held
from rota.run.lease import Lease, Outcome
from rota.run.outcomes import OutcomeWriter, give_back

_QUERIES = load_queries(__file__, "attempts.sql")
_AHEAD_S: Final = 0.15  # how much work is claimed ahead, by the rate of late
_YIELD_EVERY: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker works; see Settings for the meaning of each."""

    slots: int = 64
    claim_batch: int = 500
    lease_s: float = 30.0
    heartbeat_s: float = 10.0
    poll_s: float = 0.25
    drain_s: float = 30.0
    max_losses: int = 10


class Worker(Service):
    """One worker. `accepts` says which lanes it serves."""

    name = "worker"

    def __init__(
        self,
        db: Database,
        executor: Executor,
        *,
        worker: str,
        accepts: Callable[[Lane], bool],
        options: WorkerOptions,
        on_recycle: Callable[[], None] | None = None,
    ) -> None:
        self._db = db
        self._executor = executor
        self._options = options
        self._on_recycle = on_recycle
        self._claimer = Claimer(db, worker=worker, lease_s=options.lease_s, accepts=accepts, poll_s=options.poll_s)
        self._writer = OutcomeWriter(db, worker=worker, max_losses=options.max_losses)
        self._beats = Heartbeats(
            db.dsn,
            worker=worker,
            lease_s=options.lease_s,
            heartbeat_s=options.heartbeat_s,
            max_losses=options.max_losses,
            on_stuck=self._stuck,
        )
        self._policies: dict[int, Policy] = {}
        self._ready: deque[Held] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._slots: list[_Slot] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._freed = asyncio.Event()
        self._quiet = asyncio.Event()
        self._n_running = 0
        self._n_done = 0
        self._rate = 0.0
        self._measured = (0, time.monotonic())
        self.n_stuck = 0
        self._is_draining = False

    async def start(self) -> None:
        """Start heartbeats, slots and the writer."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(2 * self._options.slots + 8, "rota-handler"))
        self._beats.start()
        self._tasks.append(asyncio.create_task(self._writer.run(), name="outcomes"))
        for _ in range(self._options.slots):
            self._add_slot()

    def _add_slot(self) -> None:
        slot = _Slot(self)
        self._slots.append(slot)
        slot.task = asyncio.create_task(slot.run(), name="slot")

    async def tick(self) -> float:
        """Claim as much as the slots can take soon."""
        wanted = self._capacity()
        if wanted <= 0 or not self._writer.has_room:
            self._freed.clear()
            try:
                async with asyncio.timeout(self._options.poll_s):
                    await self._freed.wait()
            except TimeoutError:
                pass
            return 0.0
        claim = await self._claimer.claim(min(wanted, max(self._options.claim_batch, int(self._rate * _AHEAD_S))))
        if claim.rows:
            self._take_in(await self._leases(claim.rows))
        slots_used.set(self._n_running)
        return claim.wait_s

    def _capacity(self) -> int:
        done, at = self._measured
        now = time.monotonic()
        if now - at >= 0.05:
            rate = (self._n_done - done) / (now - at)
            self._rate = max(rate, 0.7 * self._rate + 0.3 * rate)
            self._measured = (self._n_done, now)
        free = self._options.slots - self._n_running
        return free + int(self._rate * _AHEAD_S) - len(self._ready)

    async def _leases(self, rows: Sequence[Row]) -> list[Lease]:
        unknown = {row["policy_id"] for row in rows} - self._policies.keys()
        if unknown:
            for row in await self._db.fetch(_QUERIES["policy_read"], list(unknown)):
                self._policies[row["policy_id"]] = Policy.from_json(load_json(row["document"]))
        return [lease_of(row, self._policies[row["policy_id"]]) for row in rows]

    def _take_in(self, leases: list[Lease]) -> None:
        now = time.monotonic()
        schedule_lag.observe_many(
            max(0.0, (lease.started_at - lease.scheduled_for).total_seconds()) for lease in leases if lease.attempt == 1
        )
        for lease in leases:
            if lease.is_expired:
                self._writer.put(lease, Outcome(outcome=AttemptOutcome.LOST, error="started too late"))
                continue
            held = Held(lease=lease, claimed_at=now)
            self._beats.add(held)
            self._ready.append(held)
        for _ in range(min(len(self._ready), len(self._idle))):
            waiting = self._idle.popleft()
            if not waiting.done():
                waiting.set_result(None)

    async def take(self) -> Held:
        """The next claimed occurrence, for a free slot."""
        while not self._ready:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(waiting)
            await waiting
        self._n_running += 1
        return self._ready.popleft()

    def done(self, held: Held, outcome: Outcome | None) -> None:
        """A slot is free again."""
        self._n_running -= 1
        self._n_done += 1
        self._freed.set()
        if not self._n_running:
            self._quiet.set()
        if held.is_stuck:
            return
        self._beats.remove(held)
        if outcome is not None:
            self._writer.put(held.lease, outcome)

    def begin(self, held: Held, slot: "_Slot") -> None:
        """The attempt starts now: its deadline counts from here."""
        timeout = self._executor.timeout_of(held.lease)
        if timeout is not None:
            held.deadline = time.monotonic() + timeout.total_seconds()
        held.cancel = slot.ask

    async def run(self, lease: Lease) -> Outcome:
        """The attempt itself."""
        return await self._executor.execute(lease)

    def call_soon(self, call: Callable[..., None], *args: object) -> None:
        """Into the worker's loop from another thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *args)

    def _stuck(self, held: Held) -> None:
        """From the heartbeat thread: a slot is held by code that does not end."""
        self.call_soon(self._replace_slot)

    def _replace_slot(self) -> None:
        self.n_stuck += 1
        slots_stuck.set(self.n_stuck)
        self._n_running -= 1
        if self.n_stuck <= self._options.slots and not self._is_draining:
            self._add_slot()
        if self.n_stuck >= self._options.slots and self._on_recycle is not None:
            self._on_recycle()

    async def drain(self) -> None:
        """Give back what has not started, wait for what runs, interrupt what does not end in time."""
        self._is_draining = True
        unstarted = list(self._ready)
        self._ready.clear()
        for held in unstarted:
            self._beats.remove(held)
        await give_back(self._db, [held.lease for held in unstarted])
        await self._wait_quiet(self._options.drain_s)
        for slot in self._slots:
            if slot.current is not None and not slot.current.is_stuck:
                slot.ask("interrupted")
        await self._wait_quiet(2.0)
        for slot in self._slots:
            slot.end()
        await self._writer.flush()

    async def _wait_quiet(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while any(slot.current is not None and not slot.current.is_stuck for slot in self._slots):
                    self._quiet.clear()
                    try:
                        async with asyncio.timeout(0.1):
                            await self._quiet.wait()
                    except TimeoutError:
                        continue
        except TimeoutError:
            return

    async def stop(self) -> None:
        """Let go of everything."""
        for slot in self._slots:
            slot.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._beats.stop()


class _Slot:
    """Runs one attempt after the other."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.current: Held | None = None
        self.why = ""
        self.task: asyncio.Task[None] | None = None

    def ask(self, why: str) -> None:
        """End the attempt that runs now (any thread): `timeout`, `cancelled`, `lost` or `interrupted`."""
        held = self.current
        self._worker.call_soon(self._cancel, held, why)

    def _cancel(self, held: Held | None, why: str) -> None:
        if held is not None and self.current is held and self.task is not None:
            self.why = why
            self.task.cancel()

    def end(self) -> None:
        """End the slot itself."""
        if self.task is not None:
            self.task.cancel()

    async def run(self) -> None:
        """Until the slot is ended."""
        n = 0
        while True:
            held = await self._worker.take()
            self.current, self.why = held, ""
            outcome = await self._attempt(held)
            self.current = None
            if held.is_stuck:
                return  # another slot has taken its place
            self._worker.done(held, outcome)
            n += 1
            if n % _YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _attempt(self, held: Held) -> Outcome | None:
        lease = held.lease
        if lease.is_lost:
            return None
        self._worker.begin(held, self)
        try:
            outcome = await self._worker.run(lease)
        except asyncio.CancelledError:
            if not self.why or self.task is None:
                raise
            self.task.uncancel()
            return _ended(self.why)
        if lease.is_cancelled and outcome.outcome is not AttemptOutcome.SUCCEEDED:
            return Outcome(outcome=AttemptOutcome.CANCELLED, error=outcome.error)
        return outcome


def _ended(why: str) -> Outcome | None:
    match why:
        case "timeout":
            return Outcome(outcome=AttemptOutcome.TIMED_OUT, error_class="Timeout", error="did not end in its time")
        case "cancelled":
            return Outcome(outcome=AttemptOutcome.CANCELLED, error="stopped, as it was asked to")
        case "interrupted":
            return Outcome(outcome=AttemptOutcome.INTERRUPTED, error="interrupted: its worker stops")
        case _:
            return None  # the lease is lost: nothing we say counts any more


_COLUMNS = itemgetter(
    "schedule_id", "version", "scheduled_for", "shard", "tenant_id", "lane_id", "attempt", "failures", "losses",
    "token", "started_at", "available_at", "planned_at", "trigger", "target", "payload", "schedule_name", "is_expired",
)  # fmt: skip


def lease_of(row: Row, policy: Policy) -> Lease:
    """The lease of a claimed row."""
    values: tuple[Any, ...] = (*_COLUMNS(row), policy)
    return Lease(*values)
