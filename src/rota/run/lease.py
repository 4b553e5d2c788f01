"""One leased occurrence as a worker holds it, and the outcome it ends with."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from rota.base.model import AttemptOutcome, Policy, RunKey


@dataclass(slots=True, eq=False)
class Lease:
    """What was claimed. `is_lost` and `is_cancelled` are set by heartbeats."""

    schedule_id: UUID
    version: int
    scheduled_for: datetime
    shard: int
    tenant_id: int
    lane_id: int
    attempt: int
    failures: int
    losses: int
    token: int
    started_at: datetime
    available_at: datetime
    planned_at: datetime
    trigger: str
    target: str
    payload: str | None
    schedule_name: str
    is_expired: bool
    policy: Policy
    is_lost: bool = False
    is_cancelled: bool = False

    @property
    def key(self) -> RunKey:
        """The run key."""
        return RunKey(self.schedule_id, self.version, self.scheduled_for)

    @property
    def public_token(self) -> str:
        """What a worker over HTTP names the lease by."""
        return f"{self.key}.{self.token}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an attempt ended. `error` is any text; it is cleaned where it is written. `asked`: the target's
    Retry-After."""

    outcome: AttemptOutcome
    status: int | None = None
    result: str | None = None
    error_class: str | None = None
    error: str | None = None
    asked: timedelta | None = None


SUCCEEDED = Outcome(outcome=AttemptOutcome.SUCCEEDED)
