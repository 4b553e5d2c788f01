"""What the API does to schedules: each edit is one transaction that changes, cancels, plans and records together.

Order, always: shared lock of the shards (the planner stays out), the row of the schedule, its new version, what has not
started of older versions becomes cancelled, the passed part of the window is planned for the new one, the audit trail.
Died before commit: nothing happened. Died after: everything did, and the Idempotency-Key gives the first answer again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from rota.base.db import Database, Transaction
from rota.base.errors import Conflict, NotFound, ValidationFailed, VersionMismatch
from rota.base.failpoints import failpoint
from rota.base.model import Actor, ScheduleId, ScheduleState, TenantId, new_schedule_id
from rota.catalog import audit_trail, calendars, schedules
from rota.catalog import idempotency as keys
from rota.catalog.activation import Activation, activate
from rota.catalog.audit_trail import Change
from rota.catalog.calendars import Calendar
from rota.catalog.definition import Definition, default_hash_key
from rota.catalog.idempotency import IdempotencyKey, StoredAnswer
from rota.catalog.places import Shared, place_many, share_many
from rota.catalog.schedules import NewSchedule, Place, Replacement, Schedule
from rota.catalog.tenants import reserve_schedules
from rota.plan import occurrences
from rota.plan.passed import plan_passed

_MICROSECOND: Final = timedelta(microseconds=1)
_TRIES: Final = 5
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """The answer to a create or a run: a JSON document, and whether an earlier request had the effect."""

    document: dict[str, Any]
    is_replayed: bool = False


async def create_schedules(
    db: Database,
    tenant_id: TenantId,
    definitions: Sequence[Definition],
    actors: Sequence[Actor],
    *,
    idempotency: Sequence[IdempotencyKey | None] | None = None,
    schedule_ids: Sequence[ScheduleId | None] | None = None,
) -> list[Created]:
    """Create schedules, planned when this returns: one transaction, a fixed number of statements for any number.

    A definition whose Idempotency-Key was used before gets the first answer; one whose schedule id exists gets that
    schedule. Raises ValidationFailed, Conflict (key used for something else) or QuotaExceeded for the first that is
    refused: then none of them was created.
    """
    wanted = list(idempotency or [None] * len(definitions))
    given = list(schedule_ids or [None] * len(definitions))
    shared = await share_many(db, tenant_id, definitions)
    ids = [one or new_schedule_id() for one in given]

    async def work(tx: Transaction) -> list[Created]:
        answers = await keys.claim_many(tx, tenant_id, [key for key in wanted if key is not None])
        for answer in answers.values():
            if isinstance(answer, Conflict):
                raise answer
        new = [i for i, key in enumerate(wanted) if key is None or key.key not in answers]
        made = await _insert(tx, tenant_id, [(ids[i], definitions[i], shared[i], actors[i]) for i in new])
        await keys.store_answers(
            tx,
            tenant_id,
            {
                key.key: StoredAnswer(status=201, response=one.document)
                for i, one in zip(new, made, strict=True)
                if (key := wanted[i]) is not None
            },
        )
        await failpoint("edit.before_commit")
        results = dict(zip(new, made, strict=True))
        return [results.get(i) or _replayed(answers, wanted[i]) for i in range(len(definitions))]

    done = await db.run(work)
    await failpoint("edit.after_commit")
    return done


def _replayed(answers: Mapping[str, StoredAnswer | Conflict], key: IdempotencyKey | None) -> Created:
    answer = answers.get(key.key) if key is not None else None
    if not isinstance(answer, StoredAnswer) or not isinstance(answer.response, dict):
        raise Conflict("the first answer to this Idempotency-Key cannot be read", hint="use a new key")
    return Created(document=answer.response, is_replayed=True)


async def _insert(
    tx: Transaction,
    tenant_id: TenantId,
    wanted: Sequence[tuple[ScheduleId, Definition, Shared | ValidationFailed, Actor]],
) -> list[Created]:
    if not wanted:
        return []
    await reserve_schedules(tx, tenant_id, len(wanted))
    cursors, now = await occurrences.share_shards(tx, [schedule_id for schedule_id, *_ in wanted])
    definitions = [definition for _, definition, _, _ in wanted]
    places = place_many(definitions, [shared for _, _, shared, _ in wanted], now)
    new: list[NewSchedule] = []
    for (schedule_id, definition, _, _), place in zip(wanted, places, strict=True):
        if isinstance(place, ValidationFailed):
            raise place
        new.append(NewSchedule(schedule_id=schedule_id, definition=definition, place=place))
    actor = wanted[0][3]
    written = await schedules.insert_many(tx, tenant_id, new, actor=_named(actor), reason=actor.reason)
    fresh = [
        (one.schedule_id, shared.timing, one.place)
        for one, (_, _, shared, _) in zip(new, wanted, strict=True)
        if one.schedule_id in written and isinstance(shared, Shared)
    ]
    await plan_passed(tx, fresh, cursors)
    await audit_trail.record_many(
        tx,
        actor,
        [
            _change(tenant_id, "schedule.create", one.schedule_id, after={"name": one.definition.name, "version": 1})
            for one in new
            if one.schedule_id in written
        ],
    )
    found = {one.schedule_id: one for one in await schedules.get_many(tx, tenant_id, [one.schedule_id for one in new])}
    return [_created(found, one, is_new=one.schedule_id in written) for one in new]


def _created(found: Mapping[ScheduleId, Schedule], one: NewSchedule, *, is_new: bool) -> Created:
    stored = found.get(one.schedule_id)
    if stored is None:
        raise Conflict(f"the schedule id {one.schedule_id} is taken", hint="choose another name or namespace")
    document = {"paused_until": None, "pause_reason": None, "set_aside": None, **stored.document(), "next_fires": []}
    first = one.place.fire_at or one.definition.timing.next_after(one.place.active_from)
    if first is not None:
        document["next_fires"] = [first.isoformat().replace("+00:00", "Z")]
    return Created(document=document, is_replayed=not is_new)


async def replace_schedule(
    db: Database,
    tenant_id: TenantId,
    schedule_id: UUID,
    document: Mapping[str, Any],
    actor: Actor,
    *,
    expected_version: int | None = None,
    max_payload_bytes: int = 262_144,
) -> Schedule:
    """A new definition as the next version. Raises VersionMismatch unless it still has the expected version."""

    def read(current: Schedule) -> Definition:
        return Definition.parse(
            document,
            hash_key=default_hash_key(tenant_id, str(document.get("name", ""))),
            stored=current.definition(),
            max_payload_bytes=max_payload_bytes,
        )

    return await _edit(db, tenant_id, schedule_id, read, actor, expected_version, "schedule.replace")


async def patch_schedule(
    db: Database,
    tenant_id: TenantId,
    schedule_id: UUID,
    patch: Mapping[str, Any],
    actor: Actor,
    *,
    expected_version: int | None = None,
    max_payload_bytes: int = 262_144,
) -> Schedule:
    """Members changed by a merge patch (RFC 7396), as the next version."""

    def read(current: Schedule) -> Definition:
        before = current.definition()
        return before.patched(
            patch, hash_key=default_hash_key(tenant_id, before.name), max_payload_bytes=max_payload_bytes
        )

    return await _edit(db, tenant_id, schedule_id, read, actor, expected_version, "schedule.patch")


async def _edit(
    db: Database,
    tenant_id: TenantId,
    schedule_id: UUID,
    read: Callable[[Schedule], Definition],
    actor: Actor,
    expected_version: int | None,
    action: str,
) -> Schedule:
    """Without an expected version, an edit that met another one is made again on top of it."""
    for number in range(_TRIES):
        current = await schedules.get_schedule(db, tenant_id, schedule_id)
        _expect(current, expected_version)
        definition = read(current)
        shared = (await share_many(db, tenant_id, [definition]))[0]
        if isinstance(shared, ValidationFailed):
            raise shared
        try:
            return await _write_edit(db, tenant_id, current, definition, shared, actor, action)
        except VersionMismatch:
            if expected_version is not None or number == _TRIES - 1:
                raise
    raise AssertionError("the last try returns or raises")


async def _write_edit(
    db: Database,
    tenant_id: TenantId,
    current: Schedule,
    definition: Definition,
    shared: Shared,
    actor: Actor,
    action: str,
) -> Schedule:
    schedule_id = current.schedule_id
    same_timing = current.cadence_id == shared.cadence_id and definition.has_timing_of(current.definition())

    async def work(tx: Transaction) -> Schedule:
        cursors, now = await occurrences.share_shards(tx, [schedule_id])
        locked = await _locked(tx, tenant_id, schedule_id, current.version)
        reason = "superseded"
        gone = await occurrences.cancel_unstarted(tx, [schedule_id], reason)
        # The timing is the same: slots whose time has come but which have not started belong to the new version.
        moved = [row["scheduled_for"] for row in gone if row["trigger"] == "timing" and row["scheduled_for"] <= now]
        since = min(moved) - _MICROSECOND if same_timing and moved else None
        active = _activation(definition, shared, now, since, locked, same_timing=same_timing)
        place = shared.place(active)
        replacement = Replacement(
            schedule_id=schedule_id,
            expected_version=locked.version,
            state=locked.state if locked.state is ScheduleState.PAUSED else ScheduleState.ACTIVE,
            definition=definition,
            place=place,
        )
        written = await schedules.replace_many(tx, tenant_id, [replacement], actor=_named(actor), reason=actor.reason)
        if schedule_id not in written:
            raise _mismatch(locked)
        if replacement.state is ScheduleState.ACTIVE:
            await plan_passed(tx, [(schedule_id, shared.timing, place)], cursors)
        changes = {"version": written[schedule_id]}
        await audit_trail.record(
            tx, actor, _change(tenant_id, action, schedule_id, before={"version": locked.version}, after=changes)
        )
        await failpoint("edit.before_commit")
        return (await schedules.get_many(tx, tenant_id, [schedule_id]))[0]

    return await db.run(work)


def _activation(
    definition: Definition,
    shared: Shared,
    now: datetime,
    since: datetime | None,
    locked: Schedule,
    *,
    same_timing: bool,
) -> Activation:
    if shared.timing.kind == "at" and same_timing:
        # A one-shot that was run already does not run again because its name changed.
        fire_at = shared.timing.at
        start = since or (now if fire_at is not None and fire_at <= now else locked.active_from)
        return Activation(active_from=start, active_until=None, fire_at=fire_at)
    return activate(definition, shared.timing, now, active_from=since)


async def run_schedule(
    db: Database,
    tenant_id: TenantId,
    schedule_id: UUID,
    actor: Actor,
    *,
    idempotency: IdempotencyKey | None = None,
) -> Created:
    """One occurrence now, whatever the timing; the rhythm is not disturbed. A paused schedule runs too."""

    async def work(tx: Transaction) -> Created:
        if idempotency is not None:
            before = await keys.claim(tx, tenant_id, idempotency)
            if before is not None and isinstance(before.response, dict):
                return Created(document=before.response, is_replayed=True)
        found = await schedules.get_schedule(tx, tenant_id, schedule_id)
        if found.state is ScheduleState.CANCELLED:
            raise Conflict(f"schedule {schedule_id} is cancelled", hint="create a new one")
        document = await occurrences.put_manual(tx, schedule_id)
        change = _change(tenant_id, "schedule.run", ScheduleId(schedule_id), after={"occurrence": document["id"]})
        await audit_trail.record(tx, actor, change)
        if idempotency is not None:
            await keys.store_answer(tx, tenant_id, idempotency.key, 201, document)
        await failpoint("edit.before_commit")
        return Created(document=document)

    return await db.run(work)


async def put_calendar(db: Database, tenant_id: TenantId, name: str, days: object, actor: Actor) -> Calendar:
    """Set a calendar's days, then write every schedule that names it again, as a new version with the new days.

    Died in between: the calendar is set, and setting it again goes on with the schedules that still have the old days.
    """
    async with db.transaction() as tx:
        calendar = await calendars.put_calendar(tx, tenant_id, name, days, actor)
    after: UUID | None = None
    while True:
        using = await calendars.schedules_using(db, tenant_id, name, **({"after_id": after} if after else {}))
        for schedule_id in using:
            await _edit(
                db, tenant_id, schedule_id, lambda current: current.definition(), actor, None, "schedule.recalendar"
            )
            after = schedule_id
        if not using:
            return calendar


def _expect(current: Schedule, expected_version: int | None) -> None:
    if expected_version is not None and current.version != expected_version:
        raise _mismatch(current)
    if current.state is ScheduleState.CANCELLED:
        raise Conflict(f"schedule {current.schedule_id} is cancelled", hint="create a new one")


async def _locked(tx: Transaction, tenant_id: TenantId, schedule_id: UUID, version: int) -> Schedule:
    found = await schedules.lock_many(tx, tenant_id, [schedule_id])
    if not found:
        raise NotFound(f"there is no schedule {schedule_id}")
    if found[0].version != version:
        raise _mismatch(found[0])
    return found[0]


def _mismatch(current: Schedule) -> VersionMismatch:
    return VersionMismatch(
        f"schedule {current.schedule_id} has version {current.version} by now",
        hint="read it again and repeat your change",
    )


def _named(actor: Actor) -> str:
    return f"{actor.kind}:{actor.id}"


def _change(
    tenant_id: TenantId,
    action: str,
    schedule_id: UUID,
    *,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
) -> Change:
    return Change(
        tenant_id=tenant_id,
        action=action,
        object_kind="schedule",
        object_id=str(schedule_id),
        before=before,
        after=after,
    )


Work = Callable[[Transaction], Awaitable[Made]]
__all__ = ["Created", "Place", "create_schedules", "patch_schedule", "put_calendar", "replace_schedule", "run_schedule"]
