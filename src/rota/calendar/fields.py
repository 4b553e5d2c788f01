"""The fields of an expression, read item by item; shared by all dialects, each of which allows some of the forms."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from rota.calendar.errors import TimingError

MONTHS: Final[Mapping[str, int]] = {
    name: n
    for n, name in enumerate(
        ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"], start=1
    )
}
WEEKDAYS: Final[Mapping[str, int]] = {
    name: n for n, name in enumerate(["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"])
}
MAX_LENGTH: Final = 256

_NUMBER = re.compile(r"[0-9]{1,4}")
_H = re.compile(r"H(?:\(([0-9]{1,4})-([0-9]{1,4})\))?(?:/([0-9]{1,4}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldForm:
    """What one field of one dialect may hold.

    `wraps`: a range may run backwards. `open_step`: `a/s` is allowed. `slash_step`: `/s` is. `most_step`: the largest
    step of `*/s`, `/s` and `a/s`. `step_last`: where `a/s` ends. `hashed`: the range of a bare `H`, None: no `H`.
    """

    name: str
    low: int
    high: int
    names: Mapping[str, int] = field(default_factory=dict)
    wraps: bool = False
    wrap_low: int | None = None
    wrap_high: int | None = None
    open_step: bool = True
    slash_step: bool = False
    most_step: int | None = None
    step_last: int | None = None
    hashed: tuple[int, int] | None = None


def refuse(form: FieldForm, item: str, why: str, hint: str = "") -> NoReturn:
    """Raise the TimingError that names field, item and reason."""
    raise TimingError(f"{form.name} field, {item!r}: {why}", field="timing.cron", code="bad_cron", hint=hint)


def split_fields(text: str) -> list[str]:
    """The blank-separated fields. Refuses what is too long or holds anything but printable ASCII, space and tab."""
    if len(text) > MAX_LENGTH:
        raise TimingError(
            f"the expression has {len(text)} characters, at most {MAX_LENGTH} are allowed",
            field="timing.cron",
            code="bad_cron",
        )
    for position, character in enumerate(text):
        if not (" " <= character <= "~" or character == "\t"):
            raise TimingError(
                f"character {position + 1} is {character!a}: only printable ASCII, space and tab are allowed",
                field="timing.cron",
                code="bad_cron",
            )
    return text.split()


def number(text: str, form: FieldForm, item: str) -> int:
    """A number or name within the field's range."""
    if _NUMBER.fullmatch(text):
        value = int(text)
    else:
        found = form.names.get(text.upper())
        if found is None:
            refuse(form, item, "not a number" + (" or name" if form.names else ""))
        value = found
    if not form.low <= value <= form.high:
        refuse(form, item, f"{value} is out of range {form.low}-{form.high}")
    return value


def step_of(text: str, form: FieldForm, item: str) -> int:
    """A step, at least 1."""
    if not _NUMBER.fullmatch(text) or int(text) < 1:
        refuse(form, item, "the step must be a number from 1")
    return int(text)


def read_item(item: str, form: FieldForm, draw: Callable[[int], int] | None = None) -> list[int]:
    """The values of one plain item: `*`, `*/s`, `a`, `a-b`, `a-b/s`, `a/s`, `/s`, `H...`, as far as the form allows."""
    if form.hashed is not None and item.startswith("H"):
        return _read_hash(item, form, draw)
    base, slash, step_text = item.partition("/")
    step = step_of(step_text, form, item) if slash else 1
    first, dash, last = base.partition("-")
    if base == "*" or (base == "" and slash and form.slash_step):
        _check_step(step, slash, form, item)
        return list(range(form.low, _last(form) + 1, step))
    if dash:
        return _range(number(first, form, item), number(last, form, item), step, form, item)
    value = number(base, form, item)
    if not slash:
        return [value]
    if not form.open_step:
        refuse(form, item, "a step needs a range or * before it")
    _check_step(step, slash, form, item)
    return list(range(value, _last(form) + 1, step)) or [value]


def _last(form: FieldForm) -> int:
    return form.high if form.step_last is None else form.step_last


def _check_step(step: int, slash: str, form: FieldForm, item: str) -> None:
    if slash and form.most_step is not None and step > form.most_step:
        refuse(form, item, f"the step must not be above {form.most_step}")


def _range(first: int, last: int, step: int, form: FieldForm, item: str) -> list[int]:
    if first <= last:
        return list(range(first, last + 1, step))
    if not form.wraps:
        refuse(form, item, "the range runs backwards", hint="write it as two ranges")
    low = form.low if form.wrap_low is None else form.wrap_low
    high = form.high if form.wrap_high is None else form.wrap_high
    around = [*range(first, high + 1), *range(low, last + 1)]
    if first > high:
        around = list(range(low, last + 1))
    return around[::step]


def _read_hash(item: str, form: FieldForm, draw: Callable[[int], int] | None) -> list[int]:
    assert form.hashed is not None
    found = _H.fullmatch(item)
    if found is None:
        refuse(form, item, "not of the form H, H(a-b), H/s or H(a-b)/s")
    if draw is None:
        refuse(form, item, "H needs a key to be hashed from", hint="give --hash-key NAME")
    low, high = form.hashed
    if found[1] is not None:
        low, high = int(found[1]), int(found[2])
        if low > high or low < form.low or high > form.high:
            refuse(form, item, f"the range must lie within {form.low}-{form.high} and not run backwards")
    step = step_of(found[3], form, item) if found[3] is not None else 1
    if step > high - low + 1:
        refuse(form, item, f"the step is larger than the range {low}-{high}")
    if step == 1:
        return [low + draw(high - low + 1)]
    return list(range(low + draw(step), high + 1, step))


def read_plain(text: str, form: FieldForm, draw: Callable[[int], int] | None = None) -> frozenset[int]:
    """A whole field of plain items."""
    values: set[int] = set()
    for item in text.split(","):
        if not item:
            refuse(form, text, "an item of the list is empty")
        values.update(read_item(item, form, draw))
    return frozenset(values)
