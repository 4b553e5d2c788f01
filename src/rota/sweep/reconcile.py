"""The audit: which occurrences must exist, recomputed from version history and rules alone, against those that do.

It shares no code with planning. It streams stretches of schedules in id order; each stretch is read in one snapshot
(cursors, versions, rows), so a row that moves from pending to finished meanwhile is seen exactly once. A stretch whose
window holds too many run keys is halved in time until it fits: memory is bounded whatever the cell and the window.
Slots are judged up to the cursor of their shard. What retention has dropped is not judged.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from uuid import UUID

from rota.base.clock import Clock
from rota.base.db import Database, Row, Transaction
from rota.base.model import shard_of
from rota.sweep.fires import SQL, Fires, Window
from rota.sweep.partitions import oldest_kept, start_of
from rota.sweep.report import Report
from rota.sweep.verdict import Finding, FoundRow, History, Span, VersionRule, judge

FIRST_ID = UUID(int=0)
LAST_ID = UUID(int=2**128 - 1)
SHORTEST = timedelta(milliseconds=1)
BREATH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much the audit takes at once: versions a stretch, run keys a judgement, run keys a second (0: no limit)."""

    n_versions: int = 5_000
    n_keys: int = 100_000
    keys_per_s: float = 0.0
    n_named: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Schedules audited together: all ids in (after, through], of one tenant or of all.

    Without a tenant every row in the id space is looked at, so that rows of schedules nobody made are found too.
    """

    after: UUID
    through: UUID
    tenant_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Schedules audited together: these."""

    schedule_ids: Sequence[UUID]


@dataclass(slots=True, kw_only=True)
class Facts:
    """All that one snapshot says of a stretch of schedules."""

    cursors: Mapping[int, datetime]
    versions: Mapping[UUID, Sequence[Row]]
    rows: Mapping[UUID, Sequence[Row]]
    missed: Mapping[UUID, list[Span]]
    backfills: Mapping[UUID, list[Span]]


