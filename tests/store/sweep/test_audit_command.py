"""`rota audit` as an operator runs it: exit 0 when all is proved, 1 with the run keys when a row was tampered with."""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from support.keeping import DAY, HOUR, Seed
from support.processes import Processes


@pytest.fixture
async def seed(connection: asyncpg.Connection) -> Seed:
    made = Seed(connection)
    await made.basics()
    return made


async def audited(processes: Processes, dsn: str, start: datetime, end: datetime, *more: str) -> tuple[int, Any]:
    window = ["--from", start.isoformat(), "--to", end.isoformat()]
    ran = await processes.rota("audit", *window, "--json", *more, env={"ROTA_DATABASE_URL": dsn})
    code = await ran.ends()
    return code, json.loads(ran.text) if code in {0, 1} else ran.text


async def day(seed: Seed) -> tuple[UUID, datetime]:
    """An hourly schedule that ran for all of yesterday, and yesterday's start."""
    now: datetime = await seed.connection.fetchval("SELECT now()")
    start = now.replace(hour=0, minute=0, second=0, microsecond=0) - DAY
    cadence_id = await seed.cadence({"cron": "0 * * * *", "time_zone": "UTC"})
    schedule_id = await seed.schedule(active_from=start - HOUR, cadence_id=cadence_id)
    for hour in range(24):
        await seed.finished(schedule_id, start + hour * HOUR)
    return schedule_id, start


async def test_a_complete_day_exits_with_0(processes: Processes, seed: Seed, dsn: str):
    _, start = await day(seed)
    code, report = await audited(processes, dsn, start, start + DAY)
    assert (code, report["expected"], report["counts"]["succeeded"], report["complete"]) == (0, 24, 24, True)


async def test_a_row_deleted_and_a_row_added_by_hand_are_named_and_exit_with_1(
    processes: Processes, seed: Seed, dsn: str
):
    schedule_id, start = await day(seed)
    await seed.connection.execute("DELETE FROM finished_occurrences WHERE scheduled_for = $1", start + 3 * HOUR)
    await seed.finished(schedule_id, start + timedelta(minutes=17))
    code, report = await audited(processes, dsn, start, start + DAY, "--tenant", "acme")
    assert code == 1
    assert report["tenant_id"] == "ten_0000000000001"
    assert [one["run_key"] for one in report["absent"]] == [f"{schedule_id}.1.{start:%Y%m%d}T030000Z"]
    assert [one["run_key"] for one in report["extra"]] == [f"{schedule_id}.1.{start:%Y%m%d}T001700Z"]


async def test_a_window_before_all_history_is_refused_with_2(processes: Processes, seed: Seed, dsn: str):
    start = datetime.fromisoformat("2020-01-01T00:00:00+00:00")
    code, said = await audited(processes, dsn, start, start + DAY)
    assert code == 2
    assert "nothing to audit: the window ends at 2020-01-02" in said
