"""One row a distinct place to wait (tenant, queue, priority, target, key, overlap), and where its late work goes."""

import dataclasses
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rota.base.db import Executor, Row, load_queries
from rota.base.model import LaneId, LaneKey, Overlap, Priority

_QUERIES = load_queries(__file__, "lanes.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A stored lane. recovery_lane_id is None in a lane that is one for recovery itself."""

    lane_id: LaneId
    key: LaneKey
    recovery_lane_id: LaneId | None


async def ensure_lanes(db: Executor, keys: Iterable[LaneKey]) -> dict[LaneKey, LaneId]:
    """The lane of each key; missing ones are added, each with its recovery lane. See ensure_cadences on when."""
    wanted = set(keys)
    found = await _find(db, wanted)
    missing = wanted - found.keys()
    if missing:
        recovery_keys = {recovery_key(key) for key in missing}
        recovery = await _find(db, recovery_keys)
        if absent := recovery_keys - recovery.keys():
            await _insert(db, absent, {})
            recovery |= await _find(db, absent)
        await _insert(db, missing - recovery_keys, recovery)
        found |= await _find(db, missing)
    return found


async def get_lanes(db: Executor, lane_ids: Iterable[LaneId]) -> dict[LaneId, Lane]:
    """The lanes with these ids."""
    rows = await db.fetch(_QUERIES["lane_get"], list(lane_ids))
    return {
        row["lane_id"]: Lane(lane_id=row["lane_id"], key=_key(row), recovery_lane_id=row["recovery_lane_id"])
        for row in rows
    }


def recovery_key(key: LaneKey) -> LaneKey:
    """The key of the lane for the same work when it is recovered late, backfilled or replayed in bulk."""
    return dataclasses.replace(key, priority=Priority.RECOVERY)


async def _find(db: Executor, keys: Collection[LaneKey]) -> dict[LaneKey, LaneId]:
    return {_key(row): row["lane_id"] for row in await db.fetch(_QUERIES["lane_find"], *_columns(list(keys)))}


async def _insert(db: Executor, keys: Collection[LaneKey], recovery: dict[LaneKey, LaneId]) -> None:
    ordered = list(keys)
    await db.execute(_QUERIES["lane_insert"], *_columns(ordered), [recovery.get(recovery_key(key)) for key in ordered])


def _columns(keys: list[LaneKey]) -> tuple[list[int], list[str], list[int], list[str], list[str], list[str]]:
    return (
        [key.tenant_id for key in keys],
        [key.queue for key in keys],
        [int(key.priority) for key in keys],
        [key.target_key for key in keys],
        [key.limit_key for key in keys],
        [str(key.overlap) for key in keys],
    )


def _key(row: Row) -> LaneKey:
    return LaneKey(
        tenant_id=row["tenant_id"],
        queue=row["queue"],
        priority=Priority(row["priority"]),
        target_key=row["target_key"],
        limit_key=row["limit_key"],
        overlap=Overlap(row["overlap"]),
    )
