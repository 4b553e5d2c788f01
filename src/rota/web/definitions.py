"""Reading the definitions that requests carry, with the limits of their tenant."""

from collections.abc import Mapping

from rota.base.clock import Clock
from rota.base.db import Database
from rota.base.model import TenantId
from rota.catalog import tenants
from rota.catalog.definition import Definition, default_hash_key

KEEP_S = 5.0
KEEP_MOST = 100_000


class Definitions:
    """Parses definitions; remembers each tenant's limit for `KEEP_S`."""

    def __init__(self, db: Database, clock: Clock, most_bytes: int) -> None:
        self._db = db
        self._clock = clock
        self._most_bytes = most_bytes
        self._limits: dict[TenantId, tuple[float, int]] = {}

    async def max_payload_bytes(self, tenant_id: TenantId) -> int:
        """How long a payload of this tenant may be: its quota, within what the node takes."""
        now = self._clock.monotonic()
        kept = self._limits.get(tenant_id)
        if kept is None or kept[0] <= now:
            tenant = await tenants.get_tenant(self._db, tenant_id)
            kept = (now + KEEP_S, min(tenant.max_payload_bytes, self._most_bytes))
            if len(self._limits) >= KEEP_MOST:
                self._limits.clear()
            self._limits[tenant_id] = kept
        return kept[1]

    async def parse(self, tenant_id: TenantId, document: Mapping[str, object]) -> Definition:
        """A new schedule's definition. ValidationFailed with every fault."""
        return read(tenant_id, document, await self.max_payload_bytes(tenant_id))


def read(tenant_id: TenantId, document: Mapping[str, object], max_payload_bytes: int) -> Definition:
    """As `Definitions.parse`, with the limit given."""
    name = document.get("name")
    hash_key = default_hash_key(tenant_id, name if isinstance(name, str) else "")
    return Definition.parse(document, hash_key=hash_key, max_payload_bytes=max_payload_bytes)
