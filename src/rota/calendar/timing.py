"""Timing: the normalised rule of when a schedule fires. What two schedules share when they share a cadence.

    {"cron": "0 9 * * *", "time_zone": "America/New_York", "dst": "rota", "dialect": "unix5"}
    {"every": "15m", "anchor": "2026-01-01T00:00:00Z"}                          elapsed time, anchored
    {"every": {"weeks": 2}, "at": "09:00", "anchor": "2026-09-15", "time_zone": "Europe/Berlin"}      calendar interval
    {"at": "2026-12-24T09:00:00", "time_zone": "Europe/Berlin"}                 once; or an instant with an offset

Fires are whole seconds, but for `at`, which keeps its microseconds. Instants are aware UTC in and out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self

from rota.calendar.core import TimingCore
from rota.calendar.describe import describe
from rota.calendar.exclusions import Exclusions
from rota.calendar.preview import Fire, preview
from rota.calendar.reading import read_timing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timing(TimingCore):
    """A rule of instants: `Timing.parse` reads what a tenant wrote, `Timing.from_json` what the store holds."""

    @classmethod
    def parse(
        cls, data: Mapping[str, object], *, hash_key: str = "", exclusions: Sequence[object] | Exclusions | None = None
    ) -> Self:
        """Read the `timing` object of a schedule. Raises TimingError with the path of the faulty member.

        `hash_key` is what `H` and the default anchor of an interval are hashed from; `exclusions` days without a fire.
        """
        return cls._of(read_timing(data, hash_key=hash_key, exclusions=exclusions))

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read back what `to_json` wrote. Raises TimingError."""
        timing = {name: value for name, value in document.items() if name != "exclusions"}
        return cls._of(read_timing(timing, hash_key="", exclusions=document.get("exclusions")))

    @classmethod
    def _of(cls, core: TimingCore) -> Self:
        return cls(**{field.name: getattr(core, field.name) for field in fields(core)})

    def describe(self) -> str:
        """The rule in plain words."""
        return describe(self)

    def preview(
        self,
        after: datetime,
        n: int,
        *,
        starts_at: datetime | None = None,
        ends_at: datetime | None = None,
        exclusions: Sequence[object] | None = None,
    ) -> list[Fire]:
        """The next `n` fires with marks, and between them what does not fire; see `rota.calendar.preview`."""
        return preview(self, after, n, starts_at=starts_at, ends_at=ends_at, exclusions=exclusions)
