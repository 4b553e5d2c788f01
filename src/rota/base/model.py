"""The words of the product as types: ids, run keys, policies, states and the moves between them."""

import hashlib
import os
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Any, Final, NewType, Self

TenantId = NewType("TenantId", int)
KeyId = NewType("KeyId", str)
ScheduleId = NewType("ScheduleId", uuid.UUID)
CadenceId = NewType("CadenceId", int)
LaneId = NewType("LaneId", int)
PolicyId = NewType("PolicyId", int)
Shard = NewType("Shard", int)

N_SHARDS: Final = 256


class ScheduleState(StrEnum):
    """What a schedule as a whole is."""

    ACTIVE = "active"
    PAUSED = "paused"
    FINISHED = "finished"
    CANCELLED = "cancelled"


class OccurrenceState(StrEnum):
    """What an occurrence is, as users see it. The first four are derived from its row, see `rota.web.reports`."""

    SCHEDULED = "scheduled"
    ENQUEUED = "enqueued"
    RUNNING = "running"
    RETRY_WAIT = "retry_wait"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    MISSED = "missed"
    CANCELLED = "cancelled"
    SKIPPED_OVERLAP = "skipped_overlap"


class FinalState(StrEnum):
    """How an occurrence ended; never changes, but dead ones can be replayed."""

    SUCCEEDED = "succeeded"
    DEAD = "dead"
    MISSED = "missed"
    CANCELLED = "cancelled"
    SKIPPED_OVERLAP = "skipped_overlap"


class AttemptOutcome(StrEnum):
    """How one attempt ended: failed may be retried, rejected never; lost and interrupted are nobody's failure."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"


class Trigger(StrEnum):
    """Why an occurrence exists."""

    TIMING = "timing"
    CATCH_UP = "catch_up"
    BACKFILL = "backfill"
    MANUAL = "manual"


_S = OccurrenceState
LEGAL_MOVES: Final[Mapping[OccurrenceState, frozenset[OccurrenceState]]] = {
    _S.SCHEDULED: frozenset({_S.ENQUEUED, _S.CANCELLED, _S.MISSED}),
    _S.ENQUEUED: frozenset({_S.RUNNING, _S.CANCELLED, _S.MISSED, _S.SKIPPED_OVERLAP}),
    _S.RUNNING: frozenset({_S.SUCCEEDED, _S.RETRY_WAIT, _S.ENQUEUED, _S.DEAD, _S.CANCELLED}),
    _S.RETRY_WAIT: frozenset({_S.ENQUEUED, _S.CANCELLED, _S.DEAD}),
    _S.DEAD: frozenset({_S.ENQUEUED}),
    _S.SUCCEEDED: frozenset(),
    _S.MISSED: frozenset(),
    _S.CANCELLED: frozenset(),
    _S.SKIPPED_OVERLAP: frozenset(),
}

_RUN_KEY = re.compile(
    r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([1-9][0-9]{0,9})\.([0-9]{8})T([0-9]{6})([0-9]{6})?Z"
)


@dataclass(frozen=True, slots=True, order=True)
class RunKey:
    """What names an occurrence: schedule, version, planned instant (aware UTC, microseconds).

    As text `<uuid>.<version>.<YYYYMMDDTHHMMSS[ffffff]Z>`, safe in a URL; SQL's `rota_run_key` writes the same.
    """

    schedule_id: uuid.UUID
    version: int
    scheduled_for: datetime

    def __str__(self) -> str:
        at = self.scheduled_for.astimezone(UTC)
        fraction = f"{at.microsecond:06d}" if at.microsecond else ""
        return f"{self.schedule_id}.{self.version}.{at:%Y%m%dT%H%M%S}{fraction}Z"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form back. Raises ValueError if it is not exactly one."""
        found = _RUN_KEY.fullmatch(text)
        if found is None:
            raise ValueError(f"not a run key: {text[:120]!r} (expected <schedule id>.<version>.<YYYYMMDDTHHMMSSZ>)")
        schedule_id, version, day, clock, fraction = found.groups()
        at = datetime.strptime(day + clock, "%Y%m%d%H%M%S").replace(tzinfo=UTC, microsecond=int(fraction or 0))
        if fraction == "000000":
            raise ValueError(f"not a run key: {text!r} (a whole second has no fraction)")
        return cls(uuid.UUID(schedule_id), int(version), at)


def shard_of(schedule_id: uuid.UUID) -> Shard:
    """The shard of a schedule: the last byte of its id."""
    return Shard(schedule_id.int & 0xFF)


