"""The part of the horizon that a shard's cursor has passed already: edits plan it themselves, in their own transaction.

Edits and planner exclude each other per shard by an advisory lock of the transaction, edits shared, the planner
exclusive. So the cursor that an edit reads stands still until it commits, and no fire falls between the two.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from rota.base.db import Transaction, load_queries
from rota.base.model import MisfirePolicy, shard_of
from rota.plan import occurrences
from rota.plan.decide import Decision, Rhythm, decide
from rota.plan.late import Recovered, put_decided
from rota.plan.occurrences import Put

_QUERIES = load_queries(__file__, "shard_edits.sql")
# A node that freezes within an edit is cut off by the database after this; it holds its shards against planners.
_IDLE_MS, _LOCK_MS = "10000", "10000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """The moment of an edit, by the cell's clock, and how far each of its shards is planned. Aware UTC."""

    now: datetime
    through: Mapping[int, datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A schedule in its new version and from when on it has to be planned. rhythm None: it cannot be computed.

    With a misfire policy, fires that are late by more than the threshold are decided; without one, all run at once.
    """

    schedule_id: UUID
    rhythm: Rhythm | None
    after: datetime
    until: datetime | None
    misfire: MisfirePolicy | None = None


async def limit_waits(tx: Transaction) -> None:
    """Bound what a frozen or blocked edit may do to others. Call it first in the transaction."""
    await tx.fetch(_QUERIES["edit_settings"], _IDLE_MS, _LOCK_MS)


async def open_shards(tx: Transaction, schedule_ids: Collection[UUID]) -> Instant:
    """Lock the shards of schedules against the planner until commit, and read their cursors."""
    shards = sorted({shard_of(schedule_id) for schedule_id in schedule_ids})
    await tx.fetch(_QUERIES["shard_lock_shared"], shards)
    rows = await tx.fetch(_QUERIES["shard_instant"], shards)
    return Instant(now=rows[0]["now"], through={row["shard"]: row["planned_through"] for row in rows})


async def plan_passed(
    tx: Transaction, passed: Sequence[Passed], instant: Instant, *, threshold: timedelta = timedelta(0)
) -> Recovered:
    """Plan new versions up to the cursors of their shards. Equal work is computed once."""
    done = Recovered()
    puts: list[Put] = []
    decided: list[tuple[UUID, Decision]] = []
    known_fires: dict[object, list[datetime]] = {}
    known_decisions: dict[object, Decision] = {}
    for one in passed:
        rhythm = one.rhythm
        through = instant.through[shard_of(one.schedule_id)]
        if one.until is not None:
            through = min(through, one.until)
        if rhythm is None or one.after >= through:
            continue
        after, late_until = one.after, min(instant.now - threshold, through)
        if one.misfire is not None and after < late_until:
            key = (id(rhythm), after, late_until, one.misfire)
            if key not in known_decisions:
                known_decisions[key] = decide(rhythm, one.misfire, after, late_until, instant.now)
            decided.append((one.schedule_id, known_decisions[key]))
            after = late_until
        span = (id(rhythm), after, through)
        if span not in known_fires:
            known_fires[span] = list(rhythm.fires(after, through))
        puts += [Put(schedule_id=one.schedule_id, fire_at=fire) for fire in known_fires[span]]
    done.n_planned += await occurrences.put(tx, puts)
    await put_decided(tx, decided, done)
    return done
