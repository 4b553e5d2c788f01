"""The tick: cadence fires x schedules become occurrences, shard by shard, up to the horizon.

For the shards this node holds: read the cursors and the clock of the cell, compute the fires of the cadences that are
due once for all of them, then per group of shards one transaction: lock against edits, insert, move the cursor under
the fence. What was due while nobody planned goes through the misfire policies first (`late.py`).

| died, or lost the shard | then |
| --- | --- |
| before commit | nothing is written; whoever owns the shard plans the same window from the same cursor |
| after commit | rows and cursor moved together; the next window begins behind them |
| frozen in the transaction | the database ends it after half a lease; the cursor has not moved |
| commit without an answer | the next tick reads the cursor, which says what holds |
| another owner meanwhile | the fence (owner, generation, cursor) touches too few rows: all is rolled back |
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from rota.base import telemetry
from rota.base.clock import Clock
from rota.base.db import Database, LockTimeout, Transaction, load_queries
from rota.base.failpoints import failpoint
from rota.base.model import Shard
from rota.base.service import Service
from rota.base.telemetry import Planned, emit
from rota.coord.coordinator import Coordinator, ShardLease, Term
from rota.plan.late import LateWindow, Recovered, Recovery
from rota.plan.timings import Timings

_QUERIES = load_queries(__file__, "planner.sql")
# A window that is not late is at most so long, so that a transaction stays bounded however far the horizon is.
_MAX_WINDOW = timedelta(minutes=10)
_MAX_PAIRS = 500_000
_PAIRS_A_STATEMENT = 50_000
_MAX_CHUNK, _MAX_LATE_CHUNK = 64, 16
_ROWS_A_CHUNK = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What one pass plans: the fires of (after, through], late or not, with what is needed to write them."""

    after: datetime
    through: datetime
    late: LateWindow | None
    cadence_ids: Sequence[int]
    pairs: Sequence[tuple[int, datetime]] = ()


class _ShardLost(Exception):
    """The fence refused: somebody else owns a shard, or the region's term has ended."""


