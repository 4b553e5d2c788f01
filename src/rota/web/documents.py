"""What goes out over HTTP, as the OpenAPI document describes it. These models document; answers are built by render.py.

`ScheduleBody` describes what comes in, too: it is read by `rota.catalog.definition`.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

ScheduleState = Literal["active", "paused", "finished", "cancelled"]
OccurrenceState = Literal[
    "scheduled", "enqueued", "running", "retry_wait", "succeeded", "dead", "missed", "cancelled", "skipped_overlap"
]


class Shown(BaseModel):
    """A document of the API."""

    model_config = ConfigDict(extra="allow")


class FieldProblem(Shown):
    """One wrong field."""

    field: str = Field(examples=["timing.cron"])
    message: str
    value: Any = None
    hint: str | None = None


class ProblemDocument(Shown):
    """RFC 9457: what went wrong and what to do."""

    type: str = Field(examples=["urn:rota:problem:validation_failed"])
    title: str
    status: int
    detail: str
    code: str = Field(description="Stable; the same in the command line and in logs.")
    instance: str | None = None
    request_id: str | None = None
    hint: str | None = None
    errors: list[FieldProblem] | None = None


class Timing(BaseModel):
    """When: exactly one of cron, every and at."""

    cron: str | None = Field(None, examples=["0 9 * * *"])
    every: str | dict[str, Any] | int | float | None = Field(None, examples=["15m"])
    at: str | None = Field(None, examples=["2026-12-24T09:00:00"])
    time_zone: str | None = Field(None, examples=["America/New_York"])
    dst: str | dict[str, str] | None = Field(
        None, description="A preset (rota, eventbridge, kubernetes, cronie) or {gap, fold, wildcards}."
    )
    dialect: str | None = Field(None, description="unix5, seconds6, quartz7, aws6 or jenkinsH.")
    anchor: str | None = Field(None, description="The instant that `every` is counted from.")


class Misfire(BaseModel):
    """What happens to an occurrence that could not start in time."""

    policy: Literal["skip", "fire_once", "catch_up"] = "fire_once"
    max_lateness: str | None = "1h"
    max_catch_up: int = 10


class Retry(BaseModel):
    """How often and how late a failed attempt is tried again."""

    max_attempts: int = 5
    base: str = "10s"
    cap: str = "10m"
    deadline: str | None = None


class HttpTarget(BaseModel):
    """An HTTP call. Secret header values read back as `***`; sent back so, they stay as they are."""

    url: str
    method: str = "POST"
    headers: dict[str, str] = Field(default_factory=dict)
    timeout: str = "30s"
    body: Literal["payload", "envelope"] = "payload"


class HandlerTarget(BaseModel):
    """A function registered by workers."""

    name: str
    queue: str = "default"


class NatsTarget(BaseModel):
    """A message to a NATS subject."""

    subject: str


class Target(BaseModel):
    """What to do: exactly one of http, handler and nats."""

    http: HttpTarget | None = None
    handler: HandlerTarget | None = None
    nats: NatsTarget | None = None


class KeyLimit(BaseModel):
    """A limit shared by all schedules that name the same key."""

    key: str
    max_concurrency: int | None = None
    rate: str | None = Field(None, examples=["10/s"])


class ScheduleBody(BaseModel):
    """A schedule as its owner writes it."""

    name: str = Field(max_length=255)
    timing: Timing
    target: Target
    group: str = ""
    description: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    starts_at: datetime | None = Field(None, description="No fire before it; a fire at it counts.")
    ends_at: datetime | None = Field(None, description="No fire after it; a fire at it counts.")
    max_runs: int | None = None
    calendar: str | None = None
    window: str = "0s"
    misfire: Misfire | None = None
    overlap: Literal["allow", "skip_if_running", "queue_one", "cancel_running"] = "allow"
    priority: Literal["high", "normal", "low"] = "normal"
    retry: Retry | None = None
    limit: KeyLimit | None = None
    payload: Any = None


class ScheduleChange(BaseModel):
    """A merge patch (RFC 7396) of a schedule: null takes a member back to its default."""

    model_config = ConfigDict(extra="allow")


class Schedule(Shown):
    """A schedule with its state."""

    id: str
    version: int
    state: ScheduleState
    name: str
    group: str
    labels: dict[str, str]
    timing: dict[str, Any]
    target: dict[str, Any]
    payload: Any = None
    next_fires: list[datetime]
    paused_until: datetime | None
    pause_reason: str | None
    set_aside: str | None = Field(description="Why it is not planned although active.")
    created_at: datetime
    updated_at: datetime


class ScheduleVersion(Shown):
    """One version of a schedule."""

    version: int
    state: ScheduleState
    activated_at: datetime
    actor: str
    reason: str | None


class BulkResult(Shown):
    """The result of one line: the schedule's id, or the error."""

    line: int
    id: str | None = None
    error: ProblemDocument | None = None


