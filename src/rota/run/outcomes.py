"""Outcomes are written in batches, each fenced by its lease; what the fence refuses is counted, never forced.

One row that cannot be written must not harm the others: texts are cleaned before, and a batch that fails all the same
is halved until the bad row stands alone. A lost connection is tried again for as long as the leases can hold.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import asyncpg

from rota.base.db import Database, Row, load_queries
from rota.base.errors import DatabaseUnavailable
from rota.base.failpoints import failpoint
from rota.base.json import clean_text
from rota.base.model import AttemptOutcome
from rota.base.telemetry import (
    AttemptFinished,
    OccurrenceDied,
    StaleWrite,
    attempts_finished,
    emit,
    occurrences_finished,
)
from rota.run.lease import Lease, Outcome
from rota.run.retry import Again, Dead, after_failure

_QUERIES = load_queries(__file__, "attempts.sql")
MAX_ERROR: Final = 8_000
MAX_RESULT: Final = 65_536
_TRIES: Final = 8
_RETRIED: Final = (AttemptOutcome.FAILED, AttemptOutcome.TIMED_OUT, AttemptOutcome.REJECTED)

Ended = tuple[Lease, Outcome]
Key = tuple[UUID, datetime, int]


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch came to: the leases whose outcome counts, and the waits of those that are tried again."""

    accepted: set[Key]
    decisions: dict[Key, Again | Dead]


async def write_outcomes(db: Database, ended: Sequence[Ended], *, worker: str, max_losses: int) -> Written:
    """Write a batch, one statement a kind. Raises DatabaseUnavailable when the database stays away too long."""
    decisions: dict[Key, Again | Dead] = {}
    kinds: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for lease, outcome in ended:
        name, row = _row(lease, outcome, decisions)
        kinds[name].append((lease, *row))
    await failpoint("finish.before_commit")
    accepted: set[Key] = set()
    for name, rows in kinds.items():
        extra: tuple[object, ...] = ()
        if name == "occurrence_interrupt":
            extra = (max_losses, worker)
        elif name != "occurrence_finish":
            extra = (worker,)
        accepted |= await _write(db, name, rows, extra)
    await failpoint("finish.after_commit")
    _tell(ended, accepted, decisions)
    return Written(accepted, decisions)


def _row(lease: Lease, outcome: Outcome, decisions: dict[Key, Again | Dead]) -> tuple[str, tuple[Any, ...]]:
    if outcome.outcome is AttemptOutcome.SUCCEEDED:
        result = None if outcome.result is None else clean_text(outcome.result, limit=MAX_RESULT)
        return "occurrence_finish", (outcome.status, result)
    error = clean_text(outcome.error or "", limit=MAX_ERROR)
    if lease.is_expired and outcome.outcome is AttemptOutcome.LOST:
        return "occurrence_end", ("missed", "too_late", None, error)
    if outcome.outcome is AttemptOutcome.CANCELLED:
        return "occurrence_end", ("cancelled", "cancel_requested", "cancelled", error)
    if outcome.outcome in (AttemptOutcome.INTERRUPTED, AttemptOutcome.LOST):
        return "occurrence_interrupt", (error,)
    decision = after_failure(
        lease.policy.retry,
        failures=lease.failures,
        is_rejected=outcome.outcome is AttemptOutcome.REJECTED,
        scheduled_for=lease.scheduled_for,
        now=max(datetime.now(UTC), lease.started_at),
        asked=outcome.asked,
        pick=random.uniform,
    )
    decisions[key_of(lease)] = decision
    facts = (str(outcome.outcome), outcome.status, clean_text(outcome.error_class or "", limit=200) or None, error)
    if isinstance(decision, Again):
        return "occurrence_retry", (*facts, int(decision.wait.total_seconds() * 1000))
    return "occurrence_bury", (*facts, decision.reason)


