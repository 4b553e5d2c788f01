"""The lease protocol for workers in any language: claim, heartbeat, complete, fail. Fenced like our own workers.

A lease token is `<run key>.<number>`; it is worth nothing without a key of its tenant with the worker scope.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from rota.base.db import Database, Row, load_queries
from rota.base.errors import LeaseLost, NotFound
from rota.base.json import dump_json, load_json
from rota.base.model import AttemptOutcome, Policy, RunKey, TenantId
from rota.calendar import write_instant
from rota.queue.claims import Claimer
from rota.queue.lanes import Lane
from rota.run.executor import parse_target
from rota.run.lease import Lease, Outcome
from rota.run.outcomes import key_of, write_outcomes
from rota.run.retry import Again
from rota.run.worker import lease_of

_QUERIES = load_queries(__file__, "leases.sql")
_ATTEMPTS = load_queries(__file__, "attempts.sql")
DEFAULT_LEASE_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """One lease as a worker over HTTP gets it."""

    lease: Lease
    lease_s: float

    def document(self) -> dict[str, Any]:
        """The JSON members."""
        kind, target = parse_target(self.lease.target)
        return {
            "token": self.lease.public_token,
            "run_key": str(self.lease.key),
            "schedule_id": str(self.lease.schedule_id),
            "schedule_name": self.lease.schedule_name,
            "scheduled_for": write_instant(self.lease.scheduled_for),
            "attempt": self.lease.attempt,
            "handler": target.get("name") if kind == "handler" else None,
            "queue": target.get("queue", "default") if kind == "handler" else "default",
            "payload": load_json(self.lease.payload or "null"),
            "lease_s": self.lease_s,
        }


async def claim_for_tenant(
    db: Database,
    tenant_id: TenantId,
    *,
    queues: Collection[str] | None = None,
    handlers: Collection[str] | None = None,
    limit: int = 10,
    worker: str = "http",
    lease_s: float = DEFAULT_LEASE_S,
) -> list[Leased]:
    """Lease due occurrences with handler targets of one tenant, of these queues and handlers (None: of all)."""

    def accepts(lane: Lane) -> bool:
        kind, _, name = lane.target_key.partition(":")
        return (
            lane.tenant_id == tenant_id
            and kind == "handler"
            and (not queues or lane.queue in queues)
            and (not handlers or name in handlers)
        )

    claimer = Claimer(db, worker=worker[:200], lease_s=lease_s, accepts=accepts, tenant_id=tenant_id)
    rows = (await claimer.claim(limit)).rows
    expired = [row for row in rows if row["is_expired"]]
    policies = await _policies(db, rows)
    if expired:
        late = Outcome(outcome=AttemptOutcome.LOST, error="started too late")
        ended = [(lease_of(row, policies[row["policy_id"]]), late) for row in expired]
        await write_outcomes(db, ended, worker=worker, max_losses=1_000_000)
    return [
        Leased(lease=lease_of(row, policies[row["policy_id"]]), lease_s=lease_s)
        for row in rows
        if not row["is_expired"]
    ]


async def heartbeat(
    db: Database, tenant_id: TenantId, token: str, *, lease_s: float = DEFAULT_LEASE_S
) -> dict[str, Any]:
    """Keep a lease. LeaseLost when it does not hold any more."""
    key, number = parse_token(token)
    row = await db.fetch_row(
        _QUERIES["lease_extend"], tenant_id, key.schedule_id, key.scheduled_for, key.version, number, lease_s
    )
    if row is None:
        raise _lost(token)
    return {
        "run_key": str(key),
        "state": "running",
        "lease_until": write_instant(row["lease_until"]),
        "cancel_requested": row["is_cancel_requested"],
        "retry_at": None,
    }


async def complete(db: Database, tenant_id: TenantId, token: str, result: object = None) -> dict[str, Any]:
    """Report success. LeaseLost when somebody else has the work by now."""
    text = None if result is None else dump_json(result, lossy=True)
    return await _end(db, tenant_id, token, Outcome(outcome=AttemptOutcome.SUCCEEDED, result=text), "succeeded")


async def fail(
    db: Database,
    tenant_id: TenantId,
    token: str,
    error: str,
    *,
    error_class: str | None = None,
    retry: bool = True,
) -> dict[str, Any]:
    """Report failure; `retry` False: never again. The answer says what became of it."""
    outcome = AttemptOutcome.FAILED if retry else AttemptOutcome.REJECTED
    return await _end(db, tenant_id, token, Outcome(outcome=outcome, error=error, error_class=error_class), "dead")


async def _end(db: Database, tenant_id: TenantId, token: str, outcome: Outcome, state: str) -> dict[str, Any]:
    key, number = parse_token(token)
    row = await db.fetch_row(_QUERIES["lease_read"], tenant_id, key.schedule_id, key.scheduled_for, key.version, number)
    if row is None:
        raise _lost(token)
    lease = lease_of(row, Policy.from_json(load_json(row["policy"])))
    written = await write_outcomes(db, [(lease, outcome)], worker=row["worker"] or "http", max_losses=1_000_000)
    if key_of(lease) not in written.accepted:
        raise _lost(token)
    decision = written.decisions.get(key_of(lease))
    again = isinstance(decision, Again)
    return {
        "run_key": str(key),
        "state": "retry_wait" if again else state,
        "lease_until": None,
        "cancel_requested": False,
        "retry_at": None if not isinstance(decision, Again) else write_instant(_now(row) + decision.wait),
    }


def parse_token(token: str) -> tuple[RunKey, int]:
    """The run key and number of a lease token. NotFound for anything else: it names no lease."""
    text, _, number = token.rpartition(".")
    try:
        key = RunKey.parse(text)
    except ValueError:
        raise NotFound(f"there is no lease {token[:120]!r}") from None
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise NotFound(f"there is no lease {token[:120]!r}")
    return key, int(number)


def _lost(token: str) -> LeaseLost:
    return LeaseLost(
        f"the lease {token} does not hold any more",
        hint="it ran out, was taken by another worker, or the occurrence is finished: drop your result",
    )


async def _policies(db: Database, rows: Collection[Row]) -> dict[int, Policy]:
    ids = {row["policy_id"] for row in rows}
    if not ids:
        return {}
    found = await db.fetch(_ATTEMPTS["policy_read"], list(ids))
    return {row["policy_id"]: Policy.from_json(load_json(row["document"])) for row in found}


def _now(row: Row) -> datetime:
    at: datetime = row["lease_until"]
    return at
