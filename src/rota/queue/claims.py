"""The built-in queue: finds the lanes with due work, lets `fair` choose, and takes the leases.

What a claimer remembers is a hint: which lanes hold rows and when their first one is due, what holds tenants back (for
a second), and how far it has drained each lane. It is read anew all the time; losing it loses nothing.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import asyncpg

from rota.base.db import Database, Executor, Row, load_queries
from rota.base.failpoints import failpoint
from rota.base.model import Overlap
from rota.base.telemetry import claims
from rota.queue.fair import Fairness, Waiting
from rota.queue.lanes import Budget, Hold, Lane, open_budget, read_heads, read_holds, read_lanes
from rota.queue.overlap import Situation, Verdict, judge

_QUERIES = load_queries(__file__, "claim.sql")
_FIRST_AT: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_ID: Final = UUID(int=0)
_LANES_A_SCAN: Final = 2000
_HOLD_S: Final = 1.0
_RESCAN_S: Final = 3.0
Accepts = Callable[[Lane], bool]


@dataclass(slots=True)
class _Known:
    """A lane with rows: when its first is due on our clock, and from where to claim."""

    due_at: float
    from_at: datetime = _FIRST_AT
    from_id: UUID = _FIRST_ID
    since: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What was leased, and in how many seconds more may be due (0: at once)."""

    rows: Sequence[Row]
    wait_s: float


