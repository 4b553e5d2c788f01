"""The planner: moves each owned shard's cursor to the horizon and writes the occurrences in between.

One window of some shards is one transaction: lock the shards against API writes, check that they are still ours in this
term, insert `schedules x fires`, move the cursor. Fire times are computed once a cadence, for all of its schedules.

    died before commit     nothing was written; the next owner plans the same window
    died after commit      rows and cursor moved together; the next owner goes on behind them
    woke up an hour later  generation or cursor do not match: the transaction writes nothing and is rolled back
"""

import time
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final, Protocol

import asyncpg

from rota.base.db import Database, Row, Transaction, load_queries
from rota.base.errors import DatabaseUnavailable
from rota.base.failpoints import failpoint
from rota.base.json import load_json
from rota.base.model import Policy
from rota.base.service import Service
from rota.base.telemetry import CadenceSetAside, Planned, emit, planned_ahead
from rota.calendar import Timing, TimingError
from rota.coord.coordinator import ShardLease
from rota.plan.decide import Decision, decide

_QUERIES = load_queries(__file__, "planner.sql")
SHARDS_A_TRANSACTION: Final = 32
MAX_WINDOW: Final = timedelta(minutes=15)
_MAX_FIRES: Final = 5_000  # (cadence, fire) pairs of one transaction
_TIMINGS_KEPT: Final = 50_000


class Ownership(Protocol):
    """Who says what this process owns right now; empty as soon as it cannot be sure."""

    def owned(self) -> Sequence[ShardLease]:
        """The shards whose lease is trusted at this moment."""
        ...


class LostShardError(RuntimeError):
    """A shard of the transaction belongs to somebody else by now; nothing was written."""


