"""What an audit found, in bounded space: all counts, the first few run keys of each kind, and where to read on."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from rota.base.model import RunKey, format_tenant_id
from rota.catalog.fields import format_instant
from rota.sweep.fires import Window
from rota.sweep.verdict import VERDICT_OF_STATE, Finding, Judgement, Verdict


@dataclass(slots=True, kw_only=True)
class Report:
    """Grows while the audit goes on. `n_set_aside` cadences cannot be computed: their schedules are not judged."""

    window: Window
    tenant_id: int | None = None
    n_named: int = 100
    n_schedules: int = 0
    n_keys: int = 0
    n_set_aside: int = 0
    counts: Counter[Verdict] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)
    absent: list[Finding] = field(default_factory=list)
    extra: list[Finding] = field(default_factory=list)

    @property
    def n_absent(self) -> int:
        """Expected occurrences that are nowhere."""
        return self.counts[Verdict.ABSENT]

    @property
    def n_extra(self) -> int:
        """Rows that nothing explains."""
        return self.counts[Verdict.EXTRA]

    @property
    def n_expected(self) -> int:
        """Occurrences that must exist, whatever became of them."""
        return self.counts.total() - self.n_extra

    @property
    def is_complete(self) -> bool:
        """Nothing absent, nothing extra."""
        return not self.n_absent and not self.n_extra

    def add(self, judgement: Judgement) -> None:
        """Take in one schedule's judgement."""
        self.counts.update(judgement.counts)
        self.outside.update(judgement.outside)
        self.n_keys += judgement.counts.total()
        self.absent.extend(judgement.absent[: max(0, self.n_named - len(self.absent))])
        self.extra.extend(judgement.extra[: max(0, self.n_named - len(self.extra))])

    def add_states(self, states: Iterable[str]) -> None:
        """Take in a schedule whose rows are exactly those it should have."""
        for state in states:
            self.counts[VERDICT_OF_STATE[state]] += 1
            self.n_keys += 1

    def add_extra(self, finding: Finding) -> None:
        """Take in a row that was found outside any schedule."""
        self.counts[Verdict.EXTRA] += 1
        if len(self.extra) < self.n_named:
            self.extra.append(finding)

    def run_keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The first absent and the first extra run keys, as text."""
        return tuple(str(_key(f)) for f in self.absent), tuple(str(_key(f)) for f in self.extra)

    def document(self) -> dict[str, object]:
        """The report as JSON: every verdict with its number, run keys as text."""
        judged = {str(verdict): self.counts[verdict] for verdict in Verdict}
        return {
            "from": format_instant(self.window.from_at),
            "to": format_instant(self.window.until_at),
            "tenant_id": None if self.tenant_id is None else format_tenant_id(self.tenant_id),
            "schedules": self.n_schedules,
            "expected": self.n_expected,
            "counts": judged,
            "outside": dict(sorted(self.outside.items())),
            "set_aside_cadences": self.n_set_aside,
            "complete": self.is_complete,
            "absent": [_named(finding) for finding in self.absent],
            "extra": [_named(finding) for finding in self.extra],
        }


def _key(finding: Finding) -> RunKey:
    return RunKey(finding.schedule_id, finding.version, finding.scheduled_for)


def _named(finding: Finding) -> dict[str, str]:
    return {"run_key": str(_key(finding)), "why": finding.why}