class Fire(Shown):
    """One instant of a preview. `fires` is false for one that a clock change or a calendar takes away."""

    at: datetime
    wall: str
    fires: bool
    marks: list[str]


class Preview(Shown):
    """What a timing gives."""

    description: str
    fires: list[Fire]


class Attempt(Shown):
    """One try."""

    number: int
    outcome: str
    worker: str | None
    started_at: datetime | None
    finished_at: datetime | None
    status: int | None
    error_class: str | None
    error: str | None
    retry_at: datetime | None


class Occurrence(Shown):
    """One planned time of one schedule version. `id` is its run key."""

    id: str
    schedule_id: str
    version: int
    scheduled_for: datetime
    state: OccurrenceState
    trigger: Literal["timing", "catch_up", "backfill", "manual"]
    reason: str | None
    attempt: int
    failures: int
    losses: int
    planned_at: datetime | None
    available_at: datetime | None
    enqueued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    status: int | None


class OccurrenceDetail(Occurrence):
    """One occurrence with its attempts, its result and what it was to do."""

    attempts: list[Attempt]
    result: str | None
    last_error: str | None
    schedule_name: str
    target: dict[str, Any]
    payload: Any = None


class MissedRange(Shown):
    """Occurrences of one schedule that were due and not run, as one range."""

    schedule_id: str
    version: int
    first_at: datetime
    last_at: datetime
    count: int
    reason: str
    recorded_at: datetime


class Replayed(Shown):
    """How many dead letters were put back."""

    replayed: int


class Backfill(Shown):
    """A backfill and how far it is."""

    id: str
    schedule_id: str
    version: int
    state: str
    rate: float
    planned: int
    planned_through: datetime
    created_at: datetime


class Lease(Shown):
    """Work that was leased."""

    token: str
    run_key: str
    schedule_id: str
    schedule_name: str
    scheduled_for: datetime
    attempt: int
    handler: str | None
    queue: str
    payload: Any = None
    lease_s: float = Field(description="Without a heartbeat for so long the work is given to others.")


class Leases(Shown):
    """What a claim got."""

    leases: list[Lease]


class LeaseState(Shown):
    """How a lease stands."""

    run_key: str
    state: str
    lease_until: datetime | None
    cancel_requested: bool
    retry_at: datetime | None


class Tenant(Shown):
    """A tenant with its quotas."""

    tenant_id: str
    name: str
    weight: int
    is_suspended: bool
    created_at: datetime


class Key(Shown):
    """An API key without its secret."""

    key_id: str
    tenant_id: str
    name: str
    scopes: list[str]
    is_operator: bool
    created_at: datetime
    revoked_at: datetime | None


class NewKey(Key):
    """A key with its text, which is shown this once."""

    key: str


class NewTenant(Tenant):
    """A tenant and its first key, which is shown this once."""

    key: str


class Me(Shown):
    """Whose key this is and what it may do."""

    tenant_id: str
    tenant: str
    key_id: str
    scopes: list[str]
    is_operator: bool


class AuditEntry(Shown):
    """One change, and who made it."""

    audit_id: int
    at: datetime
    actor_kind: str
    actor_id: str
    action: str
    object_kind: str
    object_id: str
    reason: str | None
    request_id: str | None
    node: str | None
    before: Any
    after: Any


class ScopePause(Shown):
    """What is held back as a whole."""

    scope: str
    value: str
    reason: str | None
    actor: str
    paused_at: datetime
    paused_until: datetime | None


class Calendar(Shown):
    """Days on which schedules do not fire."""

    name: str
    days: list[Any]
    version: int
    updated_at: datetime


class Limit(Shown):
    """How many at once and how many a second."""

    scope: str
    max_concurrency: int | None
    rate: float | None
    burst: float | None
