"""What a resume does with what came while a schedule was paused: an explicit choice, decided per schedule.

`skip`: the pause was no downtime. Its fires are recorded as one range with the reason `paused`; the rhythm goes on from
now. `misfire`: the pause counts as downtime, and the misfire policy decides about its fires.

Either way, an occurrence whose nominal time came before the pause, and which was still to start (a flexible window)
when it began, runs once: a pause that is resumed in time neither loses nor doubles it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from rota.base.db import Transaction, load_queries
from rota.base.model import MisfirePolicy
from rota.catalog import policies
from rota.catalog.schedules import Schedule, StateChange
from rota.plan import occurrences
from rota.plan.decide import Missed, Rhythm, missed_between
from rota.plan.lagging import stored_rhythms
from rota.plan.occurrences import Paused, Put
from rota.plan.passed import Instant, Passed

_QUERIES = load_queries(__file__, "shard_edits.sql")
_MICROSECOND = timedelta(microseconds=1)

MissedChoice = Literal["skip", "misfire"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """One schedule's way back: its new version, what is planned from when, what still runs, what is missed."""

    change: StateChange
    passed: Passed
    pending: Sequence[Put]
    missed: Missed | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pause:
    """Since when it is paused, and since when with its present timing if that was changed meanwhile."""

    paused_at: datetime
    timed_at: datetime | None


async def resumptions(
    tx: Transaction, paused: Sequence[Schedule], choice: MissedChoice, instant: Instant, threshold: timedelta
) -> list[Resumption]:
    """How each of the paused schedules goes on. Reads only."""
    rows = await tx.fetch(_QUERIES["pause_history"], [one.schedule_id for one in paused])
    pauses = {row["schedule_id"]: _Pause(paused_at=row["paused_at"], timed_at=row["timed_at"]) for row in rows}
    same = {key: pause.paused_at for key, pause in pauses.items() if pause.timed_at is None}
    before = await occurrences.paused_occurrences(tx, same)
    rhythms = await stored_rhythms(tx, paused)
    misfires = {key: policy.misfire for key, policy in (await policies.get_policies(
        tx, {one.policy_id for one in paused})).items()}  # fmt: skip
    return [
        _resumption(
            one,
            pauses.get(one.schedule_id) or _Pause(paused_at=one.updated_at, timed_at=None),
            before.get(one.schedule_id, []),
            rhythms.get(one.schedule_id),
            misfires[one.policy_id] if choice == "misfire" else None,
            instant.now,
            threshold,
        )
        for one in paused
    ]


def _resumption(
    schedule: Schedule,
    pause: _Pause,
    before: Sequence[Paused],
    rhythm: Rhythm | None,
    misfire: MisfirePolicy | None,
    now: datetime,
    threshold: timedelta,
) -> Resumption:
    in_time = [one for one in before if one.available_at + threshold >= now]
    late = [one for one in before if one.available_at + threshold < now]
    since = max(pause.paused_at, pause.timed_at or pause.paused_at)
    since = min([max(since, schedule.active_from), *(one.scheduled_for - _MICROSECOND for one in late)])
    begins = max(now, schedule.active_from)
    missed = None
    if misfire is None:
        until = now if schedule.active_until is None else min(now, schedule.active_until)
        missed = None if rhythm is None else missed_between(rhythm, since, until, "paused")
        after = begins
    else:
        after = since
    active_from = min([after, *(one.scheduled_for - _MICROSECOND for one in in_time)])
    schedule_id = schedule.schedule_id
    return Resumption(
        change=StateChange(
            schedule_id=schedule_id,
            expected_version=schedule.version,
            active_from=active_from,
            active_until=schedule.active_until,
        ),
        passed=Passed(
            schedule_id=schedule_id, rhythm=rhythm, after=after, until=schedule.active_until, misfire=misfire
        ),
        pending=[
            Put(schedule_id=schedule_id, fire_at=one.scheduled_for, available_at=one.available_at) for one in in_time
        ],
        missed=missed,
    )
