"""Edits, pauses and outages through the product's own doors, at seeded random moments: the audit must find nothing."""

import asyncio
import contextlib
import random
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from rota.base.clock import SystemClock
from rota.base.db import Database
from rota.base.errors import Conflict, ValidationFailed, VersionMismatch
from rota.base.model import RunKey
from rota.plan import backfill, edits, occurrences, states
from rota.plan.backfill import Backfiller
from rota.sweep.fires import Window
from rota.sweep.reconcile import Auditor
from rota.sweep.report import Report
from support.planning import ACTOR, TENANT, Cell, instant

START = instant("2026-03-01T12:00:00Z")


START_DUE = """
UPDATE occurrences SET lease_until = rota_now() + interval '1 h', attempt = 1, token = 1, started_at = rota_now()
WHERE schedule_id = $1 AND lease_until IS NULL AND available_at <= rota_now()
"""
BURY_DUE = """
WITH d AS (DELETE FROM occurrences WHERE schedule_id = $1 AND available_at <= rota_now() RETURNING *)
INSERT INTO dead_letters (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, planned_at, trigger, attempt,
    failures, losses, token, died_at, reason)
SELECT shard, schedule_id, scheduled_for, version, tenant_id, lane_id, planned_at, trigger, 1, 1, 0, 1, rota_now(),
    'rejected' FROM d
"""


