"""What the API does to schedules: each function one transaction, or none of its effect.

In that order: the shards are locked against the planner, the schedules are locked, the new version is written, what
had not started is taken along or cancelled, the part of the horizon that is planned already is planned for the new
version, and the audit trail tells who did it. When one of these returns, nothing that had not started will start under
the old rules. Pause, resume and cancel are in `states`.

An expected version is the one the caller has read: VersionMismatch if it is not the present one. NotFound for what is
not there, or another tenant's. Doing what is done already changes nothing and answers the schedule as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID

from rota.base.db import Database, Transaction
from rota.base.errors import Conflict, NotFound, ValidationFailed, VersionMismatch
from rota.base.model import Actor, ScheduleId, ScheduleState, TenantId, new_schedule_id
from rota.catalog import audit_trail, calendars, schedules
from rota.catalog.audit_trail import Change
from rota.catalog.calendars import Calendar
from rota.catalog.definition import MAX_PAYLOAD_BYTES, Definition, default_hash_key
from rota.catalog.idempotency import IdempotencyKey
from rota.catalog.places import Shared, share_many
from rota.catalog.schedules import Schedule
from rota.plan import creates, occurrences
from rota.plan.answers import Created, keep_answer, keep_answers, known_answer, known_answers
from rota.plan.creates import Creation
from rota.plan.opening import check_version, committed, open_many, refuse_cancelled
from rota.plan.passed import Instant, limit_waits, open_shards
from rota.plan.writing import Rewrite, rewrite

__all__ = ["Created", "create_schedules", "patch_schedule", "put_calendar", "replace_schedule", "run_schedule"]

_TRIES = 10
_BATCH = 1000


async def create_schedules(
    db: Database,
    tenant_id: TenantId,
    definitions: Sequence[Definition],
    actors: Sequence[Actor],
    *,
    idempotency: Sequence[IdempotencyKey | None] | None = None,
    schedule_ids: Sequence[ScheduleId | None] | None = None,
    is_brief: bool = False,
) -> list[Created]:
    """Create schedules in one transaction: each has its answer, or the first refusal is raised and none is made.

    One whose Idempotency-Key was used before gets the first answer; a chosen id that exists is answered as it is. No
    key may be in it twice. Raises ValidationFailed, Conflict (a key used for something else) or QuotaExceeded.
    is_brief: the answer to a new one is its id and version alone.
    """
    keys = list(idempotency or [None] * len(definitions))
    ids = [one or new_schedule_id() for one in schedule_ids or [None] * len(definitions)]
    shared = await share_many(db, tenant_id, definitions)
    wanted = [
        Creation(schedule_id=i, definition=d, shared=s, actor=a)
        for i, d, s, a in zip(ids, definitions, shared, actors, strict=True)
    ]

    async def work(tx: Transaction) -> list[Created]:
        await limit_waits(tx)
        known = await known_answers(tx, tenant_id, [key for key in keys if key is not None])
        answers = [None if key is None else known.get(key.key) for key in keys]
        unknown = [one for one, answer in zip(wanted, answers, strict=True) if answer is None]
        made = iter(await creates.insert(tx, tenant_id, unknown, is_brief=is_brief))
        new = {n: next(made) for n, answer in enumerate(answers) if answer is None}
        await keep_answers(
            tx, tenant_id, {key.key: new[n] for n, key in enumerate(keys) if key is not None and n in new}
        )
        return [answer or new[n] for n, answer in enumerate(answers)]

    return await committed(db, work)


async def replace_schedule(
    db: Database,
    tenant_id: TenantId,
    schedule_id: UUID,
    document: Mapping[str, object],
    actor: Actor,
    *,
    expected_version: int | None,
    max_payload_bytes: int = MAX_PAYLOAD_BYTES,
) -> Schedule:
    """Write the definition in `document` as the next version. Masks in it stand for the stored secrets."""

    def define(current: Schedule, old: Definition | None) -> Definition:
        key = default_hash_key(tenant_id, _name_of(current, old))
        return Definition.parse(document, hash_key=key, stored=old, max_payload_bytes=max_payload_bytes)

    return await _redefine(db, tenant_id, schedule_id, define, actor, expected_version)


async def patch_schedule(
    db: Database,
    tenant_id: TenantId,
    schedule_id: UUID,
    patch: Mapping[str, object],
    actor: Actor,
    *,
    expected_version: int | None = None,
    max_payload_bytes: int = MAX_PAYLOAD_BYTES,
) -> Schedule:
    """Write the present definition with a merge patch (RFC 7396) applied as the next version."""

    def define(current: Schedule, old: Definition | None) -> Definition:
        if old is None:
            raise Conflict("the stored definition cannot be read", hint="replace it as a whole")
        key = default_hash_key(tenant_id, _name_of(current, old))
        return old.patched(patch, hash_key=key, max_payload_bytes=max_payload_bytes)

    return await _redefine(db, tenant_id, schedule_id, define, actor, expected_version)


async def run_schedule(
    db: Database,
    tenant_id: TenantId,
    schedule_id: UUID,
    actor: Actor,
    *,
    idempotency: IdempotencyKey | None = None,
) -> Created:
    """One occurrence now, of the present version; the rhythm is not disturbed, and a paused schedule runs too."""

    async def work(tx: Transaction) -> Created:
        await limit_waits(tx)
        if (known := await known_answer(tx, tenant_id, idempotency)) is not None:
            return known
        found = await schedules.lock_many(tx, tenant_id, [schedule_id])
        if not found:
            raise NotFound(f"there is no schedule {schedule_id}")
        if found[0].state is ScheduleState.CANCELLED:
            raise Conflict("the schedule is cancelled", hint="create a new one")
        document = await occurrences.trigger(tx, found[0])
        change = Change(
            tenant_id=tenant_id,
            action="schedule.run",
            object_kind="schedule",
            object_id=str(schedule_id),
            after={"occurrence": document["id"]},
        )
        await audit_trail.record(tx, actor, change)
        return await keep_answer(tx, tenant_id, idempotency, 201, document)

    return await committed(db, work)


async def put_calendar(db: Database, tenant_id: TenantId, name: str, days: object, actor: Actor) -> Calendar:
    """Set a calendar's days; every schedule that uses it goes on with them, as a new version."""

    async def work(tx: Transaction) -> Calendar:
        await limit_waits(tx)
        made = await calendars.put_calendar(tx, tenant_id, name, days, actor)
        ids: list[ScheduleId] = []
        while page := await calendars.schedules_using(tx, tenant_id, name, after_id=ids[-1] if ids else UUID(int=0)):
            ids += page
        if ids:
            instant = await open_shards(tx, ids)
            for start in range(0, len(ids), _BATCH):
                await _follow_calendar(tx, tenant_id, ids[start : start + _BATCH], name, actor, instant)
        return made

    return await committed(db, work)


