"""The built-in coordinator: membership and shard leases as rows of the cell's own database."""

from collections.abc import Callable, Sequence
from typing import Final

from rota.base.clock import Clock
from rota.base.db import Database, load_queries
from rota.base.failpoints import failpoint
from rota.base.service import Service
from rota.base.telemetry import ClockOffset, ShardsChanged, clock_offset, emit
from rota.coord.coordinator import ShardLease, assigned

_QUERIES = load_queries(__file__, "shards.sql")
_MARGIN_SHARE: Final = 0.2  # of the lease: what is not trusted any more at its end
_OFFSET_ALARM_S: Final = 1.0


class PostgresCoordinator(Service):
    """A service of its own: every third of the lease it renews, lets go and takes over."""

    name = "coordinator"

    def __init__(
        self,
        db: Database,
        clock: Clock,
        *,
        node_id: str,
        roles: Sequence[str] = ("planner",),
        lease_s: float = 10.0,
        region: str = "default",
        program_version: str = "",
        on_change: Callable[[], None] | None = None,
    ) -> None:
        self._db = db
        self._clock = clock
        self._node_id = node_id
        self._roles = list(roles)
        self._lease_s = lease_s
        self._region = region
        self._program_version = program_version
        self._on_change = on_change
        self._leases: dict[int, ShardLease] = {}
        self._offset_s = 0.0
        self.max_silence_s = 6 * lease_s

    @property
    def node_id(self) -> str:
        """The identity of this process incarnation."""
        return self._node_id

    def owned(self) -> Sequence[ShardLease]:
        """The shards whose lease is still trusted on this process's own clock."""
        now = self._clock.monotonic()
        return [lease for lease in self._leases.values() if lease.trusted_until > now]

    async def tick(self) -> float:
        """Renew; twice or more within a lease."""
        await self.renew()
        return self._lease_s / 4

    async def renew(self) -> None:
        """Keep membership and shards, hand over what is assigned to others, take over what is ours and free."""
        before = set(self._leases)
        await self._join()
        if "planner" not in self._roles:
            return
        nodes = [row["node_id"] for row in await self._db.fetch(_QUERIES["node_list_planners"])]
        share = assigned(self._node_id, nodes)
        await self._keep(share & before)
        lost = sorted(before - share)
        if lost:
            for shard in lost:
                self._leases.pop(shard, None)
            await self._db.execute(_QUERIES["shard_give_back"], self._node_id, lost)
        await self._take(sorted(share - set(self._leases)))
        after = set(self._leases)
        if after != before:
            gained, gone = len(after - before), len(before - after)
            emit(ShardsChanged(node=self._node_id, n_shards=len(after), n_gained=gained, n_lost=gone))
            if self._on_change is not None:
                self._on_change()

    async def _join(self) -> None:
        started, wall = self._clock.monotonic(), self._clock.now()
        lease_s = self._lease_s
        row = await self._db.fetch_row(
            _QUERIES["node_renew"],
            self._node_id,
            self._region,
            self._roles,
            lease_s,
            self._offset_s * 1000,
            self._program_version,
        )
        if row is None:
            return
        # The database answered somewhere between question and answer: assume half-way.
        half = (self._clock.monotonic() - started) / 2
        self._offset_s = (wall - row["now"]).total_seconds() + half
        clock_offset.set(self._offset_s)
        if abs(self._offset_s) > _OFFSET_ALARM_S:
            emit(ClockOffset(offset_s=self._offset_s))

    async def _keep(self, shards: set[int] | frozenset[int]) -> None:
        started = self._clock.monotonic()
        rows = await self._db.fetch(_QUERIES["shard_renew"], self._node_id, sorted(shards), self._lease_s)
        kept = {row["shard"]: self._lease(row["shard"], row["generation"], started) for row in rows}
        # Whoever renewed nothing of a shard has lost it, whatever the reason.
        self._leases = {shard: lease for shard, lease in kept.items() if self._is_same_term(lease)}

    def _is_same_term(self, lease: ShardLease) -> bool:
        known = self._leases.get(lease.shard)
        return known is not None and known.generation == lease.generation

    async def _take(self, wanted: list[int]) -> None:
        if not wanted:
            return
        await failpoint("coord.before_takeover")
        started = self._clock.monotonic()
        rows = await self._db.fetch(_QUERIES["shard_take_over"], self._node_id, wanted, self._lease_s)
        for row in rows:
            self._leases[row["shard"]] = self._lease(row["shard"], row["generation"], started)

    def _lease(self, shard: int, generation: int, started: float) -> ShardLease:
        trusted = started + self._lease_s * (1 - _MARGIN_SHARE)
        return ShardLease(shard=shard, generation=generation, trusted_until=trusted)

    async def leave(self) -> None:
        """Give everything up at once."""
        shards = list(self._leases)
        self._leases.clear()
        await self._db.execute(_QUERIES["shard_give_back"], self._node_id, shards)
        await self._db.execute(_QUERIES["node_leave"], self._node_id)

    async def stop(self) -> None:
        """Leave, if the database can be reached; else the lease runs out."""
        await self.leave()


async def promote_region(db: Database, region: str) -> tuple[str, int]:
    """Make a region the one that plans, in a new term; planners of others write nothing any more."""
    row = await db.fetch_row(_QUERIES["region_promote"], region)
    if row is None:
        raise LookupError("the cell has no region row: run `rota migrate`")
    return row["region"], row["generation"]
