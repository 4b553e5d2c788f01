"""Where new versions go: the shared rows (cadence, lane, policy) and the excluded days of many definitions at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.base.db import Executor
from rota.base.errors import ValidationFailed
from rota.base.model import CadenceId, LaneId, PolicyId, TenantId
from rota.calendar import Timing
from rota.catalog.activation import Activation, activate
from rota.catalog.cadences import ensure_cadences
from rota.catalog.calendars import get_many, timing_without
from rota.catalog.definition import Definition
from rota.catalog.lanes import ensure_lanes
from rota.catalog.policies import ensure_policies
from rota.catalog.schedules import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The shared rows of one rule. timing leaves out its calendar's days; cadence_id None: a one-shot."""

    timing: Timing
    cadence_id: CadenceId | None
    lane_id: LaneId
    policy_id: PolicyId
    calendar_version: int | None = None

    def place(self, activation: Activation) -> Place:
        """The place of a version that is in force as the activation says."""
        return Place(
            cadence_id=self.cadence_id,
            fire_at=activation.fire_at,
            lane_id=self.lane_id,
            policy_id=self.policy_id,
            active_from=activation.active_from,
            active_until=activation.active_until,
            calendar_version=self.calendar_version,
        )


async def share_many(
    db: Executor, tenant_id: TenantId, definitions: Sequence[Definition]
) -> list[Shared | ValidationFailed]:
    """The shared rows of each definition, in order, made where they are missing; a fault where its calendar is unknown.

    A fixed number of statements. Call it before the transaction that writes the schedules: what it makes is shared and
    harmless when unused, and nobody then waits for the schedules' transaction.
    """
    distinct = list({id(definition.rule): definition for definition in definitions}.values())
    calendars = await get_many(db, tenant_id, [one.rule.calendar for one in distinct if one.rule.calendar is not None])
    timings = [timing_without(definition, calendars) for definition in distinct]
    recurring = [timing for timing in timings if isinstance(timing, Timing) and timing.kind != "at"]
    cadence_ids = await ensure_cadences(db, recurring)
    policies = {id(one.rule.policy): one.rule.policy for one in distinct}
    policy_ids = await ensure_policies(db, policies.values())
    policy_of = {key: policy_ids[policy] for key, policy in policies.items()}
    lane_keys = [definition.lane_key(tenant_id) for definition in distinct]
    lane_ids = await ensure_lanes(db, lane_keys)
    shared: dict[int, Shared | ValidationFailed] = {}
    for definition, timing, lane_key in zip(distinct, timings, lane_keys, strict=True):
        rule = definition.rule
        if isinstance(timing, ValidationFailed):
            shared[id(rule)] = timing
            continue
        shared[id(rule)] = Shared(
            timing=timing,
            cadence_id=None if timing.kind == "at" else cadence_ids[timing.key()],
            lane_id=lane_ids[lane_key],
            policy_id=policy_of[id(rule.policy)],
            calendar_version=calendars[rule.calendar].version if rule.calendar in calendars else None,
        )
    return [shared[id(definition.rule)] for definition in definitions]


def place_many(
    definitions: Sequence[Definition], shared: Sequence[Shared | ValidationFailed], now: datetime
) -> list[Place | ValidationFailed]:
    """The place of each definition that is written now, in order; a fault where it would never run.

    Those with one rule are decided once.
    """
    decided: dict[int, Place | ValidationFailed] = {}
    for definition, one in zip(definitions, shared, strict=True):
        key = id(definition.rule)
        if key not in decided:
            try:
                decided[key] = (
                    one if isinstance(one, ValidationFailed) else one.place(activate(definition, one.timing, now))
                )
            except ValidationFailed as refused:
                decided[key] = refused
    return [decided[id(definition.rule)] for definition in definitions]
