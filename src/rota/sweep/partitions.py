"""Day partitions of history: made ahead, dropped behind, strays moved to where they belong.

Each parent and day is a transaction of its own, with a short lock_timeout: whoever waits for a lock on a partitioned
table makes everybody behind it wait, so this gives up early and comes back. Only one keeper works at a time (a lock
that is tried, not waited for). If keepers are away for long, rows of days without a partition go to the default
partition: planning and finishing never fail for want of one, and the rows move when the day is made.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from rota.base.clock import Clock
from rota.base.db import Database, LockTimeout, Query, load_queries
from rota.sweep.bounds import bound

SQL = load_queries(__file__, "partitions.sql")
LOCK_SPACE = 7412
TASK = 1
DAYS_BEHIND = 1
DAYS_AHEAD = 7
N_TRIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A table partitioned by the UTC day of scheduled_for; kept for so many days."""

    table: str
    kept_days: int
    stray_days: Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What one pass did. `is_done` is False when something was locked: come back soon."""

    made: int
    dropped: int
    days_ahead: int
    is_done: bool


def parents(*, retention_days: int, dead_letter_days: int) -> tuple[Parent, Parent]:
    """The partitioned tables. A dead letter's attempts are kept as long as the dead letter."""
    return (
        Parent(table="finished_occurrences", kept_days=retention_days, stray_days=SQL["finished_stray_days"]),
        Parent(table="attempts", kept_days=max(retention_days, dead_letter_days), stray_days=SQL["attempt_stray_days"]),
    )


def oldest_kept(today: date, kept_days: int) -> date:
    """The first UTC day that is kept whole: everything before may be gone."""
    return today - timedelta(days=kept_days)


def wanted_days(today: date) -> list[date]:
    """The days that must always be there."""
    return [today + timedelta(days=n) for n in range(-DAYS_BEHIND, DAYS_AHEAD + 1)]


def days_ahead(today: date, days: Iterable[date]) -> int:
    """How many days after today are there without a gap; -1 when not even today is."""
    present = set(days)
    ahead = -1
    while today + timedelta(days=ahead + 1) in present:
        ahead += 1
    return ahead


def start_of(day: date) -> datetime:
    """Midnight UTC at which the day begins."""
    return datetime.combine(day, time(), UTC)


class Partitions:
    """The upkeep of one parent."""

    def __init__(self, db: Database, clock: Clock, parent: Parent, *, pick: Callable[[float, float], float]) -> None:
        self._db = db
        self._clock = clock
        self._parent = parent
        self._pick = pick

    async def keep(self) -> Upkeep:
        """One pass: make what is missing, nearest day first, then drop what is too old, oldest first."""
        today: date = await self._db.fetch_value(SQL["partition_today"])
        first = oldest_kept(today, self._parent.kept_days)
        present = await self._days()
        last = today + timedelta(days=DAYS_AHEAD + 1)
        strays = await self._db.fetch(self._parent.stray_days, start_of(first), start_of(last))
        missing = {row["day"] for row in strays} | set(wanted_days(today))
        made = dropped = 0
        is_done = True
        for day in sorted(missing - present, key=lambda day: (abs(day - today), day)):
            changed = await self._change(SQL["partition_make"], day)
            made += changed is True
            is_done &= changed is not None
        for day in sorted(day for day in present if day < first):
            changed = await self._change(SQL["partition_drop"], day)
            dropped += changed is True
            is_done &= changed is not None
        ahead = days_ahead(today, await self._days())
        return Upkeep(made=made, dropped=dropped, days_ahead=ahead, is_done=is_done)

    async def _days(self) -> set[date]:
        return {row["day"] for row in await self._db.fetch(SQL["partition_days"], self._parent.table)}

    async def _change(self, query: Query, day: date) -> bool | None:
        """Make or drop one day. None: locked by somebody for all tries, or another keeper is at it."""
        for number in range(N_TRIES):
            try:
                async with self._db.transaction() as tx:
                    await bound(tx)
                    if not await tx.fetch_value(SQL["upkeep_try"], LOCK_SPACE, TASK):
                        return None
                    return bool(await tx.fetch_value(query, self._parent.table, day))
            except LockTimeout:
                # Let through who queued up behind us before trying again.
                await self._clock.sleep(self._pick(0.05, 0.05 * (number + 2)))
        return None


def jitter() -> Callable[[float, float], float]:
    """A source of waits, its own so that tests may give a seeded one."""
    return random.Random().uniform  # noqa: S311
