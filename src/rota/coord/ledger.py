"""Nodes and shard owners as rows: what every coordinator writes down, whoever decides.

Also where a node measures its clock: the middle of a round trip against the cell's time. Nothing is decided by the
offset; it is written to the node's row, exported, and told as an event when it is large.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.base import telemetry
from rota.base.clock import Clock
from rota.base.db import Database, load_queries
from rota.base.model import Shard
from rota.base.telemetry import ClockOffset
from rota.coord.coordinator import NodeId, ShardLease, Term, trusted_until

_QUERIES = load_queries(__file__, "shards.sql")
# A clock that is off by more is told as an event, once each time it becomes so.
LARGE_OFFSET_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One process incarnation: where it is and what it does."""

    node_id: NodeId
    region: str = "default"
    roles: Sequence[str] = ("planner",)
    program_version: str = ""


class Ledger:
    """The rows of one node. Every lease it hands out is trusted from before its statement was sent."""

    def __init__(self, db: Database, node: Node, *, ttl_s: float, clock: Clock) -> None:
        self._db = db
        self.node = node
        self.ttl_s = ttl_s
        self.clock = clock
        self.offset_s = 0.0
        self._is_off = False

    async def register(self) -> Term | None:
        """Say that the node lives; measure its clock. The term if its region is in charge, else None."""
        before = self.clock.now()
        moment: datetime = await self._db.fetch_value(
            _QUERIES["node_register"],
            self.node.node_id,
            self.node.region,
            list(self.node.roles),
            self.ttl_s * 1000,
            self.offset_s * 1000,
            self.node.program_version,
        )
        self._measure(before + (self.clock.now() - before) / 2, moment)
        row = await self._db.fetch_row(_QUERIES["region_read"])
        if row is None or row["region"] != self.node.region:
            return None
        return Term(region=row["region"], generation=row["generation"])

    async def planners(self) -> dict[str, float]:
        """The live planners of the region in charge, each with the seconds its lease has left."""
        return {row["node_id"]: row["left_s"] for row in await self._db.fetch(_QUERIES["planner_list"])}

    async def renew(self, leases: Collection[ShardLease]) -> dict[Shard, ShardLease]:
        """Renew leases; what is not answered is lost. One whose row is busy is answered as it was."""
        if not leases:
            return {}
        start = self.clock.monotonic()
        ordered = sorted(leases, key=lambda lease: lease.shard)
        rows = await self._db.fetch(
            _QUERIES["shard_renew"],
            self.node.node_id,
            [lease.shard for lease in ordered],
            [lease.generation for lease in ordered],
            self.ttl_s * 1000,
        )
        by_shard = {lease.shard: lease for lease in ordered}
        until = trusted_until(start, self.ttl_s)
        return {
            row["shard"]: ShardLease(
                shard=row["shard"],
                generation=by_shard[row["shard"]].generation,
                trusted_until=until if row["is_renewed"] else by_shard[row["shard"]].trusted_until,
            )
            for row in rows
        }

    async def take(self, shards: Collection[Shard], *, is_decided: bool = False) -> dict[Shard, ShardLease]:
        """Take the free ones of these shards, in a new generation. `is_decided`: all of them, they were given to us."""
        if not shards:
            return {}
        start = self.clock.monotonic()
        query = _QUERIES["shard_seize" if is_decided else "shard_take"]
        rows = await self._db.fetch(query, self.node.node_id, sorted(shards), self.ttl_s * 1000)
        until = trusted_until(start, self.ttl_s)
        return {
            row["shard"]: ShardLease(shard=row["shard"], generation=row["generation"], trusted_until=until)
            for row in rows
        }

    async def release(self, shards: Collection[Shard]) -> None:
        """Own these no longer."""
        if shards:
            await self._db.execute(_QUERIES["shard_release"], self.node.node_id, sorted(shards))

    async def leave(self, shards: Collection[Shard]) -> None:
        """Own nothing, be gone."""
        await self.release(shards)
        await self._db.execute(_QUERIES["node_leave"], self.node.node_id)

    def trusted(self, leases: Mapping[Shard, ShardLease]) -> dict[Shard, ShardLease]:
        """Those of the leases that may be trusted now."""
        now = self.clock.monotonic()
        return {shard: lease for shard, lease in leases.items() if now < lease.trusted_until}

    def _measure(self, local: datetime, cell: datetime) -> None:
        self.offset_s = (local - cell).total_seconds()
        telemetry.clock_offset.set(self.offset_s)
        was_off, self._is_off = self._is_off, abs(self.offset_s) > LARGE_OFFSET_S
        if self._is_off and not was_off:
            telemetry.emit(ClockOffset(offset_s=self.offset_s))
