"""The two day fields with their special items (L, LW, nW, L-n, d#k, dL), in the forms that each dialect allows."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from rota.calendar.fields import FieldForm, number, read_item, refuse
from rota.calendar.rule import DayOfMonth, DayOfWeek

_NEAREST = re.compile(r"([0-9]{1,4})W")
_BEFORE_LAST = re.compile(r"L-([0-9]{1,4})(W?)")
_NTH = re.compile(r"([A-Z]{3}|[0-9]{1,4})#([0-9]{1,4})")
_LAST = re.compile(r"([A-Z]{3}|[0-9]{1,4})L")

Draw = Callable[[int], int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DayForms:
    """What the day fields of a dialect allow beyond plain items.

    `month_specials`: L, LW, nW. `before_last`: L-n and L-nW. `week_specials`: d#k, dL; `in_lists`: these may stand
    beside plain items. `alone_last`: L alone is Saturday. `to_sunday0`: a weekday number as 0 = Sunday.
    """

    month_specials: bool = True
    before_last: bool = False
    week_specials: bool = True
    in_lists: bool = True
    alone_last: bool = False
    to_sunday0: Callable[[int], int] = lambda value: value % 7


def read_day_of_month(text: str, form: FieldForm, forms: DayForms, draw: Draw = None) -> DayOfMonth:
    """The day-of-month field."""
    days: set[int] = set()
    before: set[int] = set()
    nearest: set[int] = set()
    nearest_before: set[int] = set()
    last_weekday = False
    for item in text.split(","):
        upper = item.upper()
        if not item:
            refuse(form, text, "an item of the list is empty")
        if not forms.month_specials:
            days.update(read_item(item, form, draw))
        elif upper == "L":
            before.add(0)
        elif upper == "LW":
            last_weekday = True
        elif found := _NEAREST.fullmatch(upper):
            nearest.add(number(found[1], form, item))
        elif forms.before_last and (found := _BEFORE_LAST.fullmatch(upper)):
            n = int(found[1])
            if n > 30:
                refuse(form, item, "at most L-30")
            (nearest_before if found[2] else before).add(n)
        else:
            days.update(read_item(item, form, draw))
    return DayOfMonth(frozenset(days), frozenset(before), frozenset(nearest), frozenset(nearest_before), last_weekday)


def read_day_of_week(text: str, form: FieldForm, forms: DayForms, draw: Draw = None) -> DayOfWeek:
    """The day-of-week field; weekdays come out as 0 = Sunday."""
    days: set[int] = set()
    nth: set[tuple[int, int]] = set()
    last: set[int] = set()
    items = text.split(",")
    for item in items:
        upper = item.upper()
        if not item:
            refuse(form, text, "an item of the list is empty")
        is_special = forms.week_specials and ("#" in upper or _LAST.fullmatch(upper) is not None or upper == "L")
        if is_special and len(items) > 1 and not forms.in_lists:
            refuse(form, item, "must be the whole field")
        if forms.week_specials and (found := _NTH.fullmatch(upper)):
            k = int(found[2])
            if not 1 <= k <= 5:
                refuse(form, item, "the number after # must be 1 to 5")
            nth.add((forms.to_sunday0(number(found[1], form, item)), k))
        elif forms.week_specials and (found := _LAST.fullmatch(upper)):
            last.add(forms.to_sunday0(number(found[1], form, item)))
        elif forms.alone_last and upper == "L":
            days.add(6)
        else:
            days.update(forms.to_sunday0(value) for value in read_item(item, form, draw))
    return DayOfWeek(frozenset(days), frozenset(nth), frozenset(last))
