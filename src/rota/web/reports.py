"""Reads of occurrences, attempts and missed ranges, over the three places an occurrence may be in. Never writes.

Listings go backwards in scheduled time. A page of a whole tenant is merged here from its places, each walked from the
same cursor, so that it costs one page of each whatever their size.
"""

import heapq
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from rota.base.db import Database, Row, load_queries
from rota.base.errors import NotFound
from rota.base.model import RunKey, TenantId, shard_of

_QUERIES = load_queries(__file__, "reports.sql")
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
LAST_ID = UUID(int=2**128 - 1)
LAST_VERSION = 2**31 - 1
MAX_ATTEMPTS_SHOWN = 1000
HOT_STATES = frozenset({"scheduled", "enqueued", "running", "retry_wait"})
FINAL_STATES = frozenset({"succeeded", "missed", "cancelled", "skipped_overlap"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a listing goes on: items before this one."""

    at: datetime = LATEST
    schedule_id: UUID = LAST_ID
    version: int = LAST_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a listing is about: scheduled in [start, end), of one schedule, in one state; None: of any."""

    schedule_id: UUID | None = None
    state: str | None = None
    start: datetime = EARLIEST
    end: datetime = LATEST

    @property
    def is_hot(self) -> bool:
        """Whether unfinished ones can fit."""
        return self.state is None or self.state in HOT_STATES

    @property
    def is_dead(self) -> bool:
        """Whether dead letters can fit."""
        return self.state is None or self.state == "dead"

    @property
    def is_finished(self) -> bool:
        """Whether finished ones can fit. A dead one whose dead letter was removed is finished, too."""
        return self.state is None or self.state in FINAL_STATES or self.state == "dead"


async def get_occurrence(db: Database, tenant_id: TenantId, key: RunKey) -> Row:
    """One occurrence of a tenant, wherever it is. NotFound otherwise."""
    row = await db.fetch_row(
        _QUERIES["occurrence_get"],
        tenant_id,
        shard_of(key.schedule_id),
        key.schedule_id,
        key.scheduled_for,
        key.version,
    )
    if row is None:
        raise NotFound(f"there is no occurrence {key}", hint="it may be older than the retention of this cell")
    return row


async def list_attempts(db: Database, tenant_id: TenantId, key: RunKey) -> list[Row]:
    """The attempts that did not succeed, oldest first."""
    return await db.fetch(
        _QUERIES["attempt_list"], tenant_id, key.schedule_id, key.scheduled_for, key.version, MAX_ATTEMPTS_SHOWN
    )


async def list_occurrences(
    db: Database, tenant_id: TenantId, wanted: Filter, before: Position, limit: int
) -> list[Row]:
    """Up to `limit` occurrences that fit, latest scheduled first."""
    if wanted.schedule_id is not None:
        return await _of_schedule(db, tenant_id, wanted, wanted.schedule_id, before, limit)
    bounds = (tenant_id, wanted.start, wanted.end, before.at, before.schedule_id, before.version, limit)
    places: list[list[Row]] = []
    if wanted.is_hot:
        places.append(await db.fetch(_QUERIES["occurrence_page_hot"], *bounds, wanted.state))
    if wanted.is_dead:
        places.append(await db.fetch(_QUERIES["occurrence_page_dead"], *bounds))
    if wanted.is_finished:
        is_odd = wanted.state is not None and wanted.state != "succeeded"
        query = _QUERIES["occurrence_page_odd" if is_odd else "occurrence_page_finished"]
        places.append(await db.fetch(query, *bounds, wanted.state))
    merged = heapq.merge(*places, key=_order, reverse=True)
    return [row for row, _ in zip(merged, range(limit), strict=False)]


async def list_missed(db: Database, tenant_id: TenantId, wanted: Filter, before: Position, limit: int) -> list[Row]:
    """Ranges of occurrences that were not run and have no row each, latest first."""
    if wanted.schedule_id is not None:
        return await db.fetch(
            _QUERIES["missed_page_of_schedule"],
            tenant_id,
            shard_of(wanted.schedule_id),
            wanted.schedule_id,
            wanted.start,
            wanted.end,
            before.at,
            before.version,
            limit,
        )
    return await db.fetch(
        _QUERIES["missed_page"],
        tenant_id,
        wanted.start,
        wanted.end,
        before.at,
        before.schedule_id,
        before.version,
        limit,
    )


async def _of_schedule(
    db: Database, tenant_id: TenantId, wanted: Filter, schedule_id: UUID, before: Position, limit: int
) -> list[Row]:
    return await db.fetch(
        _QUERIES["occurrence_page_of_schedule"],
        tenant_id,
        shard_of(schedule_id),
        schedule_id,
        wanted.start,
        wanted.end,
        before.at,
        before.version,
        limit,
        wanted.is_hot,
        wanted.state,
        wanted.is_dead,
        wanted.is_finished,
        wanted.state if wanted.is_finished else None,
    )


async def get_backfill(db: Database, tenant_id: TenantId, backfill_id: UUID) -> Row:
    """One backfill of a tenant. NotFound otherwise."""
    row = await db.fetch_row(_QUERIES["backfill_get"], tenant_id, backfill_id)
    if row is None:
        raise NotFound(f"there is no backfill {backfill_id}")
    return row


async def list_backfills(
    db: Database, tenant_id: TenantId, schedule_id: UUID | None, before_at: datetime, before_id: UUID, limit: int
) -> list[Row]:
    """Up to `limit` backfills made before a position, newest first."""
    return await db.fetch(_QUERIES["backfill_page"], tenant_id, schedule_id, before_at, before_id, limit)


async def oldest_due(db: Database) -> tuple[float, int]:
    """The age in seconds of the oldest occurrence that waits, and in how many lanes some are due."""
    row = await db.fetch_row(_QUERIES["oldest_due"])
    return (0.0, 0) if row is None else (row["age_s"], row["n_lanes"])


async def database_state(db: Database) -> Row:
    """Whether the database takes writes, its time, and about how many occurrences are not finished."""
    row = await db.fetch_row(_QUERIES["database_state"])
    if row is None:
        raise NotFound("the database answered nothing")
    return row


def _order(row: Row) -> tuple[datetime, UUID, int]:
    return row["scheduled_for"], row["schedule_id"], row["version"]
