"""Schedules and their version history: written set-based, read by tenant. Planning what they mean is plan/'s."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from rota.base.db import Executor, Query, Row, load_queries
from rota.base.errors import Conflict, NotFound
from rota.base.model import CadenceId, LaneId, PolicyId, ScheduleId, ScheduleState, TenantId
from rota.catalog import limits
from rota.catalog.definition import Definition, shown_document
from rota.catalog.fields import format_instant

_QUERIES = load_queries(__file__, "schedules.sql")
_READS = load_queries(__file__, "schedule_reads.sql")
_FIRST_ID = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a schedule's row points to, and from when until when its version is in force.

    calendar_version is that of the day list which the cadence leaves out; a write refuses one that has passed.
    """

    cadence_id: CadenceId | None
    fire_at: datetime | None
    lane_id: LaneId
    policy_id: PolicyId
    active_from: datetime
    active_until: datetime | None
    calendar_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    """A schedule to add."""

    schedule_id: ScheduleId
    definition: Definition
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A new version to write, if the schedule still has the expected one."""

    schedule_id: ScheduleId
    expected_version: int
    state: ScheduleState
    definition: Definition
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """A new version that differs in its state alone. expected_version None: whichever it has."""

    schedule_id: ScheduleId
    expected_version: int | None
    active_from: datetime
    active_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule as stored. rule, target and payload are JSON text, which a reader need not understand to show."""

    schedule_id: ScheduleId
    shard: int
    tenant_id: TenantId
    version: int
    state: ScheduleState
    cadence_id: CadenceId | None
    fire_at: datetime | None
    lane_id: LaneId
    policy_id: PolicyId
    active_from: datetime
    active_until: datetime | None
    paused_until: datetime | None
    pause_reason: str | None
    set_aside: str | None
    created_at: datetime
    updated_at: datetime
    rule: str
    target: str
    payload: str | None

    @property
    def place(self) -> Place:
        """What its row points to."""
        return Place(
            cadence_id=self.cadence_id,
            fire_at=self.fire_at,
            lane_id=self.lane_id,
            policy_id=self.policy_id,
            active_from=self.active_from,
            active_until=self.active_until,
        )

    def definition(self) -> Definition:
        """The definition, secrets included. ValidationFailed if the stored one is not understood (any more)."""
        document = {**orjson.loads(self.rule), "target": orjson.loads(self.target)}
        document["payload"] = orjson.loads(self.payload or "null")
        return Definition.parse(document, max_payload_bytes=2**40)

    def document(self) -> dict[str, object]:
        """The JSON a reader gets: the definition with secrets masked, and what the system knows beside it."""
        document: dict[str, object] = {
            "id": str(self.schedule_id),
            "version": self.version,
            "state": str(self.state),
            **shown_document(self.rule, self.target, self.payload),
            "created_at": format_instant(self.created_at),
            "updated_at": format_instant(self.updated_at),
        }
        if self.state is ScheduleState.PAUSED:
            document["pause_reason"] = self.pause_reason
            document["paused_until"] = None if self.paused_until is None else format_instant(self.paused_until)
        if self.set_aside is not None:
            document["set_aside"] = self.set_aside
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of a schedule's history; in force from activated_at until the next one's."""

    version: int
    state: ScheduleState
    active_from: datetime
    active_until: datetime | None
    activated_at: datetime
    actor: str
    reason: str | None
    document: Mapping[str, object]


async def insert_many(
    tx: Executor, tenant_id: TenantId, schedules: Sequence[NewSchedule], *, actor: str, reason: str | None = None
) -> set[UUID]:
    """Add schedules with their first versions, in one statement; answers the ids added. An id that exists is left out.

    Nothing is planned: that is the caller's, in the same transaction and under the shard locks.
    """
    if not schedules:
        return set()
    definitions = [schedule.definition for schedule in schedules]
    places = [schedule.place for schedule in schedules]
    await _hold_calendars(tx, tenant_id, definitions, places)
    rows = await tx.fetch(
        _QUERIES["schedule_insert"],
        tenant_id,
        [schedule.schedule_id for schedule in schedules],
        *_columns(definitions, places),
        actor,
        reason,
    )
    await _put_limits(tx, tenant_id, definitions)
    return {row[0] for row in rows}


async def replace_many(
    tx: Executor, tenant_id: TenantId, replacements: Sequence[Replacement], *, actor: str, reason: str | None = None
) -> dict[UUID, int]:
    """Write new versions, in one statement; answers the new version of each that still had the expected one."""
    if not replacements:
        return {}
    ids = [replacement.schedule_id for replacement in replacements]
    definitions = [replacement.definition for replacement in replacements]
    places = [replacement.place for replacement in replacements]
    await _hold_calendars(tx, tenant_id, definitions, places)
    rows = await tx.fetch(
        _QUERIES["schedule_replace"],
        tenant_id,
        ids,
        [replacement.expected_version for replacement in replacements],
        [str(replacement.state) for replacement in replacements],
        *_columns(definitions, places),
        actor,
        reason,
    )
    await tx.execute(_QUERIES["schedule_relabel"], tenant_id, ids)
    await _put_limits(tx, tenant_id, definitions)
    return {row[0]: row[1] for row in rows}


async def change_state(
    tx: Executor,
    tenant_id: TenantId | None,
    changes: Sequence[StateChange],
    state: ScheduleState,
    *,
    actor: str,
    reason: str | None = None,
    paused_until: datetime | None = None,
) -> dict[UUID, int]:
    """Write versions that differ in their state alone; answers the new version of each that still had the expected one.

    The reason of a pause is kept with the schedule; any other state ends a pause. tenant_id None: of any tenant.
    """
    if not changes:
        return {}
    is_pause = state is ScheduleState.PAUSED
    rows = await tx.fetch(
        _QUERIES["schedule_change_state"],
        tenant_id,
        [change.schedule_id for change in changes],
        [change.expected_version for change in changes],
        str(state),
        [change.active_from for change in changes],
        [change.active_until for change in changes],
        paused_until if is_pause else None,
        reason if is_pause else None,
        actor,
        reason,
    )
    return {row[0]: row[1] for row in rows}


async def set_aside(tx: Executor, reasons: Mapping[UUID, str | None]) -> None:
    """Say why schedules are not planned although they are active; None: they are again."""
    if reasons:
        await tx.execute(_QUERIES["schedule_set_aside"], list(reasons), list(reasons.values()))


async def lock_many(tx: Executor, tenant_id: TenantId | None, schedule_ids: Collection[UUID]) -> list[Schedule]:
    """Lock schedules until the end of the transaction, in id order, and read them; unknown ones are left out."""
    await tx.fetch(_QUERIES["schedule_lock"], tenant_id, list(schedule_ids))
    return await get_many(tx, tenant_id, schedule_ids)


async def get_many(db: Executor, tenant_id: TenantId | None, schedule_ids: Collection[UUID]) -> list[Schedule]:
    """Schedules by id, in id order; unknown ones and those of others are left out."""
    return [_schedule(row) for row in await db.fetch(_READS["schedule_get"], tenant_id, list(schedule_ids))]


async def get_schedule(db: Executor, tenant_id: TenantId | None, schedule_id: UUID) -> Schedule:
    """One schedule of a tenant (None: of any), or NotFound; that of another tenant is not found either."""
    found = await get_many(db, tenant_id, [schedule_id])
    if not found:
        raise NotFound(f"there is no schedule {schedule_id}")
    return found[0]


async def list_schedules(
    db: Executor,
    tenant_id: TenantId,
    *,
    name: str | None = None,
    group: str | None = None,
    state: ScheduleState | None = None,
    label: tuple[str, str] | None = None,
    after_id: UUID | None = None,
    limit: int = 100,
) -> list[Schedule]:
    """A page of a tenant's schedules by id, which is by age; the id of the last one is the cursor of the next page."""
    arguments: list[object] = [
        tenant_id,
        after_id or _FIRST_ID,
        limit,
        name,
        group,
        None if state is None else str(state),
    ]
    if label is not None:
        query: Query = _READS["schedule_page_labelled"]
        arguments.append(f"{label[0]}={label[1]}")
    elif name is not None:
        query = _READS["schedule_page_named"]
    elif group:
        query = _READS["schedule_page_grouped"]
    elif state is not None and state is not ScheduleState.ACTIVE:
        query = _READS["schedule_page_not_active"]
    else:
        query = _READS["schedule_page"]
    ids = [row[0] for row in await db.fetch(query, *arguments)]
    return await get_many(db, tenant_id, ids) if ids else []


