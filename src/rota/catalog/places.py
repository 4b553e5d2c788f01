"""Where new versions go: the shared rows (cadence, lane, policy) and the excluded days of many definitions at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.base.db import Executor
from rota.base.errors import ValidationFailed
from rota.base.model import CadenceId, LaneId, LaneKey, PolicyId, TenantId
from rota.calendar import Timing
from rota.catalog.activation import Activation, activate
from rota.catalog.cadences import ensure_cadences
from rota.catalog.calendars import timings_for
from rota.catalog.definition import Definition
from rota.catalog.lanes import ensure_lanes
from rota.catalog.policies import ensure_policies
from rota.catalog.schedules import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The shared rows of one definition. timing leaves out its calendar's days; cadence_id None: a one-shot."""

    timing: Timing
    cadence_id: CadenceId | None
    lane_id: LaneId
    policy_id: PolicyId

    def place(self, activation: Activation) -> Place:
        """The place of a version that is in force as the activation says."""
        return Place(
            cadence_id=self.cadence_id,
            fire_at=activation.fire_at,
            lane_id=self.lane_id,
            policy_id=self.policy_id,
            active_from=activation.active_from,
            active_until=activation.active_until,
        )


async def share_many(
    db: Executor, tenant_id: TenantId, definitions: Sequence[Definition]
) -> list[Shared | ValidationFailed]:
    """The shared rows of each definition, in order, made where they are missing; a fault where its calendar is unknown.

    A fixed number of statements. Call it before the transaction that writes the schedules: what it makes is shared and
    harmless when unused, and nobody then waits for the schedules' transaction.
    """
    timings = await timings_for(db, tenant_id, definitions)
    cadence_ids = await ensure_cadences(
        db, [timing for timing in timings if isinstance(timing, Timing) and timing.kind != "at"]
    )
    # Few distinct objects stand behind many definitions: each is looked at once, by identity.
    policies = {id(definition.policy): definition.policy for definition in definitions}
    policy_ids = await ensure_policies(db, policies.values())
    policy_of = {key: policy_ids[policy] for key, policy in policies.items()}
    lane_of = await _lanes(db, tenant_id, definitions)
    shared: list[Shared | ValidationFailed] = []
    for definition, timing in zip(definitions, timings, strict=True):
        if isinstance(timing, ValidationFailed):
            shared.append(timing)
            continue
        shared.append(
            Shared(
                timing=timing,
                cadence_id=None if timing.kind == "at" else cadence_ids[timing.key()],
                lane_id=lane_of[_lane_parts(definition)],
                policy_id=policy_of[id(definition.policy)],
            )
        )
    return shared


def activate_many(
    definitions: Sequence[Definition], timings: Sequence[Timing], now: datetime
) -> list[Activation | ValidationFailed]:
    """activate() for many that are written now; those that differ in nothing it looks at are decided once."""
    decided: dict[tuple[object, ...], Activation | ValidationFailed] = {}
    answers: list[Activation | ValidationFailed] = []
    for definition, timing in zip(definitions, timings, strict=True):
        facts = (id(timing), definition.starts_at, definition.ends_at, definition.max_runs, id(definition.policy))
        answer = decided.get(facts)
        if answer is None:
            try:
                answer = activate(definition, timing, now)
            except ValidationFailed as refused:
                answer = refused
            decided[facts] = answer
        answers.append(answer)
    return answers


async def _lanes(
    db: Executor, tenant_id: TenantId, definitions: Sequence[Definition]
) -> dict[tuple[object, ...], LaneId]:
    keys: dict[tuple[object, ...], LaneKey] = {}
    for definition in definitions:
        parts = _lane_parts(definition)
        if parts not in keys:
            keys[parts] = definition.lane_key(tenant_id)
    lane_ids = await ensure_lanes(db, keys.values())
    return {parts: lane_ids[key] for parts, key in keys.items()}


def _lane_parts(definition: Definition) -> tuple[object, ...]:
    target, policy, limit = definition.target, definition.policy, definition.limit
    return target.queue, policy.priority, target.target_key, "" if limit is None else limit.key, policy.overlap
