"""History in bounds: partitions made ahead and dropped behind, and what is kept elsewhere removed by age.

Removing is in bounded batches of the oldest rows, each a transaction: no statement is long, and a keeper that is killed
loses one batch. A tick stops after `BUDGET_S` and comes back soon, so that the service shows progress.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.base.clock import Clock
from rota.base.db import Database, load_queries
from rota.base.service import Service
from rota.base.settings import Settings
from rota.base.telemetry import Event, emit, partition_days_ahead
from rota.catalog import idempotency
from rota.sweep.partitions import Partitions, Upkeep, parents

SQL = load_queries(__file__, "retire.sql")
TICK_S = 300.0
SOON_S = 1.0
BUDGET_S = 5.0
BATCH = 2_000
NODE_DAYS = 1
IDEMPOTENCY_AGE = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryKept(Event):
    """A pass changed something: days made and dropped, days there are ahead."""

    table: str
    made: int
    dropped: int
    days_ahead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FewPartitions(Event):
    """Partitions are running out: rows will go to the default partition, where nothing is lost but dropping is slow."""

    level = "error"
    table: str
    days_ahead: int


class Retire(Service):
    """Keeps history in bounds."""

    name = "retire"

    def __init__(
        self, db: Database, clock: Clock, settings: Settings, *, pick: Callable[[float, float], float]
    ) -> None:
        self._db = db
        self._clock = clock
        self._settings = settings
        tables = parents(retention_days=settings.retention_days, dead_letter_days=settings.dead_letter_days)
        self._partitions = {table.table: Partitions(db, clock, table, pick=pick) for table in tables}
        self._attempt_days = max(table.kept_days for table in tables)

    async def tick(self) -> float:
        """One pass over everything, within its time."""
        is_done = True
        ahead = []
        for table, partitions in self._partitions.items():
            kept = await partitions.keep()
            is_done &= kept.is_done
            ahead.append(kept.days_ahead)
            _tell(table, kept)
        partition_days_ahead.set(min(ahead))
        is_done &= await self.remove_old(self._clock.monotonic() + BUDGET_S)
        return TICK_S if is_done else SOON_S

    async def remove_old(self, give_up_at: float) -> bool:
        """Remove by age until nothing is left or the time is up (monotonic); whether nothing is left."""
        for remove in self._removals():
            while await remove() == BATCH:
                if self._clock.monotonic() >= give_up_at:
                    return False
        return True

    def _removals(self) -> list[Callable[[], Awaitable[int]]]:
        days = self._settings.retention_days
        # Dead letters move to history, so history is looked at after them.
        bounds = [
            ("dead_letter_retire", self._settings.dead_letter_days),
            ("finished_retire", days),
            ("attempt_retire", self._attempt_days),
            ("missed_retire", days),
            ("node_retire", NODE_DAYS),
        ]
        by_age = [lambda name=name, kept=kept: self._db.execute(SQL[name], kept, BATCH) for name, kept in bounds]
        return [*by_age, self._forget_keys]

    async def _forget_keys(self) -> int:
        now: datetime = await self._db.fetch_value(SQL["retire_now"])
        return await idempotency.retire_keys(self._db, now - IDEMPOTENCY_AGE, BATCH)


def _tell(table: str, kept: Upkeep) -> None:
    if kept.made or kept.dropped:
        emit(HistoryKept(table=table, made=kept.made, dropped=kept.dropped, days_ahead=kept.days_ahead))
    if kept.days_ahead < 2:
        emit(FewPartitions(table=table, days_ahead=kept.days_ahead))