async def find_named(db: Executor, tenant_id: TenantId, names: Collection[str]) -> dict[str, list[UUID]]:
    """The active and paused schedules of these names, oldest first."""
    found: dict[str, list[UUID]] = {}
    for row in await db.fetch(_READS["schedule_find_named"], tenant_id, list(names)):
        found.setdefault(row[0], []).append(row[1])
    return found


async def list_versions(
    db: Executor, tenant_id: TenantId | None, schedule_id: UUID, *, before_version: int = 2**31 - 1, limit: int = 100
) -> list[Version]:
    """The newest versions of a schedule first, secrets masked."""
    rows = await db.fetch(_READS["schedule_history"], tenant_id, schedule_id, before_version, limit)
    return [
        Version(
            version=row["version"],
            state=ScheduleState(row["state"]),
            active_from=row["active_from"],
            active_until=row["active_until"],
            activated_at=row["activated_at"],
            actor=row["actor"],
            reason=row["reason"],
            document=shown_document(row["definition"], row["target"], row["payload"]),
        )
        for row in rows
    ]


def _columns(definitions: Sequence[Definition], places: Sequence[Place]) -> tuple[list[object], ...]:
    # Column by column: one array a column, whatever the number of rows.
    rules = [definition.rule for definition in definitions]
    return (
        [definition.name for definition in definitions],
        [rule.group for rule in rules],
        [orjson.dumps(definition.labels).decode() if definition.labels else "{}" for definition in definitions],
        [rule.calendar for rule in rules],
        [place.cadence_id for place in places],
        [place.fire_at for place in places],
        [place.lane_id for place in places],
        [place.policy_id for place in places],
        [place.active_from for place in places],
        [place.active_until for place in places],
        [definition.stored_text() for definition in definitions],
        [rule.target_text for rule in rules],
        [definition.payload for definition in definitions],
    )


async def _hold_calendars(
    tx: Executor, tenant_id: TenantId, definitions: Sequence[Definition], places: Sequence[Place]
) -> None:
    wanted = {
        (definition.rule.calendar, place.calendar_version)
        for definition, place in zip(definitions, places, strict=True)
        if definition.rule.calendar is not None and place.calendar_version is not None
    }
    if not wanted:
        return
    names = [name for name, _ in wanted]
    found = {(row[0], row[1]) for row in await tx.fetch(_QUERIES["schedule_hold_calendars"], tenant_id, names)}
    if changed := wanted - found:
        name = min(str(name) for name, _ in changed)
        raise Conflict(f"the calendar {name} was changed meanwhile", hint="send the request again")


async def _put_limits(tx: Executor, tenant_id: TenantId, definitions: Sequence[Definition]) -> None:
    named = [definition.rule.limit for definition in definitions if definition.rule.limit is not None]
    if named:
        await limits.put_named(tx, tenant_id, named)


def _schedule(row: Row) -> Schedule:
    values: dict[str, Any] = dict(row)
    values["state"] = ScheduleState(values["state"])
    values["rule"] = values.pop("definition")
    return Schedule(**values)
