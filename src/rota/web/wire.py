"""What comes in over HTTP: one model a request body. Unknown members are refused, texts are bounded.

A schedule is not here: `rota.catalog.definition` reads it, for the API as for files; `documents.py` describes it.
Instants are RFC 3339 with an offset, between 1970 and 2499; naive times are refused.
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2500, 1, 1, tzinfo=UTC)


def parse_instant(value: object) -> datetime:
    """An instant in UTC from its text. ValueError otherwise."""
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        raise ValueError("must be an instant with its offset, such as 2026-12-24T09:00:00Z")
    try:
        moment = datetime.fromisoformat(value.upper()).astimezone(UTC)
    except OverflowError as error:
        raise ValueError("must be between 1970 and 2499") from error
    if not EARLIEST <= moment < LATEST:
        raise ValueError("must be between 1970 and 2499")
    return moment


Instant = Annotated[
    datetime,
    BeforeValidator(parse_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}, mode="validation"),
]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Reason = Annotated[str | None, Field(max_length=500, description="Why; kept in the audit trail.")]
DurationText = Annotated[
    str, Field(min_length=1, max_length=40, description="A duration such as 30s, 15m or 1h30m.", examples=["30s"])
]
Rate = Annotated[
    float, Field(ge=0.00001, le=100_000, allow_inf_nan=False, description="Occurrences a second at the most.")
]


class Body(BaseModel):
    """A request body."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class PauseBody(Body):
    """Why a schedule is paused, and until when."""

    reason: Reason = None
    until: Instant | None = Field(default=None, description="It resumes by itself then; without it, not by itself.")


class ResumeBody(Body):
    """What to do about what was due during the pause."""

    reason: Reason = None
    missed: Literal["skip", "misfire"] = Field(
        default="skip",
        description="skip: recorded as missed. misfire: the pause counts as downtime, the misfire policy decides.",
    )


class ReasonBody(Body):
    """A reason and nothing else."""

    reason: Reason = None


class BackfillBody(Body):
    """A past range [from, to) to be run by the schedule's rule."""

    from_: Instant = Field(alias="from")
    to: Instant
    rate: Rate = 10.0
    reason: Reason = None


class PreviewBody(Body):
    """A timing to try."""

    timing: dict[str, Any]
    after: Instant | None = Field(default=None, description="Fires later than this; default: now.")
    count: int = Field(default=10, ge=1, le=1000)
    starts_at: Instant | None = None
    ends_at: Instant | None = None
    calendar: Name | None = Field(default=None, description="The name of an exclusion calendar of this tenant.")
    hash_key: str | None = Field(
        default=None, max_length=255, description="What `H` and a default anchor are derived from."
    )


class ReplayManyBody(Body):
    """Which dead letters to replay. Without any condition: all of the tenant."""

    schedule_id: str | None = Field(default=None, max_length=36)
    from_: Instant | None = Field(default=None, alias="from", description="Scheduled at or after.")
    to: Instant | None = Field(default=None, description="Scheduled before.")
    dead_reason: str | None = Field(
        default=None, max_length=40, description="attempts_exhausted, rejected, deadline, ..."
    )
    rate: Rate | None = Field(
        default=None, description="At most so many a second; without it as fast as fairness allows."
    )
    reason: Reason = None


class ClaimBody(Body):
    """What a worker can take."""

    worker: Name = Field(description="Names the worker in attempts and logs.")
    queues: list[Name] | None = Field(default=None, max_length=100, description="Only from these queues.")
    handlers: list[Name] | None = Field(default=None, max_length=1000, description="Only work for these handlers.")
    limit: int = Field(default=1, ge=1, le=1000)
    lease: DurationText | None = Field(default=None, description="How long without a heartbeat; 1s to 1h.")


class HeartbeatBody(Body):
    """How long the lease is to hold from now on."""

    lease: DurationText | None = Field(default=None, description="As in the claim; 1s to 1h.")


class CompleteBody(Body):
    """The result of an attempt that succeeded."""

    result: Any = None


class FailBody(Body):
    """Why an attempt failed."""

    error: str = Field(max_length=100_000)
    error_class: str | None = Field(default=None, max_length=200)
    retry: bool = Field(default=True, description="false: to the dead letters at once.")


class TenantBody(Body):
    """A new tenant and its quotas; a quota that is left out is no limit."""

    name: Name
    weight: int = Field(default=1, ge=1, le=1000, description="Its share when tenants compete.")
    max_schedules: int | None = Field(default=None, ge=0, le=2**53)
    max_in_flight: int | None = Field(default=None, ge=1, le=2**31 - 1)
    trigger_rate: Rate | None = None
    catch_up_rate: Rate | None = None
    max_payload_bytes: int = Field(default=262_144, ge=1, le=2**24)
    home_region: Name = "default"


class TenantChange(Body):
    """Changes of a tenant; null takes a quota away."""

    name: Name | None = None
    weight: int | None = Field(default=None, ge=1, le=1000)
    max_schedules: int | None = Field(default=None, ge=0, le=2**53)
    max_in_flight: int | None = Field(default=None, ge=1, le=2**31 - 1)
    trigger_rate: Rate | None = None
    catch_up_rate: Rate | None = None
    max_payload_bytes: int | None = Field(default=None, ge=1, le=2**24)
    home_region: Name | None = None
    is_suspended: bool | None = None
    reason: Reason = None


class KeyBody(Body):
    """A new API key."""

    name: str = Field(default="", max_length=200)
    scopes: list[Literal["read", "write", "worker", "admin"]] = Field(min_length=1, max_length=4)
    tenant_id: str | None = Field(default=None, max_length=40, description="Operators only: for another tenant.")
    is_operator: bool = Field(default=False, description="Operators only: sees the whole cell.")


class ScopePauseBody(Body):
    """What is held back as a whole."""

    scope: Literal["tenant", "target", "queue", "group"]
    value: str = Field(
        default="", max_length=300, description="The queue, group or target ('http:HOST:PORT', 'handler:NAME')."
    )
    reason: Reason = None
    until: Instant | None = None


class DayRange(Body):
    """Days from the first to the last, both included."""

    from_: str = Field(alias="from", max_length=10)
    to: str = Field(max_length=10)


class CalendarBody(Body):
    """The days on which schedules that name this calendar do not fire, by the clock of each schedule's zone."""

    days: list[str | DayRange] = Field(max_length=5000)


class LimitBody(Body):
    """A limit on a target ('target:http:HOST:PORT', 'target:handler:NAME') or on a chosen key ('key:NAME')."""

    scope: str = Field(max_length=300, pattern=r"^(target|key):[^\x00-\x1f\x7f]+$")
    max_concurrency: int | None = Field(default=None, ge=1, le=1_000_000)
    rate: Rate | None = Field(default=None, description="Starts a second.")
    burst: float | None = Field(default=None, ge=1, le=1_000_000, allow_inf_nan=False)
