"""The loop that keeps a node a member: renews its leases in time, leaves when it ends."""

from rota.base.service import Service
from rota.coord.coordinator import Coordinator


class Membership(Service):
    """Renews one node's place in the cell; any process may run it, only planners get shards."""

    name = "membership"

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def tick(self) -> float:
        """One renewal; the seconds until the next."""
        return await self._coordinator.renew()

    async def stop(self) -> None:
        """Give the shards back, so that nobody waits for leases to run out."""
        await self._coordinator.leave()