class Planner(Service):
    """Plans ahead, for as long as it owns shards."""

    name = "planner"

    def __init__(
        self,
        db: Database,
        ownership: Ownership,
        *,
        horizon_s: float = 300.0,
        tick_s: float = 5.0,
        misfire_threshold_s: float = 5.0,
        region: str = "default",
        shards_a_transaction: int = SHARDS_A_TRANSACTION,
    ) -> None:
        self._db = db
        self._ownership = ownership
        self._horizon = timedelta(seconds=horizon_s)
        self._tick_s = tick_s
        self._threshold = timedelta(seconds=misfire_threshold_s)
        self._region = region
        self._chunk = shards_a_transaction
        self._timings: OrderedDict[int, Timing] = OrderedDict()
        self._policies: dict[int, Policy] = {}

    async def tick(self) -> float:
        """Plan every owned shard up to the horizon; at once again if some still lag behind."""
        owned = {one.shard: one for one in self._ownership.owned()}
        if not owned:
            return min(self._tick_s, 0.5)
        positions = await self._db.fetch(
            _QUERIES["shard_positions"], list(owned), [one.generation for one in owned.values()]
        )
        if not positions:
            return min(self._tick_s, 0.5)
        target = positions[0]["now"] + self._horizon
        lags = False
        for planned_through, rows in groupby(positions, key=lambda row: row["planned_through"]):
            if planned_through >= target - timedelta(seconds=self._tick_s / 2):
                continue
            lags |= await self.plan([owned[row["shard"]] for row in rows], planned_through, target)
        planned_ahead.set(await self._db.fetch_value(_QUERIES["planned_ahead"]) or 0.0)
        return 0.0 if lags else self._tick_s

    async def plan(self, shards: Sequence[ShardLease], after: datetime, target: datetime) -> bool:
        """Plan the shards, which all stand at `after`, towards `target`; True if they are not there yet."""
        through = min(target, after + MAX_WINDOW) if target - after > MAX_WINDOW + self._horizon else target
        timings = await self._due(through)
        if target - after > MAX_WINDOW + self._horizon:
            through = self._long_window(timings, after, target)
        await failpoint("plan.after_due_read")
        done = True
        for start in range(0, len(shards), self._chunk):
            done &= await self._plan_chunk(shards[start : start + self._chunk], after, through, timings)
        if done:
            await self._advance_cadences(timings, through)
        return not done or through < target

    def _long_window(self, timings: dict[int, Timing], after: datetime, target: datetime) -> datetime:
        """After an outage everything up to now is late and decided at once: one window, however long."""
        late_edge = target - self._horizon - self._threshold
        return late_edge if late_edge > after else target

    async def _due(self, through: datetime) -> dict[int, Timing]:
        timings: dict[int, Timing] = {}
        for row in await self._db.fetch(_QUERIES["cadence_due"], through):
            timing = await self._timing(row)
            if timing is not None:
                timings[row["cadence_id"]] = timing
        return timings

    async def _timing(self, row: Row) -> Timing | None:
        cadence_id: int = row["cadence_id"]
        timing = self._timings.get(cadence_id)
        if timing is None:
            try:
                timing = Timing.from_json(load_json(row["timing"]))
                timing.next_after(row["next_fire_at"] - timedelta(seconds=1))
            except (TimingError, ValueError, KeyError, TypeError, ArithmeticError) as error:
                # One bad row must not stop its shards: it is set aside, visibly, and the rest goes on.
                reason = f"{type(error).__name__}: {error}"[:500]
                await self._db.execute(_QUERIES["cadence_set_aside"], cadence_id, reason)
                emit(CadenceSetAside(cadence_id=cadence_id, reason=reason))
                return None
            self._timings[cadence_id] = timing
            if len(self._timings) > _TIMINGS_KEPT:
                self._timings.popitem(last=False)
        return timing

    async def _plan_chunk(
        self, chunk: Sequence[ShardLease], after: datetime, through: datetime, timings: dict[int, Timing]
    ) -> bool:
        """One transaction; False if the shards were busy or are not ours any more."""
        started = time.perf_counter()
        shards = [one.shard for one in chunk]
        generations = [one.generation for one in chunk]
        try:
            async with self._db.transaction() as tx:
                await tx.fetch(_QUERIES["planner_limits"])
                await tx.fetch(_QUERIES["shard_lock"], shards)
                rows = await tx.fetch(_QUERIES["shard_owned"], shards, generations, self._region, None)
                if len(rows) != len(shards) or any(row["planned_through"] != after for row in rows):
                    return False
                await failpoint("plan.before_insert")
                now: datetime = rows[0]["now"]
                n = await self._write(tx, shards, after, through, now, timings)
                n_moved = await tx.execute(_QUERIES["shard_advance"], shards, generations, through)
                _check_moved(n_moved, shards)
                await failpoint("plan.before_commit")
        except (asyncpg.LockNotAvailableError, LostShardError):
            return False
        await failpoint("plan.after_commit")
        duration = time.perf_counter() - started
        emit(Planned(n_shards=len(shards), n_occurrences=n, through=through.isoformat(), duration_s=duration))
        return True

    async def _write(
        self,
        tx: Transaction,
        shards: list[int],
        after: datetime,
        through: datetime,
        now: datetime,
        timings: dict[int, Timing],
    ) -> int:
        """The rows of one window: what is late by the misfire policies, the rest as it is."""
        late_edge = min(through, now - self._threshold)
        n = 0
        if late_edge > after:
            n += await self._write_late(tx, shards, after, late_edge, now, timings)
        cadence_ids: list[int] = []
        fire_ats: list[datetime] = []
        for cadence_id, timing in timings.items():
            for fire_at in timing.fires(max(after, late_edge), through):
                cadence_ids.append(cadence_id)
                fire_ats.append(fire_at)
                if len(fire_ats) == _MAX_FIRES:
                    n += await tx.execute(_QUERIES["window_plan"], shards, cadence_ids, fire_ats)
                    cadence_ids, fire_ats = [], []
        if fire_ats:
            n += await tx.execute(_QUERIES["window_plan"], shards, cadence_ids, fire_ats)
        return n + await tx.execute(_QUERIES["window_plan_once"], shards, after, through)

    async def _write_late(
        self,
        tx: Transaction,
        shards: list[int],
        after: datetime,
        edge: datetime,
        now: datetime,
        timings: dict[int, Timing],
    ) -> int:
        groups = await tx.fetch(_QUERIES["window_late_groups"], shards, list(timings), after, edge)
        await self._read_policies(tx, {row["policy_id"] for row in groups})
        runs: list[tuple[Any, ...]] = []
        missed: list[tuple[Any, ...]] = []
        known: dict[tuple[Any, ...], Decision] = {}
        for row in groups:
            policy = self._policies[row["policy_id"]].misfire
            question = (row["cadence_id"], policy, row["since"], row["until"])
            decision = known.get(question)
            if decision is None:
                timing = timings[row["cadence_id"]]
                decision = decide(timing, policy, after=row["since"], through=row["until"], now=now)
                known[question] = decision
            key = (row["cadence_id"], row["policy_id"], row["since"], row["until"])
            runs += [(*key, run.at, str(run.trigger)) for run in decision.runs]
            missed += [(*key, one.first_at, one.last_at, one.n, one.reason) for one in decision.missed]
        n = 0
        if runs:
            n = await tx.execute(_QUERIES["window_plan_late"], shards, after, edge, *map(list, zip(*runs, strict=True)))
        if missed:
            columns = map(list, zip(*missed, strict=True))
            await tx.execute(_QUERIES["window_miss_late"], shards, after, edge, *columns)
        return n

    async def _read_policies(self, tx: Transaction, policy_ids: set[int]) -> None:
        unknown = [policy_id for policy_id in policy_ids if policy_id not in self._policies]
        if unknown:
            for row in await tx.fetch(_QUERIES["policy_read"], unknown):
                self._policies[row["policy_id"]] = Policy.from_json(load_json(row["document"]))

    async def _advance_cadences(self, timings: dict[int, Timing], through: datetime) -> None:
        """Raise the lower bounds, so that the next tick reads only what may fire. Losing this write loses nothing."""
        if not timings:
            return
        following = [timing.next_after(through) for timing in timings.values()]
        try:
            await self._db.execute(_QUERIES["cadence_advance"], list(timings), following, through)
        except DatabaseUnavailable:
            return


def _check_moved(n_moved: int, shards: list[int]) -> None:
    """The cursor of every shard moved in our term, or the whole transaction is rolled back."""
    if n_moved != len(shards):
        raise LostShardError(f"lost one of the shards {shards}")
