"""The schedules that an app declares in its code, made so when its worker starts.

They belong to the tenant of ROTA_API_KEY, or to the `default` tenant. Their ids come from tenant, app and name, so any
number of workers that start at once make each schedule once; one that is as declared is left alone.
"""

from rota.base.db import Database
from rota.base.errors import Conflict, RotaError
from rota.base.model import Actor, ScheduleState, named_schedule_id
from rota.catalog import schedules
from rota.catalog.definition import Definition, default_hash_key
from rota.catalog.tenants import get_tenant_named
from rota.cli.output import stderr
from rota.plan import edits
from rota.run.app import Rota

_ACTOR = Actor(kind="worker", id="app.schedule")


async def make_so(dsn: str, app: Rota, *, tenant: str = "default") -> None:
    """Create what is missing, update what differs; what was cancelled by hand stays cancelled."""
    db = await Database.connect(dsn, max_size=2, application_name="rota-worker")
    try:
        owner = (await get_tenant_named(db, tenant)).tenant_id
        for declared in app.schedules.values():
            key = default_hash_key(owner, declared.name)
            wanted = Definition.parse(declared.document, hash_key=key)
            schedule_id = named_schedule_id(owner, f"app {app.name}", declared.name)
            found = await schedules.get_many(db, owner, [schedule_id])
            if not found:
                await edits.create_schedules(db, owner, [wanted], [_ACTOR], schedule_ids=[schedule_id])
                stderr.print(f"created schedule {declared.name}", markup=False, highlight=False)
            elif found[0].state is ScheduleState.CANCELLED:
                stderr.print(f"schedule {declared.name} was cancelled; left alone", markup=False, highlight=False)
            elif found[0].definition().document() != wanted.document():
                try:
                    await edits.replace_schedule(
                        db, owner, schedule_id, declared.document, _ACTOR, expected_version=None
                    )
                    stderr.print(f"updated schedule {declared.name}", markup=False, highlight=False)
                except Conflict as error:
                    stderr.print(f"schedule {declared.name}: {error}", markup=False, highlight=False)
    finally:
        await db.close()


__all__ = ["RotaError", "make_so"]
