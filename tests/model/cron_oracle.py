"""When a cron expression is due, found minute by minute by the rules as the documentation has them; and expressions
to try around any moment."""

from __future__ import annotations

import calendar
import random
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

from headway.model.cron import Cron

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
NAMES = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
MONTHS = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
RANGES = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
SPECIAL = re.compile(r"#|(^|[0-9]|[a-z]{3})l|w$")
"""A part of a day field that is no number, name or range: L, L-3, 15W, MON#2, FRIL."""
ZONES = sorted(available_timezones() - {"localtime"})


def values(field: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    """What the numbers, names, ranges and steps of a field allow."""
    allowed: set[int] = set()
    for part in field.lower().split(","):
        if SPECIAL.search(part):
            continue
        span, _, step = part.partition("/")
        if span in ("*", "?"):
            first, last = low, high
        else:
            begin, _, end = span.partition("-")
            first = names[begin] if begin in names else int(begin)
            last = (names[end] if end in names else int(end)) if end else (high if step else first)
        if first <= last:
            allowed |= set(range(first, last + 1, int(step or 1)))
        else:
            top = 6 if names is NAMES else high
            around, value = [first % 7 if names is NAMES else first], first
            while value != last:
                value = value + 1 if value < top else low
                around.append(value)
            allowed |= set(around[:: int(step or 1)])
    return allowed


def has_day(field: str, day: date) -> bool:
    """Whether a day-of-month field has a part with L or W for this day, found by looking at the days around it."""
    return any(_has_day(part, day) for part in field.lower().split(",") if SPECIAL.search(part))


def _has_day(part: str, day: date) -> bool:
    month = month_of(day.replace(day=1))
    if part.startswith("l"):
        back = int(part.strip("lw-") or 0)
        meant = month[-1] - timedelta(days=back)
    else:
        number = int(part.strip("w"))
        if number > len(month):
            return False
        meant = month[number - 1]
    if meant.month != day.month:
        return False
    if part.endswith("w"):
        meant = min((each for each in month if each.weekday() < 5), key=lambda each: abs((each - meant).days))
    return day == meant


@lru_cache(None)
def month_of(first: date) -> list[date]:
    return [day for n in range(31) if (day := first + timedelta(days=n)).month == first.month]


def has_weekday(field: str, day: date) -> bool:
    """Whether a day-of-week field has a part with L or # for this day."""
    for part in field.lower().split(","):
        if not SPECIAL.search(part):
            continue
        name, _, nth = part.partition("#")
        name = name if nth else name[:-1]
        number = NAMES[name] if name in NAMES else int(name) % 7
        if (day.weekday() + 1) % 7 != number:
            continue
        week = timedelta(days=7 * int(nth or 0))
        if nth and (day - week).month != day.month and (day - week + timedelta(days=7)).month == day.month:
            return True
        if not nth and (day + timedelta(days=7)).month != day.month:
            return True
    return False


class Oracle:
    """Says of a moment whether an expression is due then, looking at nothing but what the zone's clock shows."""

    def __init__(self, text: str, tz: ZoneInfo) -> None:
        fields = text.split()
        self.grain = SECOND if len(fields) == 6 else MINUTE
        fields = ["0", *fields][-6:]
        names = ({}, {}, {}, {}, MONTHS, NAMES)
        self.seconds, self.minutes, self.hours, self.days, self.months, weekdays = (
            values(field, low, high, known) for field, (low, high), known in zip(fields, RANGES, names, strict=True)
        )
        self.weekdays = {day % 7 for day in weekdays}
        self.day, self.weekday = fields[3], fields[5]
        self.both = fields[3][0] in "*?" or fields[5][0] in "*?"
        self.by_clock = any(field.startswith("*") for field in fields[:3])
        self.tz = tz

    def has(self, day: date) -> bool:
        by_day = day.day in self.days or has_day(self.day, day)
        by_weekday = (day.weekday() + 1) % 7 in self.weekdays or has_weekday(self.weekday, day)
        return day.month in self.months and ((by_day and by_weekday) if self.both else (by_day or by_weekday))

    def shows(self, local: datetime) -> bool:
        return (
            local.second in self.seconds
            and local.minute in self.minutes
            and local.hour in self.hours
            and self.has(local.date())
        )

    def times(self, since: datetime, until: datetime) -> list[datetime]:
        """Every moment in (since, until] at which it is due."""
        found = []
        # what the clock has shown before a jump back
        seen = {local for _, local in readings(self.tz, since - 4 * HOUR, since, self.grain)}
        before = since.astimezone(self.tz).replace(tzinfo=None)
        for moment, local in readings(self.tz, since, until, self.grain):
            if self.by_clock:
                due = self.shows(local)
            else:
                # a time of day: the first time that it is shown, or the end of the jump over it
                skipped = readings_between(before, local, self.grain)
                due = (local not in seen and self.shows(local)) or any(map(self.shows, skipped))
            if due:
                found.append(moment)
            seen.add(local)
            before = local
        return found


@lru_cache(64)
def readings(tz: ZoneInfo, since: datetime, until: datetime, grain: timedelta) -> list[tuple[datetime, datetime]]:
    """What the zone's clock shows, at every minute or second in (since, until]."""
    moments = [since + grain * n for n in range(1, (until - since) // grain + 1)]
    return [(moment, moment.astimezone(tz).replace(tzinfo=None)) for moment in moments]


def readings_between(before: datetime, after: datetime, grain: timedelta) -> Iterator[datetime]:
    """What a clock jumps over from one reading to the next."""
    shown = before + grain
    while shown < after:
        yield shown
        shown += grain


@lru_cache(None)
def changes(name: str) -> tuple[datetime, ...]:
    """Every moment from 2020 to 2040 at which the zone's clock jumps, to the minute."""
    tz = ZoneInfo(name)
    found = []
    step = timedelta(days=3)
    days = [datetime(2020, 1, 1, tzinfo=UTC) + step * n for n in range(20 * 366 // 3)]
    for low, high in pairwise(days):
        if low.astimezone(tz).utcoffset() == high.astimezone(tz).utcoffset():
            continue
        while high - low > MINUTE:
            middle = low + (high - low) // 2 // MINUTE * MINUTE
            if middle.astimezone(tz).utcoffset() == low.astimezone(tz).utcoffset():
                low = middle
            else:
                high = middle
        found.append(high)
    return tuple(found)


@lru_cache(None)
def first_of_its_like(name: str) -> str:
    """The zone itself, or, for another name of a zone, the first of these names."""
    return next(other for other in ZONES if clockwork(other) == clockwork(name))


@lru_cache(None)
def clockwork(name: str) -> tuple[object, ...]:
    tz = ZoneInfo(name)
    moments = (datetime(2020, 1, 1, tzinfo=UTC), *changes(name))
    return tuple((moment, moment.astimezone(tz).utcoffset()) for moment in moments)


def fired(cron: Cron, since: datetime, until: datetime, tz: ZoneInfo) -> list[datetime]:
    """The times in (since, until], one after the other, as a schedule goes through them."""
    times = []
    time = cron.after(since, tz)
    while time is not None and time <= until:
        times.append(time)
        time = cron.after(time, tz)
    return times


def expressions(chance: random.Random, around: datetime) -> list[str]:
    """Expressions of both kinds, about this local time."""
    hour = (around.hour + chance.choice([-2, -1, 0, 0, 0, 1, 2])) % 24
    minute = chance.choice([0, 15, 30, 45, around.minute, chance.randrange(60)])
    weekday = chance.choice(["mon", "SUN", "1-5", "0", "7", "*/2", "5,6", "FRI-MON", "6-1/2", "?", "sunL", "SAT#4,7#2"])
    return chance.sample(
        [
            f"{minute} {hour} * * *",
            f"{minute},{(minute + 7) % 60} {hour} * * *",
            f"*/{chance.choice([1, 7, 15, 30])} {hour} * * *",
            f"{minute} * * * *",
            f"{minute} */{chance.choice([2, 3, 5])} * * *",
            f"*/20 {hour}-{min(23, hour + 2)} * * {weekday}",
            f"{minute} {hour} {around.day} * {weekday}",
            f"{minute} {hour} * {around.month} *",
            f"{minute}-{min(59, minute + 5)}/2 0-23/{chance.choice([1, 2, 6])} * * *",
            f"* {hour} {around.day} {around.strftime('%b').lower()} *",
            f"{minute} {(hour - 2) % 24}-{hour} * * {weekday}",
            f"{minute}-{(minute + 20) % 60}/5 * ? * {weekday}",
            f"*/30 {hour}-{(hour + 20) % 24}/2 ? * {weekday}",
            f"{minute} {hour} {special_day(chance, around.date())} * ?",
            f"*/15 {hour} {special_day(chance, around.date())} {(around.month - 2) % 12 + 1}-{around.month} {weekday}",
            f"{minute} {hour} ? * {special_weekday(chance, around.date())}",
        ],
        4,
    )


def with_seconds(chance: random.Random, around: datetime) -> list[str]:
    """Expressions of six fields, about this local time."""
    second = chance.choice([0, 1, 30, 59, "5,50", "50-10/4", "*/20", "*"])
    minute = chance.choice([0, 30, around.minute, "*/30", "0,59"])
    hour = chance.choice([around.hour, (around.hour - 1) % 24, f"{(around.hour - 2) % 24}-{around.hour}", "*"])
    day = chance.choice(["*", "?", around.day, special_day(chance, around.date())])
    weekday = chance.choice(["*", special_weekday(chance, around.date()), "SAT-MON"])
    return [f"{second} {minute} {hour} {day} * {weekday}"]


def special_day(chance: random.Random, day: date) -> str:
    """Words for this day of the month, or for one near it."""
    last = calendar.monthrange(day.year, day.month)[1]
    back = last - day.day + chance.choice([0, 0, 0, 1])
    return chance.choice(["L" if not back else f"L-{min(back, 30)}", f"{day.day}W", f"1,{day.day}W", "LW", "L-2W,15"])


def special_weekday(chance: random.Random, day: date) -> str:
    """Words for this weekday of the month, or for one like it."""
    name = chance.choice([day.strftime("%a"), str(day.isoweekday())])
    nth = chance.choice([(day.day + 6) // 7, 1, 5])
    return chance.choice([f"{name}L", f"{name}#{nth}", f"{name}#{nth},{name}#2", f"WED#3,{name}L"])
