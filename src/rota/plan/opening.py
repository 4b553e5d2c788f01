"""How every edit begins and ends: locks in one order, versions checked, marked where it may die."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from uuid import UUID

from rota.base.db import Database, Transaction
from rota.base.errors import Conflict, NotFound, VersionMismatch
from rota.base.failpoints import failpoint
from rota.base.model import ScheduleState, TenantId
from rota.catalog import schedules
from rota.catalog.schedules import Schedule
from rota.plan.passed import Instant, limit_waits, open_shards

T = TypeVar("T")


async def open_one(
    tx: Transaction, tenant_id: TenantId, schedule_id: UUID, expected_version: int | None
) -> tuple[Schedule, Instant]:
    """One schedule, locked, with the expected version (None: any), and the moment. NotFound, VersionMismatch."""
    found, instant = await open_many(tx, tenant_id, [schedule_id])
    if not found:
        raise NotFound(f"there is no schedule {schedule_id}")
    check_version(found[0], expected_version)
    return found[0], instant


async def open_many(
    tx: Transaction, tenant_id: TenantId, schedule_ids: Sequence[UUID]
) -> tuple[list[Schedule], Instant]:
    """Shards first, schedules second: the order of every edit."""
    await limit_waits(tx)
    instant = await open_shards(tx, schedule_ids)
    return await schedules.lock_many(tx, tenant_id, schedule_ids), instant


async def committed(db: Database, work: Callable[[Transaction], Awaitable[T]]) -> T:
    """Do the work in a transaction of its own, again from the start when it lost a race."""

    async def marked(tx: Transaction) -> T:
        done = await work(tx)
        await failpoint("edit.before_commit")
        return done

    done = await db.run(marked)
    await failpoint("edit.after_commit")
    return done


def check_version(current: Schedule, expected_version: int | None) -> None:
    """VersionMismatch if another version is expected than the schedule has."""
    if expected_version is not None and current.version != expected_version:
        raise VersionMismatch(
            f"the schedule has version {current.version}, not {expected_version}",
            hint="read it again and apply the change to what it is now",
        )


def refuse_cancelled(current: Schedule) -> None:
    """Conflict for what is cancelled: that is for good."""
    if current.state is ScheduleState.CANCELLED:
        raise Conflict("the schedule is cancelled", hint="create a new one")


def refuse_ended(current: Schedule) -> None:
    """Conflict for what is cancelled or finished."""
    refuse_cancelled(current)
    if current.state is ScheduleState.FINISHED:
        raise Conflict("the schedule is finished: it never fires again", hint="give it another timing")