async def _write(db: Database, name: str, rows: list[tuple[Any, ...]], extra: tuple[object, ...]) -> set[Key]:
    """One statement for all; halved when a row spoils it."""
    leases = [row[0] for row in rows]
    columns = [list(column) for column in zip(*(row[1:] for row in rows), strict=True)]
    if name == "occurrence_finish":
        columns = [column if any(value is not None for value in column) else [] for column in columns]
    for number in range(_TRIES):
        try:
            named = keys(leases)[1:] if name == "occurrence_finish" else keys(leases)
            done = await db.fetch(_QUERIES[name], *named, *columns, *extra)
            return {(row["schedule_id"], row["scheduled_for"], row["version"]) for row in done}
        except (asyncpg.SerializationError, asyncpg.DeadlockDetectedError):
            continue
        except DatabaseUnavailable:
            if number == _TRIES - 1:
                raise
            await asyncio.sleep(random.uniform(0, min(5.0, 0.1 * 2**number)))  # noqa: S311 - spreads retries
        except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, UnicodeError, ValueError):
            if len(rows) == 1:
                return set()  # this one cannot be written at all: its lease runs out and it is rescued
            half = len(rows) // 2
            first = await _write(db, name, rows[:half], extra)
            return first | await _write(db, name, rows[half:], extra)
    raise DatabaseUnavailable("the outcomes lost every race for their rows")


def _tell(ended: Sequence[Ended], accepted: set[Key], decisions: dict[Key, Again | Dead]) -> None:
    succeeded = 0
    for lease, outcome in ended:
        key = key_of(lease)
        if key not in accepted:
            emit(StaleWrite(run_key=str(lease.key), action=str(outcome.outcome)))
            continue
        if outcome.outcome is AttemptOutcome.SUCCEEDED:
            succeeded += 1
            continue
        attempts_finished.labels(str(outcome.outcome)).inc()
        emit(
            AttemptFinished(
                run_key=str(lease.key), number=lease.attempt, outcome=str(outcome.outcome), error=outcome.error
            )
        )
        decision = decisions.get(key)
        if isinstance(decision, Dead):
            occurrences_finished.labels("dead").inc()
            emit(OccurrenceDied(run_key=str(lease.key), reason=decision.reason, error=outcome.error))
    if succeeded:
        attempts_finished.labels("succeeded").inc(succeeded)
        occurrences_finished.labels("succeeded").inc(succeeded)


async def give_back(db: Database, leases: Sequence[Lease]) -> int:
    """Return what was claimed and not started; it costs no attempt."""
    return await db.execute(_QUERIES["occurrence_give_back"], *keys(leases)) if leases else 0


async def heartbeat(db: Database, leases: Sequence[Lease], lease_s: float) -> list[Row]:
    """Keep leases; the rows of those that still hold, with `is_cancel_requested`."""
    return await db.fetch(_QUERIES["occurrence_heartbeat"], *keys(leases), lease_s)


def keys(leases: Sequence[Lease]) -> tuple[list[object], list[object], list[object], list[object], list[object]]:
    """The fenced keys of leases as columns."""
    return (
        [lease.shard for lease in leases],
        [lease.schedule_id for lease in leases],
        [lease.scheduled_for for lease in leases],
        [lease.version for lease in leases],
        [lease.token for lease in leases],
    )


def key_of(lease: Lease) -> Key:
    """The run key as a tuple, as statements return it."""
    return lease.schedule_id, lease.scheduled_for, lease.version


class OutcomeWriter:
    """Collects outcomes and writes them as soon as the last batch is done: batches grow by themselves under load.

    At most `most` wait; whoever wants to add more waits, so that a slow database slows claiming down.
    """

    def __init__(self, db: Database, *, worker: str, max_losses: int, batch: int = 2000, most: int = 20_000) -> None:
        self._db = db
        self._worker = worker
        self._max_losses = max_losses
        self._batch = batch
        self._most = most
        self._waiting: list[Ended] = []
        self._some = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self.error: str | None = None

    @property
    def has_room(self) -> bool:
        """Whether more outcomes may be added without waiting."""
        return len(self._waiting) < self._most

    def put(self, lease: Lease, outcome: Outcome) -> None:
        """Add one; it is written soon."""
        self._waiting.append((lease, outcome))
        self._idle.clear()
        self._some.set()

    async def run(self) -> None:
        """Write until cancelled; `flush` first to end without loss."""
        while True:
            await self._some.wait()
            batch, self._waiting = self._waiting[: self._batch], self._waiting[self._batch :]
            if not self._waiting:
                self._some.clear()
            try:
                await write_outcomes(self._db, batch, worker=self._worker, max_losses=self._max_losses)
                self.error = None
            except DatabaseUnavailable as error:
                # The leases run out and are rescued: repeated, not lost.
                self.error = str(error)
            for lease, _ in batch:
                lease.is_lost = True  # no heartbeat any more
            if not self._waiting:
                self._idle.set()

    async def flush(self) -> None:
        """Wait until everything that was added is written."""
        await self._idle.wait()
