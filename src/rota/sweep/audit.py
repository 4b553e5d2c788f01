"""The continuous audit: each window of the recent past is judged once, by whichever keeper holds the duty.

A window begins where the last one ended and reaches to what is both past and planned. A small cell is audited whole,
rows of unknown schedules included. In a large one only schedules that should have fired in the window, by their
cadence, and those that were changed lately are looked at, so that the cost follows the work and not the number of
schedules; the `rota audit` command looks at everything. What was found wrong stays in the figures for a day.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from rota.base.clock import Clock
from rota.base.db import Database
from rota.base.service import Service
from rota.base.telemetry import AuditFinished, Event, audit_absent, audit_extra, emit
from rota.sweep.duties import Duty
from rota.sweep.fires import SQL, Fires, Window
from rota.sweep.reconcile import FIRST_ID, Auditor, Bounds, Chosen
from rota.sweep.report import Report

LEASE_S = 120.0
BUDGET_S = 1.0
REST_S = 1.0
FIRST_REACH = timedelta(minutes=10)
LONGEST = timedelta(minutes=10)
REMEMBERED = timedelta(hours=24)
SMALL_VERSIONS = 50_000
SMALL_FINISHED = 500_000
PAGE = 2_000
MAX_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFoundFaults(Event):
    """Expected occurrences are nowhere, or there are rows that nothing explains; the first run keys of each."""

    level = "error"
    n_absent: int
    n_extra: int
    absent: tuple[str, ...]
    extra: tuple[str, ...]


class Audit(Service):
    """Judges the recent past, `tick_s` after the last pass; in slices, so that nothing else has to wait for it."""

    name = "audit"

    def __init__(self, db: Database, clock: Clock, *, owner: str, tick_s: float, keys_per_s: float = 50_000.0) -> None:
        self._db = db
        self._clock = clock
        self._tick_s = tick_s
        self._duty = Duty(db, "audit", owner, lease_s=LEASE_S)
        self._bounds = Bounds(n_keys=20_000, n_versions=PAGE, keys_per_s=keys_per_s, n_named=MAX_NAMED)
        self._pass: AsyncGenerator[Report, None] | None = None
        self._report: Report | None = None
        self._fires = Fires()

    async def tick(self) -> float:
        """Go on with the pass, or begin one."""
        state = await self._duty.take()
        if state is None:
            self._pass = self._report = None  # somebody else's now, who judges this window from its start
            _export(await self._duty.read())
            return self._tick_s
        if self._pass is None:
            window = await self._next_window(state)
            if window is None:
                return self._tick_s
            self._pass = self._judge(window)
        if await self._go_on(self._pass):
            return await self._finish(state)
        return REST_S

    async def _go_on(self, judging: AsyncGenerator[Report, None]) -> bool:
        """Judge on until the time is up; whether the pass is through. A pass that failed is begun anew."""
        give_up_at = self._clock.monotonic() + BUDGET_S
        try:
            async for report in judging:
                self._report = report
                if self._clock.monotonic() >= give_up_at:
                    return False
        except BaseException:
            self._pass = self._report = None
            raise
        return True

    async def stop(self) -> None:
        """Leave the duty to others at once."""
        if self._pass is not None:
            await self._pass.aclose()
        await self._duty.leave()

    async def _next_window(self, state: dict[str, object]) -> Window | None:
        row = await self._db.fetch_row(SQL["audit_instant"])
        if row is None or row["planned_through"] is None:
            return None
        until: datetime = min(row["now"], row["planned_through"])
        stored = state.get("audited_until")
        start = datetime.fromisoformat(stored) if isinstance(stored, str) else until - FIRST_REACH
        return Window(from_at=start, until_at=min(until, start + LONGEST)) if until > start else None

    async def _judge(self, window: Window) -> AsyncGenerator[Report, None]:
        """The report after each slice."""
        auditor = Auditor(self._db, self._clock, bounds=self._bounds, fires=self._fires)
        report = auditor.new_report(window)
        size = await self._db.fetch_row(SQL["audit_size"])
        if size is not None and size["n_versions"] <= SMALL_VERSIONS and size["n_finished"] <= SMALL_FINISHED:
            after: UUID | None = FIRST_ID
            while after is not None:
                after = await auditor.next_stretch(after, report)
                yield report
            return
        async for ids in self._candidates(window):
            await auditor.judge(Chosen(schedule_ids=ids), report)
            yield report

    async def _candidates(self, window: Window) -> AsyncIterator[list[UUID]]:
        """Schedules that may have a slot in the window, page by page; one changed lately may come twice."""
        due = await self._due_cadences(window)
        for shard in range(256):
            after = FIRST_ID
            while True:
                args = (shard, due, after, PAGE, window.from_at, window.until_at)
                rows = await self._db.fetch(SQL["audit_due"], *args)
                if rows:
                    yield [row["schedule_id"] for row in rows]
                if len(rows) < PAGE:
                    break
                after = rows[-1]["schedule_id"]
        after = FIRST_ID
        while rows := await self._db.fetch(SQL["audit_changed"], window.from_at, after, PAGE):
            yield [row["schedule_id"] for row in rows]
            after = rows[-1]["schedule_id"]

    async def _due_cadences(self, window: Window) -> list[int]:
        """The cadences that fire in the window, counted by arithmetic."""
        due: list[int] = []
        after = 0
        while rows := await self._db.fetch(SQL["audit_cadence_page"], after, PAGE):
            for row in rows:
                self._fires.add(row["cadence_id"], row["timing"], is_set_aside=row["set_aside"] is not None)
                if self._fires.count(row["cadence_id"], window):
                    due.append(row["cadence_id"])
            after = rows[-1]["cadence_id"]
            self._fires.trim()
            await asyncio.sleep(0)
        return due

    async def _finish(self, state: dict[str, object]) -> float:
        """Store how far it got and what is wrong, then tell."""
        report, self._pass, self._report = self._report, None, None
        if report is None:
            return self._tick_s
        until = report.window.until_at
        faults = [f for f in _faults(state) if datetime.fromisoformat(f[0]) > until - REMEMBERED]
        if not report.is_complete:
            faults.append((until.isoformat(), report.n_absent, report.n_extra))
        new_state: dict[str, object] = {"audited_until": until.isoformat(), "faults": [list(f) for f in faults]}
        if not await self._duty.write(new_state, is_done=True):
            return self._tick_s
        n_absent, n_extra = sum(f[1] for f in faults), sum(f[2] for f in faults)
        emit(AuditFinished(n_expected=report.n_expected, n_absent=n_absent, n_extra=n_extra))
        _export(new_state)
        if not report.is_complete:
            names = report.run_keys()
            emit(AuditFoundFaults(n_absent=report.n_absent, n_extra=report.n_extra, absent=names[0], extra=names[1]))
        return 0.0 if report.window.until_at - report.window.from_at >= LONGEST else self._tick_s


def _faults(state: dict[str, object]) -> list[tuple[str, int, int]]:
    """(until when, absent, extra) of the passes that found something."""
    stored = state.get("faults")
    return [(at, absent, extra) for at, absent, extra in stored] if isinstance(stored, list) else []


def _export(state: dict[str, object]) -> None:
    """Every keeper shows the figures of the cell, whoever found them."""
    faults = _faults(state)
    audit_absent.set(sum(absent for _, absent, _ in faults))
    audit_extra.set(sum(extra for _, _, extra in faults))
