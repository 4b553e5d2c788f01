"""What a change of the clock does to a schedule: `{gap, fold, wildcards}` and the presets of other schedulers.

gap: a wall time that the clock never shows. `skip`: no run. `next_valid`: one run at the first instant after the gap,
however many wall times were lost. `shift`: each run moves on by the length of the gap.
fold: a wall time that the clock shows twice: `first`, `second` or `both`.
wildcards `elapsed`: an expression whose minute or hour field begins with `*` follows real time instead (both passes).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rota.calendar.errors import TimingError


class Gap(StrEnum):
    """What becomes of a wall time that does not exist."""

    SKIP = "skip"
    NEXT_VALID = "next_valid"
    SHIFT = "shift"


class Fold(StrEnum):
    """Which of two passes of a wall time counts."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class Wildcards(StrEnum):
    """Whether wildcard expressions follow real time or are treated like fixed ones."""

    ELAPSED = "elapsed"
    WALL = "wall"


@dataclass(frozen=True, slots=True)
class DstPolicy:
    """`below_s`: the policy holds for clock changes smaller than that, larger ones are followed as they are
    (cronie)."""

    gap: Gap = Gap.SKIP
    fold: Fold = Fold.FIRST
    wildcards: Wildcards = Wildcards.ELAPSED
    below_s: int | None = None

    def to_json(self) -> str | dict[str, str]:
        """The name of the preset, or the object."""
        for name, preset in PRESETS.items():
            if preset == self:
                return name
        return {"gap": str(self.gap), "fold": str(self.fold), "wildcards": str(self.wildcards)}


PRESETS: Final[Mapping[str, DstPolicy]] = {
    "rota": DstPolicy(),
    "eventbridge": DstPolicy(Gap.SKIP, Fold.FIRST, Wildcards.WALL),
    "kubernetes": DstPolicy(Gap.SKIP, Fold.BOTH, Wildcards.WALL),
    "cronie": DstPolicy(Gap.NEXT_VALID, Fold.FIRST, Wildcards.ELAPSED, below_s=3 * 3600),
}
ELAPSED: Final = DstPolicy(Gap.SKIP, Fold.BOTH, Wildcards.WALL)


def read_policy(value: object) -> DstPolicy:
    """A preset's name, an object with any of gap, fold and wildcards, or None for the default. Raises TimingError."""
    if value is None:
        return PRESETS["rota"]
    if isinstance(value, str):
        if value not in PRESETS:
            raise _bad("timing.dst", value, PRESETS)
        return PRESETS[value]
    if not isinstance(value, Mapping):
        raise TimingError("expected a preset's name or an object", field="timing.dst", code="bad_dst")
    unknown = sorted(set(map(str, value)) - {"gap", "fold", "wildcards"})
    if unknown:
        raise TimingError(
            f"unknown member {unknown[0]!r}", field="timing.dst", code="bad_dst", hint="gap, fold, wildcards"
        )
    kinds: tuple[tuple[str, type[StrEnum]], ...] = (("gap", Gap), ("fold", Fold), ("wildcards", Wildcards))
    for name, kind in kinds:
        if name in value and value[name] not in list(kind):
            raise _bad(f"timing.dst.{name}", value[name], [str(one) for one in kind])
    return DstPolicy(
        Gap(value.get("gap", "skip")), Fold(value.get("fold", "first")), Wildcards(value.get("wildcards", "elapsed"))
    )


def _bad(field: str, value: object, known: Iterable[str]) -> TimingError:
    names = ", ".join(known)
    return TimingError(f"{value!r} is not known", field=field, code="bad_dst", hint=f"one of {names}")
