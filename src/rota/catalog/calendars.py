"""Day lists that a tenant shares between schedules: on these days, in each schedule's own time zone, nothing fires.

A list is resolved into the cadence when a schedule is written. When the list changes, the schedules that use it have to
be written again (schedules_using tells which), so that history says which days were left out when.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

import orjson

from rota.base.db import Executor, Row, load_queries
from rota.base.errors import Conflict, FieldError, NotFound, ValidationFailed
from rota.base.model import Actor, ScheduleId, TenantId
from rota.calendar import Exclusions, Timing
from rota.catalog import audit_trail
from rota.catalog.audit_trail import Change
from rota.catalog.definition import Definition
from rota.catalog.fields import Fields

_QUERIES = load_queries(__file__, "calendars.sql")
_MOST_ENTRIES = 2000
_FIRST_ID = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """A list of days: texts such as 2026-12-25, and ranges {"from": …, "to": …} with both ends in them."""

    tenant_id: TenantId
    name: str
    days: Sequence[object]
    version: int
    updated_at: datetime


async def put_calendar(tx: Executor, tenant_id: TenantId, name: str, days: object, actor: Actor) -> Calendar:
    """Set a calendar's days; ValidationFailed with the path of each fault."""
    fields = Fields()
    fields.text("name", name, 100)
    listed = read_days(fields, days)
    fields.raise_if_any()
    before = (await get_many(tx, tenant_id, [name])).get(name)
    row = await tx.fetch_row(_QUERIES["calendar_put"], tenant_id, name, orjson.dumps(listed).decode())
    if row is None:
        raise NotFound("there is no such tenant")
    calendar = _calendar(row)
    old = None if before is None else {"version": before.version, "days": list(before.days)[:100]}
    new = {"version": calendar.version, "days": list(calendar.days)[:100]}
    await audit_trail.record(tx, actor, _change(calendar, "calendar.set", old, new))
    return calendar


async def get_calendar(db: Executor, tenant_id: TenantId, name: str) -> Calendar:
    """One calendar, or NotFound."""
    found = (await get_many(db, tenant_id, [name])).get(name)
    if found is None:
        raise NotFound(f"there is no calendar named {name}")
    return found


async def get_exclusions(db: Executor, tenant_id: TenantId, name: str) -> Exclusions:
    """The days of one calendar as the time engine takes them, or NotFound."""
    return Exclusions.parse((await get_calendar(db, tenant_id, name)).days)


async def get_many(db: Executor, tenant_id: TenantId, names: Sequence[str]) -> dict[str, Calendar]:
    """Calendars by name; unknown ones are left out."""
    if not names:
        return {}
    rows = await db.fetch(_QUERIES["calendar_get"], tenant_id, sorted(set(names)))
    return {row["name"]: _calendar(row) for row in rows}


async def list_calendars(
    db: Executor, tenant_id: TenantId, *, after_name: str = "", limit: int = 100
) -> list[Calendar]:
    """A tenant's calendars by name, those after a name."""
    return [_calendar(row) for row in await db.fetch(_QUERIES["calendar_list"], tenant_id, after_name, limit)]


async def delete_calendar(tx: Executor, tenant_id: TenantId, name: str, actor: Actor) -> Calendar:
    """Remove a calendar that no active or paused schedule uses; Conflict if one does, NotFound if there is none."""
    await tx.fetch(_QUERIES["calendar_lock"], tenant_id, name)
    if await schedules_using(tx, tenant_id, name, limit=1):
        raise Conflict(f"schedules use the calendar {name}", hint="change or cancel them first")
    row = await tx.fetch_row(_QUERIES["calendar_delete"], tenant_id, name)
    if row is None:
        raise NotFound(f"there is no calendar named {name}")
    calendar = _calendar(row)
    await audit_trail.record(tx, actor, _change(calendar, "calendar.delete", {"version": calendar.version}, None))
    return calendar


async def schedules_using(
    db: Executor, tenant_id: TenantId, name: str, *, after_id: UUID = _FIRST_ID, limit: int = 1000
) -> list[ScheduleId]:
    """The active and paused schedules that use a calendar, by id, those after an id."""
    rows = await db.fetch(_QUERIES["calendar_schedules"], tenant_id, name, after_id, limit)
    return [row["schedule_id"] for row in rows]


def timing_without(definition: Definition, calendars: Mapping[str, Calendar]) -> Timing | ValidationFailed:
    """The timing of a definition without the days of its calendar; a fault if that is not among the calendars."""
    name = definition.rule.calendar
    if name is None:
        return definition.rule.timing
    calendar = calendars.get(name)
    if calendar is None:
        fault = FieldError(
            field="calendar", message="is not a calendar of this tenant", value=name, hint="create it first"
        )
        return ValidationFailed((fault,))
    return definition.rule.timing.with_exclusions(Exclusions.parse(calendar.days))


def read_days(fields: Fields, value: object) -> list[object]:
    """A list of days and ranges, in order and without doubles; faults are added to fields."""
    if not isinstance(value, list) or len(value) > _MOST_ENTRIES:
        fields.add("days", f"must be a list of at most {_MOST_ENTRIES} days or ranges")
        return []
    spans: set[tuple[date, date]] = set()
    for number, entry in enumerate(value):
        path = f"days[{number}]"
        if isinstance(entry, Mapping):
            fields.members(path, entry, ("from", "to"))
            first, last = _day(fields, f"{path}.from", entry.get("from")), _day(fields, f"{path}.to", entry.get("to"))
            if first is not None and last is not None and last < first:
                fields.add(f"{path}.to", "must not be before from", entry.get("to"))
        else:
            first = last = _day(fields, path, entry)
        if first is not None and last is not None:
            spans.add((first, last))
    return [
        first.isoformat() if first == last else {"from": first.isoformat(), "to": last.isoformat()}
        for first, last in sorted(spans)
    ]


def _day(fields: Fields, path: str, value: object) -> date | None:
    try:
        if isinstance(value, str) and len(value) == len("2026-12-25"):
            return date.fromisoformat(value)
    except ValueError:
        pass
    fields.add(path, "must be a day such as 2026-12-25", value)
    return None


def _calendar(row: Row) -> Calendar:
    return Calendar(**{**row, "days": orjson.loads(row["days"])})


def _change(
    calendar: Calendar, action: str, before: Mapping[str, object] | None, after: Mapping[str, object] | None
) -> Change:
    return Change(
        tenant_id=calendar.tenant_id,
        action=action,
        object_kind="calendar",
        object_id=calendar.name,
        before=before,
        after=after,
    )
