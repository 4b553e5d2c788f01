"""The built-in coordinator: leases as rows, judged by the cell's clock, shared out by rendezvous over live planners.

| died or cut off | then |
| --- | --- |
| the owner | its leases run out; the next renewal of the others, timed for that moment, takes the shards over |
| its connection | it trusts its leases to their early end on its own clock, and plans nothing after that |
| between release and take | the shard has no owner; whoever it is assigned to takes it at its next renewal |
| frozen beyond its lease | it finds its generation gone: nothing it writes for those shards commits |
"""

from collections.abc import Mapping

from rota.base.failpoints import failpoint
from rota.base.model import Shard
from rota.base.telemetry import ShardsChanged, emit
from rota.coord.coordinator import PLANNER_ROLE, NodeId, ShardLease, Term, assigned_to
from rota.coord.ledger import Ledger

_RENEWALS_A_LEASE = 4
_SOON_S = 0.3
_AFTER_END_S = 0.02


class PostgresCoordinator:
    """One node's side of it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._leases: dict[Shard, ShardLease] = {}
        self._term: Term | None = None

    @property
    def node_id(self) -> NodeId:
        """Names this incarnation."""
        return self._ledger.node.node_id

    @property
    def term(self) -> Term | None:
        """The term in which this node's region may plan."""
        return self._term

    def held(self) -> Mapping[Shard, ShardLease]:
        """The shards that may be planned now."""
        return self._ledger.trusted(self._leases)

    async def renew(self) -> float:
        """Renew, give back, take. See Coordinator."""
        ledger = self._ledger
        before = set(self._leases)
        self._term = await ledger.register()
        if self._term is None or PLANNER_ROLE not in ledger.node.roles:
            await ledger.release(self._leases)
            self._leases = {}
            self._tell(before)
            return ledger.ttl_s / _RENEWALS_A_LEASE
        planners = await ledger.planners()
        wanted = assigned_to(self.node_id, [*planners, self.node_id])
        lost = self._leases.keys() - wanted
        self._leases = {shard: lease for shard, lease in self._leases.items() if shard in wanted}
        await ledger.release(lost)
        self._leases = await ledger.renew(self._leases.values())
        missing = wanted - self._leases.keys()
        if missing:
            await failpoint("coord.before_takeover")
            self._leases |= await ledger.take(missing)
        self._tell(before)
        return self._pause(planners, is_complete=wanted == self._leases.keys())

    async def leave(self) -> None:
        """Give everything back. See Coordinator."""
        leases, self._leases = self._leases, {}
        await self._ledger.leave(leases)

    def _pause(self, planners: Mapping[str, float], *, is_complete: bool) -> float:
        # Come back the moment another planner's lease would run out, if it is not renewed before.
        ends = [left + _AFTER_END_S for node, left in planners.items() if node != self.node_id]
        return min([self._ledger.ttl_s / _RENEWALS_A_LEASE, *ends, *([] if is_complete else [_SOON_S])])

    def _tell(self, before: set[Shard]) -> None:
        now = self._leases.keys()
        gained, lost = len(now - before), len(before - now)
        if gained or lost:
            emit(ShardsChanged(node=self.node_id, n_shards=len(now), n_gained=gained, n_lost=lost))