class Auditor:
    """Audits a scope stretch by stretch into a report. One use each."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        *,
        bounds: Bounds | None = None,
        fires: Fires | None = None,
        on_progress: Callable[[Report], None] | None = None,
    ) -> None:
        self._db = db
        self._clock = clock
        self._bounds = bounds or Bounds()
        self._on_progress = on_progress
        self._fires = fires or Fires()

    async def audit(self, window: Window, tenant_id: int | None = None) -> Report:
        """Account for every expected occurrence of the window, of one tenant or of all."""
        report = self.new_report(window, tenant_id)
        after: UUID | None = FIRST_ID
        while after is not None:
            after = await self.next_stretch(after, report)
        if tenant_id is not None:
            await self._orphans(tenant_id, report)
        return report

    def new_report(self, window: Window, tenant_id: int | None = None) -> Report:
        """An empty report to audit into."""
        return Report(window=window, tenant_id=tenant_id, n_named=self._bounds.n_named)

    async def next_stretch(self, after: UUID, report: Report) -> UUID | None:
        """Audit the next stretch behind `after` into the report; where to go on, None at the end."""
        through = await self._bound(after, report.tenant_id)
        await self.judge(Stretch(after=after, through=through or LAST_ID, tenant_id=report.tenant_id), report)
        return through

    async def judge(self, part: Stretch | Chosen, report: Report) -> None:
        """Audit some schedules in the report's window, no faster than the bounds say."""
        started, keys_before = self._clock.monotonic(), report.n_keys
        windows = [report.window]
        n_schedules = 0
        while windows:
            window = windows.pop()
            n_judged = await self._judge_window(part, window, report)
            if n_judged is None:
                windows.extend(reversed(window.halves()))
            else:
                n_schedules = max(n_schedules, n_judged)
        report.n_schedules += n_schedules
        self._fires.trim()
        report.n_set_aside = len(self._fires.set_aside)
        if self._on_progress:
            self._on_progress(report)
        if self._bounds.keys_per_s > 0:
            wanted = (report.n_keys - keys_before) / self._bounds.keys_per_s
            await self._clock.sleep(max(0.0, wanted - (self._clock.monotonic() - started)))

    async def _bound(self, after: UUID, tenant_id: int | None) -> UUID | None:
        if tenant_id is None:
            found = await self._db.fetch_value(SQL["audit_bound"], after, self._bounds.n_versions)
        else:
            query = SQL["audit_bound_of_tenant"]
            found = await self._db.fetch_value(query, after, self._bounds.n_versions, tenant_id)
        return None if found is None else UUID(int=found.int)

    async def _judge_window(self, part: Stretch | Chosen, window: Window, report: Report) -> int | None:
        """Judge some schedules in one window; how many. None, with nothing done: it holds too many run keys at once."""
        async with self._db.transaction(isolation="repeatable_read", read_only=True) as tx:
            versions = await self._versions(tx, part, window)
            if self._too_many(versions, window):
                return None
            facts = await self._facts(tx, part, window, versions)
        for number, schedule_id in enumerate(versions.keys() | facts.rows.keys(), start=1):
            if number % BREATH == 0:
                await asyncio.sleep(0)  # others on this loop have latencies to keep
            states = self._as_it_should_be(schedule_id, facts, window)
            if states is None:
                report.add(judge(self._history(schedule_id, facts, window)))
            else:
                report.add_states(states)
        return len(versions)

    def _as_it_should_be(self, schedule_id: UUID, facts: Facts, window: Window) -> list[str] | None:
        """The states of nearly all schedules, cheaply: one version, and exactly its rows. None: to be judged."""
        versions, rows = facts.versions.get(schedule_id, ()), facts.rows.get(schedule_id, ())
        if len(versions) != 1:
            return None
        rule = self._rule(versions[0], window)
        cursor = facts.cursors[shard_of(schedule_id)]
        slots = {fire for fire in rule.fires if fire <= cursor and rule.must_fire(fire)}
        if len(rows) != len(slots) or slots != {row["scheduled_for"] for row in rows}:
            return None
        return [row["state"] for row in rows] if all(row["version"] == rule.version for row in rows) else None

    async def _versions(self, tx: Transaction, part: Stretch | Chosen, window: Window) -> dict[UUID, list[Row]]:
        if isinstance(part, Stretch):
            args = (part.after, part.through, part.tenant_id, window.from_at)
            rows = await tx.fetch(SQL["audit_versions_between"], *args)
        else:
            rows = await tx.fetch(SQL["audit_versions_of"], part.schedule_ids, window.from_at)
        by_schedule: dict[UUID, list[Row]] = defaultdict(list)
        for row in rows:
            by_schedule[row["schedule_id"]].append(row)
        await self._fires.learn(tx, {row["cadence_id"] for row in rows if row["is_active"]} - {None})
        return by_schedule

    def _too_many(self, versions: Mapping[UUID, Sequence[Row]], window: Window) -> bool:
        """Counted by arithmetic, before any fire is computed. A window that cannot be halved is judged as it is."""
        if window.until_at - window.from_at <= SHORTEST:
            return False
        uses = Counter(row["cadence_id"] for rows in versions.values() for row in rows if row["is_active"])
        uses.pop(None, None)
        n_keys = 0
        for cadence_id, n_uses in uses.items():
            n_keys += self._fires.count(cadence_id, window) * n_uses
            if n_keys > self._bounds.n_keys:
                return True
        return False

    async def _facts(
        self, tx: Transaction, part: Stretch | Chosen, window: Window, versions: Mapping[UUID, Sequence[Row]]
    ) -> Facts:
        cursors = {row["shard"]: row["planned_through"] for row in await tx.fetch(SQL["audit_cursors"])}
        between = (window.from_at, window.until_at)
        if isinstance(part, Stretch) and part.tenant_id is None:
            found = await tx.fetch(SQL["audit_rows_between"], part.after, part.through, *between)
            gaps = await tx.fetch(SQL["audit_missed_between"], part.after, part.through, *between)
        else:
            found = await tx.fetch(SQL["audit_rows_of"], list(versions), *between)
            gaps = await tx.fetch(SQL["audit_missed_of"], list(versions), *between)
        rows: dict[UUID, list[Row]] = defaultdict(list)
        for row in found:
            rows[row["schedule_id"]].append(row)
        backfilled = list({row["schedule_id"] for row in found if row["trigger"] == "backfill"})
        ranges = await tx.fetch(SQL["audit_backfills"], backfilled) if backfilled else []
        return Facts(cursors=cursors, versions=versions, rows=rows, missed=_spans(gaps), backfills=_spans(ranges))

    def _history(self, schedule_id: UUID, facts: Facts, window: Window) -> History:
        rules = [self._rule(row, window) for row in facts.versions.get(schedule_id, ())]
        return History(
            schedule_id=schedule_id,
            rules=rules,
            rows=[_found(row) for row in facts.rows.get(schedule_id, ())],
            missed=facts.missed.get(schedule_id, ()),
            backfills=facts.backfills.get(schedule_id, ()),
            planned_through=facts.cursors[shard_of(schedule_id)],
        )

    def _rule(self, row: Row, window: Window) -> VersionRule:
        if not row["is_active"]:
            fires: Sequence[datetime] = ()
        elif row["fire_at"] is not None:
            fires = (row["fire_at"],) if window.holds(row["fire_at"]) else ()
        else:
            fires = self._fires.between(row["cadence_id"], window)
        return VersionRule(
            version=row["version"],
            is_active=row["is_active"],
            active_from=row["active_from"],
            active_until=row["active_until"],
            activated_at=row["activated_at"],
            superseded_at=row["superseded_at"],
            fires=fires,
        )

    async def _orphans(self, tenant_id: int, report: Report) -> None:
        """Rows of the tenant that belong to no schedule at all."""
        window = report.window
        query = SQL["audit_orphans_of_tenant"]
        for row in await self._db.fetch(query, tenant_id, window.from_at, window.until_at, self._bounds.n_named):
            report.add_extra(
                Finding(
                    schedule_id=row["schedule_id"],
                    version=row["version"],
                    scheduled_for=row["scheduled_for"],
                    why="nobody ever made this schedule",
                )
            )


