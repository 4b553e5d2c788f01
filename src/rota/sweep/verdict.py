"""The audit's judgement of one schedule: its versions and their rules on one side, the rows found on the other. Pure.

A slot is an instant that some version had to fire at. It belongs to the youngest version `v` with
`active_from < slot <= min(active_until, superseded_at)`. It is accounted for by, in this order:

1. the row of its own run key, whatever its state;
2. a row of an older version that started before the change took effect (work that has started is never taken back), or
   that was cancelled for another reason than the change: then the younger version had nothing left to run;
3. a missed range of its schedule;
4. nothing: the slot is absent.

Every other row must be explained: cancelled by a change of a version whose rule fires there, asked for by hand, or part
of a backfill. What remains is extra, and so is a second row that ran for one slot.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

# An edit takes effect when it has its locks, a little after its instant: what started in between is no mistake.
EDIT_GRACE = timedelta(seconds=60)
REPLANNED = frozenset({"superseded", "paused"})
RHYTHM = frozenset({"timing", "catch_up"})


class Verdict(StrEnum):
    """What became of an expected occurrence."""

    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    MISSED = "missed"
    SKIPPED = "skipped"
    SCHEDULED = "scheduled"
    ENQUEUED = "enqueued"
    RUNNING = "running"
    RETRY_WAIT = "retry_wait"
    ABSENT = "absent"
    EXTRA = "extra"


VERDICT_OF_STATE: Mapping[str, Verdict] = {str(v): v for v in Verdict} | {"skipped_overlap": Verdict.SKIPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRule:
    """One version of a schedule and the instants its timing fires at within the audited window.

    `superseded_at` is when the next version took over; None for the present one.
    """

    version: int
    is_active: bool
    active_from: datetime
    active_until: datetime | None
    activated_at: datetime
    superseded_at: datetime | None
    fires: Sequence[datetime]

    def reaches(self, slot: datetime) -> bool:
        """Whether the rule's bounds, changes apart, hold the slot."""
        return self.is_active and self.active_from < slot and (self.active_until is None or slot <= self.active_until)

    def must_fire(self, slot: datetime) -> bool:
        """Whether the slot came while this version was in force."""
        return self.reaches(slot) and (self.superseded_at is None or slot <= self.superseded_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRow:
    """One occurrence as found, in whichever table."""

    version: int
    scheduled_for: datetime
    state: str
    reason: str | None
    trigger: str
    has_started: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A missed range or a backfill: both ends belong to it."""

    first_at: datetime
    last_at: datetime

    def holds(self, instant: datetime) -> bool:
        """Whether the instant lies in it."""
        return self.first_at <= instant <= self.last_at


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Everything known of one schedule in the window."""

    schedule_id: UUID
    rules: Sequence[VersionRule]
    rows: Sequence[FoundRow]
    missed: Sequence[Span] = ()
    backfills: Sequence[Span] = ()
    planned_through: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A run key that should be there and is not, or is there and should not be, and why."""

    schedule_id: UUID
    version: int
    scheduled_for: datetime
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Verdicts by number, rows explained outside the rhythm (manual, backfill), and what is wrong."""

    counts: Counter[Verdict]
    outside: Counter[str]
    absent: list[Finding]
    extra: list[Finding]


def judge(history: History) -> Judgement:
    """Account for each slot and explain each row."""
    return _Case(history).judge()


def _has_run(row: FoundRow) -> bool:
    """Whether the row ran in the rhythm, is running or will run."""
    return row.trigger in RHYTHM and row.state not in {"cancelled", "missed", "skipped_overlap"}


class _Case:
    """One schedule being judged: rows are struck off as they are accounted for."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.rules = {rule.version: rule for rule in history.rules}
        self.fires = {rule.version: frozenset(rule.fires) for rule in history.rules}
        self.rows: dict[datetime, list[FoundRow]] = {}
        for row in history.rows:
            self.rows.setdefault(row.scheduled_for, []).append(row)
        self.result = Judgement(counts=Counter(), outside=Counter(), absent=[], extra=[])

    def judge(self) -> Judgement:
        for slot, rule in self._slots().items():
            self._account(slot, rule, self.rows.pop(slot, []))
        for row in (row for rows in self.rows.values() for row in rows):
            self._explain(row)
        self.result.counts[Verdict.ABSENT] = len(self.result.absent)
        self.result.counts[Verdict.EXTRA] = len(self.result.extra)
        return self.result

    def _slots(self) -> dict[datetime, VersionRule]:
        """Each instant that had to fire, with the version it belongs to."""
        slots: dict[datetime, VersionRule] = {}
        for rule in sorted(self.history.rules, key=lambda rule: rule.version):
            for fire in rule.fires:
                if fire <= self.history.planned_through and rule.must_fire(fire):
                    slots[fire] = rule
        return slots

    def _account(self, slot: datetime, rule: VersionRule, rows: list[FoundRow]) -> None:
        """Find what stands for the slot; a second row that ran for it is extra."""
        own = next((row for row in rows if row.version == rule.version), None)
        ran = [row for row in rows if row is not own and _has_run(row)]
        settled = (r for r in rows if r is not own and not _has_run(r) and r.reason not in REPLANNED)
        stands = own or next(iter(ran), None) or next(settled, None)
        if stands is not None:
            self.result.counts[VERDICT_OF_STATE[stands.state]] += 1
        elif any(span.holds(slot) for span in self.history.missed):
            self.result.counts[Verdict.MISSED] += 1
        else:
            self._absent(slot, rule, rows)
        for row in rows:
            if row is stands:
                continue
            if row in ran and stands is not None and _has_run(stands):
                self._extra(row, f"version {stands.version} has run for this instant too")
            else:
                self._explain(row)

    def _explain(self, row: FoundRow) -> None:
        """A row that is no slot's: by hand, by a backfill, or left behind by a change."""
        rule = self.rules.get(row.version)
        if rule is None:
            self._extra(row, "there is no such version of this schedule, or it ended long before")
        elif row.trigger == "manual":
            self.result.outside["manual"] += 1
        elif row.trigger == "backfill":
            if any(span.holds(row.scheduled_for) for span in self.history.backfills):
                self.result.outside["backfill"] += 1
            else:
                self._extra(row, "no backfill of this schedule covers this instant")
        elif row.scheduled_for not in self.fires[row.version]:
            self._extra(row, "the rule of this version does not fire at this instant")
        elif row.state == "cancelled":
            self.result.counts[Verdict.CANCELLED] += 1
        elif self._ran_during_edit(row, rule):
            self.result.counts[VERDICT_OF_STATE[row.state]] += 1
        elif row.scheduled_for > self.history.planned_through:
            self.result.outside["ahead"] += 1
        else:
            self._extra(row, "this version was not in force at this instant")

    def _ran_during_edit(self, row: FoundRow, rule: VersionRule) -> bool:
        """Whether the row had started before the change that superseded it had its locks."""
        ended = rule.superseded_at
        in_grace = ended is not None and ended < row.scheduled_for <= ended + EDIT_GRACE
        return rule.reaches(row.scheduled_for) and row.has_started and in_grace

    def _absent(self, slot: datetime, rule: VersionRule, rows: Iterable[FoundRow]) -> None:
        why = "only its cancelled predecessor is there" if any(rows) else "no row and no missed range"
        self.result.absent.append(
            Finding(schedule_id=self.history.schedule_id, version=rule.version, scheduled_for=slot, why=why)
        )

    def _extra(self, row: FoundRow, why: str) -> None:
        self.result.extra.append(
            Finding(schedule_id=self.history.schedule_id, version=row.version, scheduled_for=row.scheduled_for, why=why)
        )
