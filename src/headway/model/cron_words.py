"""Says a cron expression in words: "at 02:00 on Monday to Friday"."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

from headway.model.cron import Cron
from headway.model.cron_fields import HOUR, WEEKDAY, Field, MonthDay, NthWeekday, Span

_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
_ORDINALS = ["first", "second", "third", "fourth", "fifth"]
_LISTED = 6
"""Up to this many times of the day are named one by one."""


def explain_cron(text: str) -> str:
    """A cron expression in words, by the clock of whatever zone it is used in; raises `InvalidJob`.

    `explain_cron("0 2 * * MON-FRI")` is "at 02:00 on Monday to Friday".
    """
    cron = Cron(text)
    second, minute, hour, day, month, weekday = cron.fields
    days = _days(day, weekday, month, both=cron.needs_both_days)
    times = _regular_hours(second, minute, hour) or _listed(second, minute, hour)
    if times.startswith("at ") and not days.startswith("on "):
        days = f"every day {days}"
    if not times:
        times = _minutes(minute, hour) if second.values == {0} else _seconds(second, minute, hour)
    return " ".join(f"{times} {days}".split())


# the times of a day


def _regular_hours(second: Field, minute: Field, hour: Field) -> str:
    """`0 */4 * * *`: every 4 hours."""
    step = _step(hour)
    return f"every {step} hours" if step and step > 1 and second.values == minute.values == {0} else ""


def _listed(second: Field, minute: Field, hour: Field) -> str:
    """`0 2,14 * * *`: at 02:00 and 14:00."""
    if len(second.values) * len(minute.values) * len(hour.values) > _LISTED:
        return ""
    if second.values == {0}:
        return "at " + _and(_clock(*time) for time in product(sorted(hour.values), sorted(minute.values)))
    return "at " + _and(
        _clock(*time) for time in product(sorted(hour.values), sorted(minute.values), sorted(second.values))
    )


def _minutes(minute: Field, hour: Field) -> str:
    hours = _hours(hour)
    if step := _step(minute):
        return f"every minute {hours}" if step == 1 else f"every {step} minutes {hours}"
    if len(minute.values) > 1:
        return f"at minutes {_numbers(minute)} of every hour {hours}"
    (at,) = minute.values
    match hour.parts:
        case (Span(step=step) as span,) if not _is_all(hour):
            first, *_, last = hour.unit.values(span)
            often = "every hour" if step == 1 else f"every {step} hours"
            return f"{often} from {_clock(first, at)} to {_clock(last, at)}"
    past = "" if at == 0 else "at 1 minute past " if at == 1 else f"at {at} minutes past "
    return f"{past}every hour {hours}"


def _seconds(second: Field, minute: Field, hour: Field) -> str:
    step = _step(second)
    word = "second" if len(second.values) == 1 else "seconds"
    often = f"at {word} {_numbers(second)} of" if not step else "every second" if step == 1 else f"every {step} seconds"
    if _is_all(minute):
        return f"{often} {'' if step else 'every minute '}{_hours(hour)}"
    if len(minute.values) * len(hour.values) <= _LISTED:
        during = _and(_clock(*time) for time in product(sorted(hour.values), sorted(minute.values)))
        return f"{often} {'during ' if step else ''}{during}"
    word = "minute" if len(minute.values) == 1 else "minutes"
    return f"{often} {'during ' if step else ''}{word} {_numbers(minute)} of every hour {_hours(hour)}"


def _hours(hour: Field) -> str:
    if _is_all(hour):
        return ""
    spans = [part for part in hour.parts if isinstance(part, Span)]
    if all(span.step == 1 for span in spans):
        return _and(f"from {_clock(span.first, 0)} to {_clock(span.last, 59)}" for span in spans)
    return f"in the hours {_numbers(hour)}"


# the days


def _days(day: Field, weekday: Field, month: Field, *, both: bool) -> str:
    """On which days; "": on each."""
    months = "" if _is_all(month) else _named(month, _month)
    every_day, every_weekday = _is_all(day), _is_all(weekday)
    if (every_day and every_weekday) or (not both and (every_day or every_weekday)):
        return f"in {months}" if months else ""
    if every_weekday:
        return f"on {_of_month(day)} of {months or 'the month'}"
    counted = [isinstance(part, NthWeekday) for part in weekday.parts]
    if every_day and all(counted):
        return f"on {_named(weekday, _weekday)} of {months or 'the month'}"
    in_months = f", in {months}" if months else ""
    if every_day:
        return f"on {_named(weekday, _weekday)}{' of the month' if any(counted) else ''}{in_months}"
    if both:
        return f"on {_of_month(day)} of the month if that is {_named(weekday, _weekday, 'or')}{in_months}"
    return f"on {_of_month(day)} of the month and also on {_named(weekday, _weekday)}{in_months}"


def _of_month(day: Field) -> str:
    """`1,15,L` is "days 1 and 15 and the last day"."""
    numbers = [part for part in day.parts if isinstance(part, Span)]
    others = [_month_day(part) for part in day.parts if isinstance(part, MonthDay)]
    words = "days" if len(day.values) > 1 else "day"
    return _and([f"{words} {_numbers(day)}", *others] if numbers else others)


def _month_day(part: MonthDay) -> str:
    if part.day is not None:
        return f"the weekday nearest to day {part.day}"
    if part.before_last:
        nth = "" if part.before_last == 1 else f"{_ordinal(part.before_last)} "
        day = f"{nth}day before the last"
    else:
        day = "last weekday" if part.nearest_weekday else "last day"
    return f"the weekday nearest to the {day}" if part.nearest_weekday and part.before_last else f"the {day}"


def _month(number: int) -> str:
    return _MONTHS[number - 1]


def _weekday(number: int) -> str:
    return _WEEKDAYS[number % 7]


def _named(field: Field, name: Callable[[int], str], word: str = "and") -> str:
    """Months or weekdays by their names; steps are spelled out."""
    words = []
    for part in field.parts:
        match part:
            case Span(first, last, 1) if first != last:
                words.append(f"{name(first)} to {name(last)}")
            case Span():
                words += [name(value) for value in field.unit.values(part)]
            case NthWeekday(weekday, None):
                words.append(f"the last {name(weekday)}")
            case NthWeekday(weekday, nth) if nth is not None:
                words.append(f"the {_ordinal(nth)} {name(weekday)}")
    return _and(words, word)


# what these are made of


def _numbers(field: Field) -> str:
    """`5,10-20,30-40/5` is "5, 10 to 20 and 30 to 40 in steps of 5"."""
    words = []
    for part in field.parts:
        if not isinstance(part, Span):
            continue
        values = field.unit.values(part)
        if len(values) <= 2:
            words += [str(value) for value in values]
        else:
            steps = "" if part.step == 1 else f" in steps of {part.step}"
            words.append(f"{values[0]} to {values[-1]}{steps}")
    return _and(words)


def _step(field: Field) -> int | None:
    """How often a field comes that is regular even from one round to the next: 15 for `*/15`, 1 for `*`."""
    whole = 24 if field.unit is HOUR else 60
    step = whole // len(field.values)
    return step if field.values == frozenset(range(0, whole, step)) and step < whole else None


def _is_all(field: Field) -> bool:
    low, high = field.unit.low, 6 if field.unit is WEEKDAY else field.unit.high
    return len(field.values) == high - low + 1


def _ordinal(number: int) -> str:
    if number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    return f"{number}{ {21: 'st', 22: 'nd', 23: 'rd'}.get(number, 'th') }"


def _clock(hour: int, *rest: int) -> str:
    return ":".join(f"{number:02}" for number in (hour, *rest))


def _and(words: Iterable[str], word: str = "and") -> str:
    *others, last = words
    return f"{', '.join(others)} {word} {last}" if others else last