def _found(row: Row) -> FoundRow:
    return FoundRow(
        version=row["version"],
        scheduled_for=row["scheduled_for"],
        state=row["state"],
        reason=row["reason"],
        trigger=row["trigger"],
        has_started=row["has_started"],
    )


def _spans(rows: Sequence[Row]) -> dict[UUID, list[Span]]:
    spans: dict[UUID, list[Span]] = defaultdict(list)
    for row in rows:
        spans[row["schedule_id"]].append(Span(first_at=row["first_at"], last_at=row["last_at"]))
    return spans


async def audit_cell(
    db: Database,
    clock: Clock,
    *,
    from_at: datetime,
    until_at: datetime,
    retention_days: int,
    tenant_id: int | None = None,
    keys_per_s: float = 0.0,
    n_named: int = 100,
    on_progress: Callable[[Report], None] | None = None,
) -> Report:
    """What `rota audit` does: [from_at, until_at), aware instants, of one tenant or all.

    What retention may have dropped is left out: the report's window begins where history is whole. ValueError when
    nothing is left of the window. It ends at the last cursor: what lies behind it is planned by nobody yet.
    """
    today: date = await db.fetch_value(SQL["audit_today"])
    kept_from = start_of(oldest_kept(today, retention_days))
    latest: datetime = await db.fetch_value(SQL["audit_latest"])
    start = max(from_at, kept_from)
    if until_at <= start:
        raise ValueError(
            f"nothing to audit: the window ends at {until_at.isoformat()}, "
            f"history is whole from {kept_from.isoformat()} on and the window begins at {from_at.isoformat()}"
        )
    auditor = Auditor(db, clock, bounds=Bounds(keys_per_s=keys_per_s, n_named=n_named), on_progress=on_progress)
    end = max(start + SHORTEST, min(until_at, latest + SHORTEST))
    return await auditor.audit(Window(from_at=start, until_at=end), tenant_id)
