"""Which region may plan in this cell. Its generation grows with every promotion and is checked by every plan."""

from rota.base.db import Executor, Transaction, load_queries
from rota.base.errors import ConfigError
from rota.base.model import Actor, TenantId
from rota.catalog import audit_trail
from rota.catalog.audit_trail import Change
from rota.coord.coordinator import Term

_QUERIES = load_queries(__file__, "shards.sql")
# Changes of the cell itself stand in the audit trail under no tenant.
_CELL = TenantId(0)


async def read_term(db: Executor) -> Term:
    """The region in charge and its generation."""
    row = await db.fetch_row(_QUERIES["region_read"])
    if row is None:
        raise ConfigError("the cell has no region", hint="run `rota migrate`")
    return Term(region=row["region"], generation=row["generation"])


async def promote_region(tx: Transaction, region: str, actor: Actor) -> Term:
    """Put a region in charge; the planners of the former one write nothing from the commit on.

    The region that is in charge already stays so, in the same generation.
    """
    before = await read_term(tx)
    row = await tx.fetch_row(_QUERIES["region_promote"], region)
    if row is None:
        return before
    term = Term(region=row["region"], generation=row["generation"])
    change = Change(
        tenant_id=_CELL,
        action="region.promote",
        object_kind="region",
        object_id=region,
        before={"region": before.region, "generation": before.generation},
        after={"region": term.region, "generation": term.generation},
    )
    await audit_trail.record(tx, actor, change)
    return term