class Claimer:
    """Claims for one worker. `accepts` says which lanes it serves."""

    def __init__(
        self,
        db: Database,
        *,
        worker: str,
        lease_s: float,
        accepts: Accepts,
        poll_s: float = 0.25,
        tenant_id: int | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._db = db
        self._worker = worker
        self._lease_s = lease_s
        self._accepts = accepts
        self._poll_s = poll_s
        self._tenant_id = tenant_id
        self._monotonic = monotonic
        self._fairness = Fairness()
        self._known: dict[int, _Known] = {}
        self._lanes: dict[int, Lane] = {}
        self._holds: dict[int, Hold] = {}
        self._holds_at = -1e9
        self._scanned_at = -1e9
        self._cursor = 0

    async def claim(self, slots: int) -> Claim:
        """Lease up to `slots` due occurrences."""
        now = self._monotonic()
        ready = self._ready(now)
        if now - self._scanned_at >= self._poll_s or not ready:
            await self._scan(now)
            ready = self._ready(self._monotonic())
        if not ready or slots <= 0:
            return Claim(rows=(), wait_s=self._wait(self._monotonic()))
        await self._read_holds(ready, now)
        rows = await self._take(ready, slots)
        if rows:
            claims.inc(len(rows))
            await failpoint("claim.after_commit")
        return Claim(rows=rows, wait_s=0.0 if rows else self._poll_s)

    def _ready(self, now: float) -> list[int]:
        return [lane_id for lane_id, known in self._known.items() if known.due_at <= now]

    def _wait(self, now: float) -> float:
        first = min((known.due_at for known in self._known.values() if known.due_at > now), default=now + self._poll_s)
        return max(0.001, min(self._poll_s, first - now))

    async def _scan(self, now: float) -> None:
        """Which lanes hold rows; a part of them where there are very many, going round."""
        self._scanned_at = now
        heads = await read_heads(self._db, self._cursor, _LANES_A_SCAN, self._tenant_id)
        is_whole = self._cursor == 0 and len(heads) < _LANES_A_SCAN
        self._cursor = heads[-1].lane_id if len(heads) == _LANES_A_SCAN else 0
        unknown = [head.lane_id for head in heads if head.lane_id not in self._lanes]
        if unknown:
            self._lanes |= await read_lanes(self._db, unknown)
        answered = self._monotonic()
        before = self._known if not is_whole else {}
        old, self._known = self._known, dict(before)
        for head in heads:
            lane = self._lanes.get(head.lane_id)
            if lane is None or not self._accepts(lane):
                continue
            known = old.get(head.lane_id) or _Known(0.0, since=answered)
            known.due_at = answered + head.due_in_s
            self._known[head.lane_id] = known

    async def _read_holds(self, ready: Sequence[int], now: float) -> None:
        tenants = {self._lanes[lane_id].tenant_id for lane_id in ready}
        if now - self._holds_at < _HOLD_S and tenants <= self._holds.keys():
            return
        self._holds = await read_holds(self._db, tenants)
        self._holds_at = now

    async def _take(self, ready: Sequence[int], slots: int) -> list[Row]:
        lanes = [self._lanes[lane_id] for lane_id in ready if self._lanes[lane_id].tenant_id in self._holds]
        limited = []
        for lane in lanes:
            hold = self._holds[lane.tenant_id]
            scopes = hold.scopes(lane)
            if scopes and hold.most(lane):
                limited.append((lane, hold, scopes))
        if not limited:
            return await self._claim_from(self._db, lanes, slots, None)
        async with self._db.transaction() as tx:
            budget = await open_budget(tx, limited, self._lanes)
            rows = await self._claim_from(tx, lanes, slots, budget)
            await budget.save(tx)
        return rows

    async def _claim_from(self, tx: Executor, lanes: Sequence[Lane], slots: int, budget: Budget | None) -> list[Row]:
        takes = self._fairness.share([self._waiting(lane, budget) for lane in lanes], slots)
        if budget is not None:
            takes = self._within_budget(takes, budget)
        plain = {one: n for one, n in takes.items() if self._lanes[one].overlap is Overlap.ALLOW}
        rows = await self._claim_plain(tx, plain) if plain else []
        exclusive = {one: n for one, n in takes.items() if one not in plain}
        if exclusive:
            rows += await self._claim_exclusive(tx, exclusive)
        if budget is not None:
            for row in rows:
                lane = self._lanes[row["lane_id"]]
                budget.spend(lane.tenant_id, self._holds[lane.tenant_id].scopes(lane), 1)
        return rows

    def _waiting(self, lane: Lane, budget: Budget | None) -> Waiting:
        hold = self._holds[lane.tenant_id]
        most = hold.most(lane)
        if budget is not None and most:
            most = min(most, budget.most(lane.tenant_id, hold.scopes(lane)))
        return Waiting(
            lane_id=lane.lane_id,
            tenant_id=lane.tenant_id,
            priority=lane.priority,
            weight=hold.weight,
            age_s=max(0.0, self._monotonic() - self._known[lane.lane_id].due_at),
            most=most,
        )

    def _within_budget(self, takes: dict[int, int], budget: Budget) -> dict[int, int]:
        """Lanes that share a limit were each promised all of it: deal it out."""
        left: dict[tuple[int, str], int] = {}
        allowed: dict[int, int] = {}
        for lane_id, n in takes.items():
            lane = self._lanes[lane_id]
            scopes = self._holds[lane.tenant_id].scopes(lane)
            keys = [(lane.tenant_id, scope) for scope in scopes]
            for key in keys:
                left.setdefault(key, budget.most(key[0], [key[1]]))
            most = min([n, *(left[key] for key in keys)])
            for key in keys:
                left[key] -= most
            if most > 0:
                allowed[lane_id] = most
        return allowed

    async def _claim_plain(self, tx: Executor, takes: dict[int, int]) -> list[Row]:
        now = self._monotonic()
        for lane_id in takes:
            known = self._known[lane_id]
            if now - known.since > _RESCAN_S:  # look at the whole lane again: something may have come in behind us
                known.from_at, known.from_id, known.since = _FIRST_AT, _FIRST_ID, now
        marks = [self._known[lane_id] for lane_id in takes]
        rows = await tx.fetch(
            _QUERIES["occurrence_claim"],
            list(takes),
            list(takes.values()),
            [known.from_at for known in marks],
            [known.from_id for known in marks],
            self._worker,
            self._lease_s,
        )
        counts = dict.fromkeys(takes, 0)
        for row in rows:
            lane_id = row["lane_id"]
            counts[lane_id] += 1
            known = self._known[lane_id]
            known.from_at, known.from_id = row["available_at"], row["schedule_id"]
        for lane_id, n in counts.items():
            if n < takes[lane_id]:
                self._dry(lane_id, now)
        return rows

    def _dry(self, lane_id: int, now: float) -> None:
        """Nothing more was due: wait for the next scan, and claim from the lane's front again."""
        known = self._known[lane_id]
        known.from_at, known.from_id, known.since = _FIRST_AT, _FIRST_ID, now
        known.due_at = max(known.due_at, now + self._poll_s)

    async def _claim_exclusive(self, tx: Executor, takes: dict[int, int]) -> list[Row]:
        """Lanes that may not overlap. A lost race against the unique index leaves everything as it was."""
        try:
            if isinstance(tx, Database):
                async with tx.transaction() as own:
                    return await self._judge(own, takes)
            return await self._judge(tx, takes)
        except asyncpg.UniqueViolationError:
            if isinstance(tx, Database):
                return []
            raise

    async def _judge(self, tx: Executor, takes: dict[int, int]) -> list[Row]:
        # Judge more than may start: those that wait must not hide those behind them.
        looks = [max(4 * n, 50) for n in takes.values()]
        due = await tx.fetch(_QUERIES["occurrence_judge"], list(takes), looks)
        now = self._monotonic()
        for lane_id in takes:
            self._known[lane_id].due_at = now + self._poll_s / 2
        sorted_out: dict[Verdict, list[Row]] = {verdict: [] for verdict in Verdict}
        overlaps = {self._lanes[lane_id].overlap for lane_id in takes}
        by_lane = {lane_id: self._lanes[lane_id].overlap for lane_id in takes}
        for row in due:
            overlap = by_lane.get(row["lane_id"], next(iter(overlaps)))
            situation = Situation(
                is_retry=row["is_retry"],
                has_running=row["has_running"],
                has_retrying=row["has_retrying"],
                has_earlier=row["has_earlier"],
                has_later=row["has_later"],
            )
            sorted_out[judge(overlap, situation)].append(row)
        if sorted_out[Verdict.SKIP]:
            await tx.execute(_QUERIES["occurrence_skip"], *_keys(sorted_out[Verdict.SKIP]))
        if sorted_out[Verdict.STOP_RUNNING]:
            shards, ids, _, _ = _keys(sorted_out[Verdict.STOP_RUNNING])
            await tx.execute(_QUERIES["occurrence_stop"], shards, ids)
        start = _first_of_each(sorted_out[Verdict.START])[: sum(takes.values())]
        if not start:
            return []
        return await tx.fetch(_QUERIES["occurrence_claim_judged"], *_keys(start), self._worker, self._lease_s)


def _first_of_each(rows: Sequence[Row]) -> list[Row]:
    """At most one of a schedule, the earliest."""
    first: dict[UUID, Row] = {}
    for row in rows:
        known = first.get(row["schedule_id"])
        if known is None or row["scheduled_for"] < known["scheduled_for"]:
            first[row["schedule_id"]] = row
    return list(first.values())


def _keys(rows: Sequence[Row]) -> tuple[list[object], list[object], list[object], list[object]]:
    return (
        [row["shard"] for row in rows],
        [row["schedule_id"] for row in rows],
        [row["scheduled_for"] for row in rows],
        [row["version"] for row in rows],
    )
