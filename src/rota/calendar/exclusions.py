"""Days on which a timing does not fire: local dates in the timing's own zone."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from rota.calendar.errors import TimingError

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
MAX_ENTRIES: Final = 2000


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Excluded days as ascending, disjoint ranges of days since 1970, both ends included."""

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse(cls, days: Sequence[object], *, field: str = "exclusions") -> "Exclusions":
        """Read `["2026-12-25", {"from": "2026-12-24", "to": "2027-01-02"}]`. Raises TimingError with the entry's
        path."""
        if isinstance(days, (str, bytes)) or not isinstance(days, Sequence):
            raise TimingError("expected a list of days", field=field, code="bad_exclusions")
        if len(days) > MAX_ENTRIES:
            raise TimingError(f"at most {MAX_ENTRIES} entries, found {len(days)}", field=field, code="bad_exclusions")
        ranges = sorted(_entry(entry, f"{field}[{i}]") for i, entry in enumerate(days))
        merged: list[tuple[int, int]] = []
        for low, high in ranges:
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    def to_json(self) -> list[object]:
        """The list form, merged and sorted."""
        return [_text(low) if low == high else {"from": _text(low), "to": _text(high)} for low, high in self.ranges]

    def end_of(self, day: int) -> int | None:
        """The last day of the range that holds `day`; None if the day is not excluded."""
        i = bisect_right(self.ranges, (day, 2**62)) - 1
        return self.ranges[i][1] if i >= 0 and self.ranges[i][1] >= day else None

    def __bool__(self) -> bool:
        return bool(self.ranges)


def _text(day: int) -> str:
    return date.fromordinal(day + _EPOCH_DAY).isoformat()


def _entry(entry: object, field: str) -> tuple[int, int]:
    if isinstance(entry, Mapping):
        if set(entry) != {"from", "to"}:
            raise TimingError("expected a day or {from, to}", field=field, code="bad_exclusions")
        low, high = _day(entry["from"], f"{field}.from"), _day(entry["to"], f"{field}.to")
        if low > high:
            raise TimingError("from is later than to", field=field, code="bad_exclusions")
        return low, high
    day = _day(entry, field)
    return day, day


def _day(value: object, field: str) -> int:
    try:
        text = value if isinstance(value, str) and len(value) == 10 else ""
        return date.fromisoformat(text).toordinal() - _EPOCH_DAY
    except ValueError:
        raise TimingError(
            f"{value!r} is not a day"[:80], field=field, code="bad_exclusions", hint="2026-12-25"
        ) from None