def new_schedule_id() -> ScheduleId:
    """A new id: UUID version 7 (RFC 9562), so ids of one moment lie together in indexes; 74 random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62
    return ScheduleId(uuid.UUID(int=value))


def named_schedule_id(tenant_id: TenantId, namespace: str, name: str) -> ScheduleId:
    """The same id for the same name, tenant and namespace, always: UUID version 8 (RFC 9562) from SHA-256."""
    digest = hashlib.sha256(f"{tenant_id}\x1f{namespace}\x1f{name}".encode()).digest()
    value = int.from_bytes(digest[:16], "big")
    value = value & ~(0xF << 76) & ~(0x3 << 62) | 0x8 << 76 | 0x2 << 62
    return ScheduleId(uuid.UUID(int=value))


def format_tenant_id(tenant_id: int) -> str:
    """The public form of a tenant id."""
    return f"ten_{tenant_id:013x}"


def parse_tenant_id(text: str) -> TenantId:
    """Read the public form back. Raises ValueError."""
    if not re.fullmatch(r"ten_[0-9a-f]{13}", text):
        raise ValueError(f"not a tenant id: {text[:60]!r} (expected ten_ and 13 hex digits)")
    return TenantId(int(text[4:], 16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who does something, for the audit trail; automatic actors (keeper, planner, breaker) are named too."""

    kind: str
    id: str
    request_id: str | None = None
    reason: str | None = None
    node: str | None = None


class Misfire(StrEnum):
    """What becomes of fires that were not planned in time."""

    SKIP = "skip"
    FIRE_ONCE = "fire_once"
    CATCH_UP = "catch_up"


class Overlap(StrEnum):
    """What becomes of an occurrence that is due while another of its schedule runs."""

    ALLOW = "allow"
    SKIP_IF_RUNNING = "skip_if_running"
    QUEUE_ONE = "queue_one"
    CANCEL_RUNNING = "cancel_running"


class Priority(IntEnum):
    """Order within a tenant; recovery (catch-up, backfill, bulk replay) is not chosen by users."""

    HIGH = 0
    NORMAL = 1
    LOW = 2
    RECOVERY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MisfirePolicy:
    """`max_lateness` None: never too late. `max_catch_up`: at most so many, the oldest first."""

    policy: Misfire = Misfire.FIRE_ONCE
    max_lateness: timedelta | None = timedelta(hours=1)
    max_catch_up: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Full jitter: the wait after failure n is random(0, min(cap, base * 2^n)). `deadline` runs from scheduled_for."""

    max_attempts: int = 5
    base: timedelta = timedelta(seconds=10)
    cap: timedelta = timedelta(minutes=10)
    deadline: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything that decides what happens when life is not smooth; shared by all schedules that have the same."""

    window: timedelta = timedelta(0)
    misfire: MisfirePolicy = field(default_factory=MisfirePolicy)
    overlap: Overlap = Overlap.ALLOW
    priority: Priority = Priority.NORMAL
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    def to_json(self) -> dict[str, Any]:
        """The canonical document, durations in milliseconds."""
        return {
            "window_ms": milliseconds(self.window),
            "misfire": {
                "policy": str(self.misfire.policy),
                "max_lateness_ms": _optional_ms(self.misfire.max_lateness),
                "max_catch_up": self.misfire.max_catch_up,
            },
            "overlap": str(self.overlap),
            "priority": self.priority.name.lower(),
            "retry": {
                "max_attempts": self.retry.max_attempts,
                "base_ms": milliseconds(self.retry.base),
                "cap_ms": milliseconds(self.retry.cap),
                "deadline_ms": _optional_ms(self.retry.deadline),
            },
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read the canonical document back."""
        misfire, retry = document["misfire"], document["retry"]
        return cls(
            window=timedelta(milliseconds=document["window_ms"]),
            misfire=MisfirePolicy(
                policy=Misfire(misfire["policy"]),
                max_lateness=_optional_delta(misfire["max_lateness_ms"]),
                max_catch_up=misfire["max_catch_up"],
            ),
            overlap=Overlap(document["overlap"]),
            priority=Priority[document["priority"].upper()],
            retry=RetryPolicy(
                max_attempts=retry["max_attempts"],
                base=timedelta(milliseconds=retry["base_ms"]),
                cap=timedelta(milliseconds=retry["cap_ms"]),
                deadline=_optional_delta(retry["deadline_ms"]),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneKey:
    """What names a lane: all that can hold work back."""

    tenant_id: TenantId
    queue: str
    priority: Priority
    target_key: str
    limit_key: str = ""
    overlap: Overlap = Overlap.ALLOW


def milliseconds(duration: timedelta) -> int:
    """A duration in whole milliseconds."""
    return duration // timedelta(milliseconds=1)


def _optional_ms(duration: timedelta | None) -> int | None:
    return None if duration is None else milliseconds(duration)


def _optional_delta(value: int | None) -> timedelta | None:
    return None if value is None else timedelta(milliseconds=value)