class Planner(Service):
    """Plans the shards that its coordinator gives it."""

    name = "planner"
    max_silence_s = 120.0

    def __init__(
        self,
        db: Database,
        coordinator: Coordinator,
        *,
        clock: Clock,
        horizon_s: float = 300.0,
        tick_s: float = 5.0,
        misfire_threshold_s: float = 5.0,
        shard_lease_s: float = 10.0,
    ) -> None:
        self._db = db
        self._coordinator = coordinator
        self._clock = clock
        self._horizon = timedelta(seconds=horizon_s)
        self._threshold = timedelta(seconds=misfire_threshold_s)
        self._tick_s = tick_s
        self._idle_ms = str(max(1000, round(shard_lease_s * 500)))
        self._timings = Timings(db)
        self._recovery = Recovery(self._timings)

    async def tick(self) -> float:
        """Plan every held shard up to the horizon; the seconds until the next call."""
        held, term = self._coordinator.held(), self._coordinator.term
        if not held or term is None:
            return min(1.0, self._tick_s)
        start = self._clock.monotonic()
        leases = sorted(held.values(), key=lambda lease: lease.shard)
        rows = await self._db.fetch(
            _QUERIES["cursor_read"],
            self._coordinator.node_id,
            [lease.shard for lease in leases],
            [lease.generation for lease in leases],
        )
        if not rows:
            return min(1.0, self._tick_s)
        now: datetime = rows[0]["now"]
        groups: dict[datetime, list[ShardLease]] = {}
        for row in rows:
            groups.setdefault(row["planned_through"], []).append(held[row["shard"]])
        for planned_through, group in sorted(groups.items()):
            await self._plan_group(planned_through, group, term, now)
        await self._advance_cadences()
        spent = self._clock.monotonic() - start
        return max(0.0, self._tick_s - spent)

    async def _plan_group(self, after: datetime, leases: list[ShardLease], term: Term, now: datetime) -> None:
        """Shards with one cursor, window after window."""
        start = self._clock.monotonic()
        goal, first, total = now + self._horizon, after, 0
        while after < goal and leases:
            window = await self._next_window(after, goal, now)
            await failpoint("plan.after_due_read")
            leases, n_rows = await self._plan_window(window, leases, term)
            after, total = window.through, total + n_rows
        if total or after > first:
            emit(
                Planned(
                    n_shards=len(leases),
                    n_occurrences=total,
                    through=after.isoformat(),
                    duration_s=self._clock.monotonic() - start,
                )
            )

    async def _next_window(self, after: datetime, goal: datetime, now: datetime) -> Window:
        """What is late is one window, since a policy decides about all of it at once; the rest comes in pieces."""
        late_until = now - self._threshold
        if after < late_until:
            late = LateWindow(after=after, through=late_until, now=now)
            due = await self._due_cadences(late_until)
            return Window(after=after, through=late_until, late=late, cadence_ids=due)
        through = min(goal, after + _MAX_WINDOW)
        due = await self._due_cadences(through)
        while True:
            pairs: list[tuple[int, datetime]] = []
            for cadence_id in due:
                pairs += [(cadence_id, fire) for fire in await self._timings.fires(cadence_id, after, through)]
                if len(pairs) > _MAX_PAIRS:
                    break
            if len(pairs) <= _MAX_PAIRS or through - after <= timedelta(seconds=1):
                return Window(after=after, through=through, late=None, cadence_ids=due, pairs=pairs)
            through = after + (through - after) / 4

    async def _due_cadences(self, through: datetime) -> list[int]:
        due = [row["cadence_id"] for row in await self._db.fetch(_QUERIES["cadence_due"], through)]
        await self._timings.learn(due)
        return due

    async def _plan_window(self, window: Window, leases: list[ShardLease], term: Term) -> tuple[list[ShardLease], int]:
        """The shards that are planned up to the window's end now, and the rows written.

        The first shard goes alone: ids spread schedules evenly, so it tells how many fit into one transaction.
        """
        done: list[ShardLease] = []
        busy: list[ShardLease] = []
        n_rows, size = 0, 1
        left = list(leases)
        while left:
            chunk, left = left[:size], left[size:]
            planned, n_chunk = await self._plan_chunk(window, chunk, term, waits=False)
            done += planned
            n_rows += n_chunk
            busy += [lease for lease in chunk if lease not in planned]
            if planned:
                most = _MAX_CHUNK if window.late is None else _MAX_LATE_CHUNK
                size = max(1, min(most, _ROWS_A_CHUNK * len(planned) // max(1, n_chunk)))
        for lease in busy:
            planned, n_chunk = await self._plan_chunk(window, [lease], term, waits=True)
            done += planned
            n_rows += n_chunk
        return done, n_rows

    async def _plan_chunk(
        self, window: Window, leases: Sequence[ShardLease], term: Term, *, waits: bool
    ) -> tuple[list[ShardLease], int]:
        """One transaction: all of the shards that are free and ours, or none."""
        held = self._coordinator.held()
        leases = [lease for lease in leases if held.get(lease.shard) is not None]
        leases = [lease for lease in leases if held[lease.shard].generation == lease.generation]
        if not leases:
            return [], 0
        try:
            async with self._db.transaction() as tx:
                planned, recovered = await self._write_chunk(tx, window, leases, term, waits=waits)
                await failpoint("plan.before_commit")
        except (_ShardLost, LockTimeout):
            return [], 0
        await failpoint("plan.after_commit")
        _count(recovered, is_late=window.late is not None)
        return planned, recovered.n_planned

    async def _write_chunk(
        self, tx: Transaction, window: Window, leases: Sequence[ShardLease], term: Term, *, waits: bool
    ) -> tuple[list[ShardLease], Recovered]:
        await tx.fetch(_QUERIES["plan_settings"], self._idle_ms, "1000")
        if waits:
            await tx.fetch(_QUERIES["shard_lock"], leases[0].shard)
        else:
            free = {row["shard"] for row in await tx.fetch(_QUERIES["shard_lock_free"], [x.shard for x in leases])}
            leases = [lease for lease in leases if lease.shard in free]
        mine = await self._still_at(tx, leases, window.after)
        leases = [lease for lease in leases if lease.shard in mine]
        if not leases:
            return [], Recovered()
        shards = [lease.shard for lease in leases]
        window = await self._with_new_cadences(tx, window)
        await failpoint("plan.before_insert")
        if window.late is not None:
            recovered = await self._recovery.recover(tx, shards, window.late, window.cadence_ids)
        else:
            recovered = Recovered(n_planned=await self._insert(tx, shards, window))
        if await tx.fetch_value(_QUERIES["region_hold"], term.region, term.generation) is None:
            raise _ShardLost
        generations = [lease.generation for lease in leases]
        fence = (self._coordinator.node_id, shards, generations, window.after, window.through)
        if await tx.execute(_QUERIES["cursor_advance"], *fence) != len(leases):
            raise _ShardLost
        return list(leases), recovered

    async def _with_new_cadences(self, tx: Transaction, window: Window) -> Window:
        """The window with what was created after its fires were computed and before the locks were had.

        Whoever creates a schedule plans it up to the cursor alone, so behind the cursor it has to be found here.
        """
        known = window.cadence_ids
        rows = await tx.fetch(_QUERIES["cadence_due_more"], window.through, known)
        new = [row["cadence_id"] for row in rows]
        if not new:
            return window
        await self._timings.learn(new)
        pairs = list(window.pairs)
        if window.late is None:
            for cadence_id in new:
                fires = await self._timings.fires(cadence_id, window.after, window.through)
                pairs += [(cadence_id, fire) for fire in fires]
        return replace(window, cadence_ids=[*known, *new], pairs=pairs)

    async def _still_at(self, tx: Transaction, leases: Sequence[ShardLease], after: datetime) -> set[Shard]:
        """Those whose cursor, read under the lock, is where the window begins."""
        rows = await tx.fetch(
            _QUERIES["cursor_read"],
            self._coordinator.node_id,
            [lease.shard for lease in leases],
            [lease.generation for lease in leases],
        )
        return {row["shard"] for row in rows if row["planned_through"] == after}

    async def _insert(self, tx: Transaction, shards: Sequence[int], window: Window) -> int:
        total = 0
        for start in range(0, len(window.pairs), _PAIRS_A_STATEMENT):
            pairs = window.pairs[start : start + _PAIRS_A_STATEMENT]
            total += await tx.execute(
                _QUERIES["window_plan"], shards, [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            )
        return total + await tx.execute(_QUERIES["window_plan_once"], shards, window.after, window.through)

    async def _advance_cadences(self) -> None:
        """Move the lower bounds on to the first fire that not every shard has planned."""
        row = await self._db.fetch_row(_QUERIES["cursor_lowest"])
        if row is None:
            return
        lowest: datetime = row["planned_through"]
        telemetry.planned_ahead.set((lowest - row["now"]).total_seconds())
        nexts: dict[int, datetime | None] = {}
        for cadence_id in await self._due_cadences(lowest):
            is_known, following = await self._timings.following(cadence_id, lowest)
            if is_known:
                nexts[cadence_id] = following
        if nexts:
            await self._db.execute(_QUERIES["cadence_advance"], lowest, list(nexts), list(nexts.values()))


def _count(recovered: Recovered, *, is_late: bool) -> None:
    missed: Mapping[str, int] = Counter(recovered.missed)
    telemetry.occurrences_planned.labels("catch_up" if is_late else "timing").inc(recovered.n_planned)
    for reason, n in missed.items():
        telemetry.occurrences_missed.labels(reason).inc(n)