async def _redefine(
    db: Database,
    tenant_id: TenantId,
    schedule_id: UUID,
    define: Callable[[Schedule, Definition | None], Definition],
    actor: Actor,
    expected_version: int | None,
) -> Schedule:
    """Read, define, make the shared rows, then write if nobody was faster; else again, unless a version is expected."""
    for _ in range(_TRIES):
        read = await schedules.get_schedule(db, tenant_id, schedule_id)
        check_version(read, expected_version)
        refuse_cancelled(read)
        old = _definition_of(read)
        definition = define(read, old)
        shared = (await share_many(db, tenant_id, [definition]))[0]
        if isinstance(shared, ValidationFailed):
            raise shared
        one = Rewrite(current=read, old=old, definition=definition, shared=shared)
        made = await committed(db, partial(_write, rewriting=one, actor=actor))
        if made is not None:
            return made
    raise VersionMismatch("the schedule is being changed by others all the time", hint="try again later")


async def _write(tx: Transaction, rewriting: Rewrite, actor: Actor) -> Schedule | None:
    """None if the schedule has another version by now."""
    read = rewriting.current
    found, instant = await open_many(tx, read.tenant_id, [read.schedule_id])
    if not found or found[0].version != read.version:
        return None
    return (await rewrite(tx, read.tenant_id, [replace(rewriting, current=found[0])], actor, instant))[0]


async def _follow_calendar(
    tx: Transaction, tenant_id: TenantId, ids: Sequence[UUID], name: str, actor: Actor, instant: Instant
) -> None:
    """New versions with the new days of their calendar; those that would never fire again stay as they are."""
    current = await schedules.lock_many(tx, tenant_id, ids)
    using = [(one, old) for one in current if (old := _definition_of(one)) is not None and old.calendar == name]
    shared = await share_many(tx, tenant_id, [old for _, old in using])
    rewrites = [
        Rewrite(current=one, old=old, definition=old, shared=place)
        for (one, old), place in zip(using, shared, strict=True)
        if isinstance(place, Shared) and place.cadence_id != one.cadence_id and place.timing.next_after(instant.now)
    ]
    if rewrites:
        await rewrite(tx, tenant_id, rewrites, actor, instant, reason=f"the calendar {name} was changed")


def _definition_of(current: Schedule) -> Definition | None:
    """What is stored; None if it is not understood (any more), which must not keep anybody from replacing it."""
    try:
        return current.definition()
    except ValidationFailed:
        return None


def _name_of(current: Schedule, old: Definition | None) -> str:
    return old.name if old is not None else str(current.schedule_id)
