"""Reads the fields of a cron expression: `*`, numbers, names, ranges, steps, `L`, `W`, `#` and `?`."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec


class Span(msgspec.Struct, frozen=True):
    """`5`, `*`, `1-5`, `*/15` or `22-6/2`; one whose first is greater than its last goes on from the beginning."""

    first: int
    last: int
    step: int = 1


class MonthDay(msgspec.Struct, frozen=True):
    """A day of the month that is not the same in every month: `L`, `L-3`, `LW`, `15W`."""

    day: int | None  # None: counted from the last day
    before_last: int = 0
    nearest_weekday: bool = False


class NthWeekday(msgspec.Struct, frozen=True):
    """`MON#2`, or `5L` for the last Friday."""

    weekday: int
    nth: int | None  # None: the last one


Part = Span | MonthDay | NthWeekday


class Unit(msgspec.Struct, frozen=True):
    """What a field counts."""

    name: str
    low: int
    high: int
    takes: str
    names: Mapping[str, int] = {}

    def number(self, text: str) -> int | None:
        """The number of a digit or a name; None: it is none of this field's."""
        if text in self.names:
            return self.names[text]
        number = int(text) if re.fullmatch(r"\d{1,9}", text) else None
        return number if number is not None and self.low <= number <= self.high else None

    def values(self, span: Span) -> list[int]:
        """What a span allows, in its order; Sunday is 0."""
        if span.first <= span.last:
            allowed = list(range(span.first, span.last + 1, span.step))
        else:
            top = 6 if self is WEEKDAY else self.high
            allowed = [*range(span.first, top + 1), *range(self.low, span.last + 1)][:: span.step]
        return [value % 7 for value in allowed] if self is WEEKDAY else allowed


def _numbered(names: str, first: int) -> dict[str, int]:
    return {name: number for number, name in enumerate(names.split(), first)}


SECOND = Unit("second", 0, 59, "0-59")
MINUTE = Unit("minute", 0, 59, "0-59")
HOUR = Unit("hour", 0, 23, "0-23")
DAY = Unit("day-of-month", 1, 31, "1-31, L for the last day, L-3 for the third before it, 15W for the nearest weekday")
MONTH = Unit("month", 1, 12, "1-12, or JAN to DEC", _numbered("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC", 1))
WEEKDAY = Unit(
    "day-of-week",
    0,
    7,
    "0-7 (0 and 7 are Sunday), or SUN to SAT, MON#2 for the second Monday, FRIL for the last Friday",
    _numbered("SUN MON TUE WED THU FRI SAT", 0),
)
UNITS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)


class Field(msgspec.Struct, frozen=True):
    """One field of an expression, read."""

    unit: Unit
    text: str
    parts: tuple[Part, ...]
    values: frozenset[int]
    """What its spans allow."""

    @property
    def starred(self) -> bool:
        """Whether it begins with `*`, by which cron tells a frequency from a time of day; `?` counts as `*`."""
        return self.text[0] in "*?"


def read(unit: Unit, text: str) -> Field:
    """A field of its text; raises `ValueError` with the part that is wrong, and what can be written there."""
    text = text.upper()
    if text == "?" and unit in (DAY, WEEKDAY):
        parts: tuple[Part, ...] = (Span(unit.low, unit.high),)
    else:
        parts = tuple(_part(unit, part) for part in text.split(","))
    spans = (part for part in parts if isinstance(part, Span))
    return Field(unit, text, parts, frozenset(value for span in spans for value in unit.values(span)))


def _part(unit: Unit, text: str) -> Part:
    found = _month_day(text) if unit is DAY else _nth_weekday(text) if unit is WEEKDAY else None
    return found or _span(unit, text)


def _month_day(text: str) -> MonthDay | None:
    if found := re.fullmatch(r"L(?:-(\d{1,2}))?(W?)", text):
        before = int(found[1] or 0)
        if before > 30:
            raise ValueError(f"{text!r} is no {DAY.name}: L-1 to L-30 count back from the last day")
        return MonthDay(None, before, bool(found[2]))
    if found := re.fullmatch(r"(\d{1,9})W", text):
        day = DAY.number(found[1])
        if day is None:
            raise ValueError(f"{text!r} is no {DAY.name}: 1W to 31W are the weekdays nearest to these days")
        return MonthDay(day, nearest_weekday=True)
    return None


def _nth_weekday(text: str) -> NthWeekday | None:
    if text == "L":
        raise ValueError(f"'L' is no {WEEKDAY.name}: say which is the last, like FRIL or 5L for the last Friday")
    found = re.fullmatch(r"([^#]+)(L|#(.*))", text)
    weekday = WEEKDAY.number(found[1]) if found else None
    if found is None or weekday is None:
        return None
    if found[2] == "L":
        return NthWeekday(weekday % 7, None)
    if not re.fullmatch(r"[1-5]", found[3]):
        raise ValueError(f"{text!r} is no {WEEKDAY.name}: {found[1]}#1 to {found[1]}#5 count those of a month")
    return NthWeekday(weekday % 7, int(found[3]))


def _span(unit: Unit, text: str) -> Span:
    if text == "?":
        raise ValueError(f"'?' is no {unit.name}: only a whole day-of-month or day-of-week can be ?; write *")
    span, slash, step_text = text.partition("/")
    step = int(step_text) if re.fullmatch(r"\d{1,9}", step_text) else 0
    if slash and not step:
        raise ValueError(f"{text!r} is no {unit.name}: after / comes the size of the step, 1 or more")
    first_text, dash, last_text = span.partition("-")
    if span == "*":
        return Span(unit.low, unit.high, step or 1)
    first = unit.number(first_text)
    last = unit.number(last_text) if dash else (unit.high if slash else first)
    if first is None or last is None:
        raise ValueError(f"{text!r} is no {unit.name}: use {unit.takes}")
    return Span(first, last, step or 1)