class Proof:
    """A cell on virtual time, and the audit of it."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.db = cell.db

    async def create(self, **members: object) -> UUID:
        return (await self.cell.create(**members)).schedule_id

    async def go_on(self, seconds: float) -> None:
        await self.cell.after(seconds)

    async def now(self) -> datetime:
        now: datetime = await self.cell.connection.fetchval("SELECT rota_now()")
        return now

    async def plan(self) -> None:
        await self.cell.plan()
        await Backfiller(self.db).tick()

    async def run_due(self, chance: random.Random | None = None) -> None:
        """Finish what is due: all of it, or some."""
        rows = await self.cell.connection.fetch("SELECT * FROM occurrences WHERE available_at <= rota_now()")
        for row in rows:
            if chance is None or chance.random() < 0.7:
                await self.cell.connection.execute(
                    "WITH d AS (DELETE FROM occurrences WHERE schedule_id = $1 AND scheduled_for = $2 AND version = $3 "
                    "RETURNING *) INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, "
                    "tenant_id, state, trigger, finished_at, started_at, attempt) SELECT shard, schedule_id, "
                    "scheduled_for, version, tenant_id, 'succeeded', trigger, rota_now(), rota_now(), 1 FROM d",
                    *(row["schedule_id"], row["scheduled_for"], row["version"]),
                )

    async def audit(self) -> Report:
        now = await self.now()
        window = Window(from_at=START - timedelta(days=1), until_at=now + timedelta(hours=1))
        return await Auditor(self.db, SystemClock()).audit(window)


@pytest.fixture
async def proof(database: Database, connection: asyncpg.Connection) -> Proof:
    cell = Cell(database, connection, horizon_s=120.0)
    await cell.start("2026-03-01T12:00:00Z")
    return Proof(cell)


def assert_proved(report: Report) -> None:
    document = report.document()
    assert (document["absent"], document["extra"]) == ([], [])


ACTIONS = (
    *("create", "label", "timing", "pause", "resume", "misfire", "cancel", "run"),
    *("backfill", "start", "stop", "die", "plan", "plan"),
)
SECONDLY = {"every": "1s", "anchor": "2026-01-01T00:00:00Z"}
MINUTELY = {"cron": "* * * * *", "time_zone": "UTC"}


async def test_a_description_changed_in_the_window_moves_what_waits_and_nothing_that_has_run(proof: Proof):
    schedule_id = await proof.create(timing=SECONDLY, window="30s")
    await proof.plan()
    await proof.go_on(40)
    await proof.run_due()
    await edits.patch_schedule(proof.db, TENANT, schedule_id, {"labels": {"a": "b"}}, ACTOR)
    await proof.go_on(60)
    await proof.plan()
    await proof.run_due()
    assert_proved(await proof.audit())
    per_slot = await proof.cell.connection.fetch(
        "SELECT scheduled_for, count(*) AS n FROM finished_occurrences WHERE state = 'succeeded' GROUP BY 1"
    )
    assert {row["n"] for row in per_slot} == {1}


async def test_a_pause_that_counts_as_downtime_is_caught_up_by_the_version_that_resumes(proof: Proof):
    misfire = {"policy": "catch_up", "max_lateness": "1h", "max_catch_up": 3}
    schedule_id = await proof.create(timing=MINUTELY, misfire=misfire)
    await proof.plan()
    await proof.go_on(90)
    await proof.run_due()
    await states.pause_schedule(proof.db, TENANT, schedule_id, ACTOR)
    await proof.go_on(600)
    await proof.plan()
    await states.resume_schedule(proof.db, TENANT, schedule_id, ACTOR, missed="misfire")
    await proof.plan()
    await proof.run_due()
    report = await proof.audit()
    assert_proved(report)
    assert report.document()["counts"]["missed"] == 7  # type: ignore[index]


async def test_an_edit_while_no_planner_runs_loses_nothing_of_the_time_before_it(proof: Proof):
    schedule_id = await proof.create(timing=MINUTELY, misfire={"policy": "catch_up", "max_catch_up": 100})
    await proof.plan()
    await proof.go_on(900)
    await proof.run_due()
    await edits.patch_schedule(proof.db, TENANT, schedule_id, {"payload": {"n": 2}}, ACTOR)
    await proof.go_on(60)
    await proof.plan()
    await proof.run_due()
    assert_proved(await proof.audit())


async def test_a_cadence_made_while_the_planner_is_between_reading_and_locking_is_planned(
    proof: Proof, monkeypatch: pytest.MonkeyPatch
):
    from rota.plan import planner as planner_module

    made: list[UUID] = []

    async def create_meanwhile(name: str) -> None:
        if name == "plan.after_due_read" and not made:
            made.append(await proof.create(timing=MINUTELY))

    monkeypatch.setattr(planner_module, "failpoint", create_meanwhile)
    await proof.plan()
    await proof.go_on(100)
    assert made
    assert_proved(await proof.audit())


async def test_a_backfill_of_the_past_stands_beside_the_rhythm(proof: Proof):
    schedule_id = await proof.create(timing=MINUTELY)
    start = START - timedelta(minutes=10)
    await backfill.start_backfill(proof.db, TENANT, schedule_id, ACTOR, start=start, end=START, rate=100.0)
    await proof.plan()
    report = await proof.audit()
    assert_proved(report)
    assert dict(report.outside) == {"backfill": 10}


@pytest.mark.parametrize("seed", range(6))
async def test_random_days_are_proved_complete(proof: Proof, seed: int):
    chance = random.Random(seed)
    timings = [SECONDLY, MINUTELY, {"every": "7s", "anchor": "2026-01-01T00:00:00Z"}, {"cron": "*/2 * * * *"}]
    known: list[UUID] = []

    async def act() -> None:
        match chance.choice(ACTIONS):
            case "create":
                policy = {"policy": chance.choice(["skip", "fire_once", "catch_up"]), "max_catch_up": 3}
                known.append(
                    await proof.create(
                        timing=chance.choice(timings), window=chance.choice(["0s", "20s"]), misfire=policy
                    )
                )
            case "label" if known:
                value = str(chance.random())
                await edits.patch_schedule(proof.db, TENANT, chance.choice(known), {"labels": {"a": value}}, ACTOR)
            case "timing" if known:
                change = {"timing": chance.choice(timings)}
                await edits.patch_schedule(proof.db, TENANT, chance.choice(known), change, ACTOR)
            case "pause" if known:
                await states.pause_schedule(proof.db, TENANT, chance.choice(known), ACTOR)
            case "resume" if known:
                await states.resume_schedule(proof.db, TENANT, chance.choice(known), ACTOR)
            case "misfire" if known:
                await states.resume_schedule(proof.db, TENANT, chance.choice(known), ACTOR, missed="misfire")
            case "cancel" if known and chance.random() < 0.3:
                await states.cancel_schedule(proof.db, TENANT, chance.choice(known), ACTOR)
            case "backfill" if known:
                now = await proof.now()
                start, end = now - timedelta(seconds=300), now - timedelta(seconds=chance.choice([0, 60]))
                one = chance.choice(known)
                await backfill.start_backfill(proof.db, TENANT, one, ACTOR, start=start, end=end, rate=100.0)
            case "start" if known:
                await proof.cell.connection.execute(START_DUE, chance.choice(known))
            case "stop" if known:
                row = await proof.cell.connection.fetchrow("SELECT * FROM occurrences ORDER BY scheduled_for LIMIT 1")
                if row is not None:
                    key = RunKey(row["schedule_id"], row["version"], row["scheduled_for"])
                    await occurrences.cancel_occurrence(proof.db, TENANT, key, ACTOR)
            case "die" if known:
                await proof.cell.connection.execute(BURY_DUE, chance.choice(known))
            case "run" if known:
                await edits.run_schedule(proof.db, TENANT, chance.choice(known), ACTOR)
            case _:
                await proof.plan()

    for _ in range(60):
        with contextlib.suppress(Conflict, ValidationFailed, VersionMismatch):
            await act()
        await proof.go_on(chance.choice([0.0, 0.3, 1.0, 5.0, 30.0, 200.0]) * chance.random())
        await proof.run_due(chance)
        await asyncio.sleep(0)
    await proof.plan()
    assert_proved(await proof.audit())
