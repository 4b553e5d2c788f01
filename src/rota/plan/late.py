"""Recovery: fires whose time passed while nobody planned, decided set-based per cadence and policy."""

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from rota.base.db import Transaction, load_queries
from rota.base.model import MisfirePolicy, PolicyId
from rota.catalog import policies
from rota.plan import occurrences
from rota.plan.decide import Decision, Missed, Once, Rhythm, decide
from rota.plan.occurrences import Put
from rota.plan.timings import Timings

_QUERIES = load_queries(__file__, "late.sql")
_MAX_POLICIES = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LateWindow:
    """The fires of (after, through] are late at `now`. Aware UTC, the cell's time."""

    after: datetime
    through: datetime
    now: datetime


@dataclass(slots=True)
class Recovered:
    """What a recovery did: how many occurrences it planned, how many fires were missed and why."""

    n_planned: int = 0
    missed: Counter[str] = field(default_factory=Counter)


class Recovery:
    """Decides and writes late windows for groups of shards, within the plan transaction."""

    def __init__(self, timings: Timings) -> None:
        self._timings = timings
        self._policies: OrderedDict[int, MisfirePolicy] = OrderedDict()

    async def recover(
        self, tx: Transaction, shards: Sequence[int], window: LateWindow, cadence_ids: Sequence[int]
    ) -> Recovered:
        """Plan what the policies let run, record the rest. The cadences are those that may fire in the window."""
        done = Recovered()
        pairs = await tx.fetch(_QUERIES["late_pairs"], shards, cadence_ids, window.after, window.through)
        await self._learn_policies(tx, {row["policy_id"] for row in pairs})
        decisions = [
            (row["cadence_id"], row["policy_id"], decision)
            for row in pairs
            if (decision := self._decide(self._timings.get(row["cadence_id"]), row["policy_id"], window)) is not None
        ]
        await self._write_whole(tx, shards, window, decisions, done)
        await self._write_partly(tx, shards, window, cadence_ids, done)
        return done

    async def _write_whole(
        self,
        tx: Transaction,
        shards: Sequence[int],
        window: LateWindow,
        decisions: Sequence[tuple[int, int, Decision]],
        done: Recovered,
    ) -> None:
        fires = [(c, p, fire) for c, p, decision in decisions for fire in decision.fires]
        missed = [(c, p, one) for c, p, decision in decisions for one in decision.missed]
        bounds = (shards, window.after, window.through)
        if fires:
            done.n_planned += await tx.execute(_QUERIES["late_plan"], *bounds, *map(list, zip(*fires, strict=True)))
        if missed:
            rows = await tx.fetch(
                _QUERIES["late_miss"],
                *bounds,
                [cadence_id for cadence_id, _, _ in missed],
                [policy_id for _, policy_id, _ in missed],
                *occurrences.missed_columns([one for _, _, one in missed]),
            )
            done.missed.update({row["reason"]: row["n_missed"] for row in rows})

    async def _write_partly(
        self,
        tx: Transaction,
        shards: Sequence[int],
        window: LateWindow,
        cadence_ids: Sequence[int],
        done: Recovered,
    ) -> None:
        rows = await tx.fetch(_QUERIES["late_partly"], shards, cadence_ids, window.after, window.through)
        once = await tx.fetch(_QUERIES["late_once"], shards, window.after, window.through)
        await self._learn_policies(tx, {row["policy_id"] for row in (*rows, *once)})
        known: dict[object, Decision | None] = {}
        decided: list[tuple[UUID, Decision]] = []
        for row in rows:
            after = max(window.after, row["active_from"])
            through = window.through if row["active_until"] is None else min(window.through, row["active_until"])
            key = (row["cadence_id"], row["policy_id"], after, through)
            if key not in known:
                part = LateWindow(after=after, through=through, now=window.now)
                known[key] = self._decide(self._timings.get(row["cadence_id"]), row["policy_id"], part)
            if (decision := known[key]) is not None:
                decided.append((row["schedule_id"], decision))
        decided += [
            (row["schedule_id"], decision)
            for row in once
            if (decision := self._decide(Once(row["fire_at"]), row["policy_id"], window)) is not None
        ]
        await put_decided(tx, decided, done)

    async def _learn_policies(self, tx: Transaction, policy_ids: Collection[int]) -> None:
        missing = {PolicyId(policy_id) for policy_id in policy_ids if policy_id not in self._policies}
        if missing:
            found = await policies.get_policies(tx, missing)
            self._policies.update({policy_id: policy.misfire for policy_id, policy in found.items()})
        while len(self._policies) > max(_MAX_POLICIES, len(policy_ids)):
            self._policies.popitem(last=False)

    def _decide(self, rhythm: Rhythm | None, policy_id: int, window: LateWindow) -> Decision | None:
        if rhythm is None:
            return None
        return decide(rhythm, self._policies[policy_id], window.after, window.through, window.now)


async def put_decided(tx: Transaction, decided: Iterable[tuple[UUID, Decision]], done: Recovered) -> None:
    """Write the decisions of single schedules."""
    puts: list[Put] = []
    missed: list[tuple[UUID, Missed]] = []
    for schedule_id, decision in decided:
        puts += [Put(schedule_id=schedule_id, fire_at=fire, is_late=True) for fire in decision.fires]
        missed += [(schedule_id, one) for one in decision.missed]
    done.n_planned += await occurrences.put(tx, puts)
    done.missed.update(await occurrences.put_missed(tx, missed))
