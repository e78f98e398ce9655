"""Cron against an oracle: the clock of a zone, minute by minute, and the rules as the documentation has them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest

from headway.errors import InvalidJob
from headway.model.cron import ALIASES, Cron, zone
from tests import sizes_and_seeds

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
NAMES = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
MONTHS = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
ZONES = sorted(available_timezones() - {"localtime"})
ODD_ZONES = ["Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca", "America/Havana"]
PARTS = 8 if sizes_and_seeds.full else 1


# the oracle


def values(field: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    """What a field of the five allows."""
    allowed: set[int] = set()
    for part in field.lower().split(","):
        span, _, step = part.partition("/")
        if span == "*":
            first, last = low, high
        else:
            begin, _, end = span.partition("-")
            first = names[begin] if begin in names else int(begin)
            last = (names[end] if end in names else int(end)) if end else (high if step else first)
        allowed |= set(range(first, last + 1, int(step or 1)))
    return allowed


class Oracle:
    """Says of a moment whether an expression is due then, looking at nothing but what the zone's clock shows."""

    def __init__(self, text: str, tz: ZoneInfo) -> None:
        fields = text.split()
        names = ({}, {}, {}, MONTHS, NAMES)
        self.minutes, self.hours, self.days, self.months, weekdays = (
            values(field, low, high, known) for field, (low, high), known in zip(fields, RANGES, names, strict=True)
        )
        self.weekdays = {day % 7 for day in weekdays}
        self.both = fields[2].startswith("*") or fields[4].startswith("*")
        self.by_clock = fields[0].startswith("*") or fields[1].startswith("*")
        self.tz = tz

    def shows(self, local: datetime) -> bool:
        day = local.day in self.days
        weekday = (local.weekday() + 1) % 7 in self.weekdays
        return (
            local.minute in self.minutes
            and local.hour in self.hours
            and local.month in self.months
            and ((day and weekday) if self.both else (day or weekday))
        )

    def times(self, since: datetime, until: datetime) -> list[datetime]:
        """Every moment in (since, until] at which it is due."""
        found = []
        # what the clock has shown before a jump back
        seen = {local for _, local in readings(self.tz, since - 4 * HOUR, since)}
        before = since.astimezone(self.tz).replace(tzinfo=None)
        for moment, local in readings(self.tz, since, until):
            if self.by_clock:
                due = self.shows(local)
            else:
                # a time of day: the first time that it is shown, or the end of the jump over it
                skipped = minutes_between(before, local)
                due = (local not in seen and self.shows(local)) or any(map(self.shows, skipped))
            if due:
                found.append(moment)
            seen.add(local)
            before = local
        return found


@lru_cache(64)
def readings(tz: ZoneInfo, since: datetime, until: datetime) -> list[tuple[datetime, datetime]]:
    """What the zone's clock shows, at every minute in (since, until]."""
    minutes = (until - since) // MINUTE
    moments = [since + MINUTE * n for n in range(1, minutes + 1)]
    return [(moment, moment.astimezone(tz).replace(tzinfo=None)) for moment in moments]


def minutes_between(before: datetime, after: datetime) -> Iterator[datetime]:
    """The minutes that a clock jumps over from one reading to the next."""
    shown = before + MINUTE
    while shown < after:
        yield shown
        shown += MINUTE


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
    weekday = chance.choice(["mon", "SUN", "1-5", "0", "7", "*/2", "5,6"])
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
        ],
        4,
    )


# the tests


def zones_of(part: int, chance: random.Random) -> list[str]:
    """A part of all zones in a full run, else some of them and the odd ones."""
    return ZONES[part::PARTS] if sizes_and_seeds.full else [*ODD_ZONES, *chance.sample(ZONES, 40)]


def jumps_of(name: str) -> tuple[datetime, ...]:
    """Every jump in a full run, but few of a zone that is another's second name; else a jump each way."""
    return changes(name) if sizes_and_seeds.full and first_of_its_like(name) == name else changes(name)[:2]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_jump_of_every_zone_is_gone_through_as_the_rules_say(part: int, random_walk: Any) -> None:
    chance = random_walk.chance(f"jumps {part}")
    looked_at = 0
    for name in zones_of(part, chance):
        tz = ZoneInfo(name)
        for moment in jumps_of(name):
            local = moment.astimezone(tz).replace(tzinfo=None)
            for text in expressions(chance, local):
                since, until = moment - 3 * HOUR, moment + 3 * HOUR
                expected = Oracle(text, tz).times(since, until)
                assert fired(Cron(text), since, until, tz) == expected, (text, name, moment)
                looked_at += 1
    assert looked_at > 50


@pytest.mark.parametrize("part", range(PARTS))
def test_days_of_all_zones_from_2020_to_2040(part: int, random_walk: Any) -> None:
    chance = random_walk.chance(f"days {part}")
    for name in zones_of(part, chance):
        tz = ZoneInfo(name)
        since = datetime(2020, 1, 1, tzinfo=UTC) + MINUTE * chance.randrange(20 * 365 * 1440)
        until = since + timedelta(days=2)
        for text in expressions(chance, since.astimezone(tz).replace(tzinfo=None)):
            assert fired(Cron(text), since, until, tz) == Oracle(text, tz).times(since, until), (text, name, since)


@pytest.mark.parametrize("name", ODD_ZONES)
def test_any_moment_around_a_jump_gives_the_next_time(name: str) -> None:
    """Not only a time before: a schedule may be made, or resumed, within an hour that comes twice."""
    tz = ZoneInfo(name)
    chance = random.Random(name)
    for moment in changes(name)[:8]:
        for text in expressions(chance, moment.astimezone(tz).replace(tzinfo=None)):
            expected = Oracle(text, tz).times(moment - 5 * HOUR, moment + 30 * HOUR)
            for minutes in range(-200, 200, 7):
                since = moment + minutes * MINUTE
                following = next(iter(time for time in expected if time > since), None)
                found = Cron(text).after(since, tz)
                if following is not None:
                    assert found == following, (text, name, since)


def test_the_two_worked_examples_of_the_documentation() -> None:
    tz = zone("America/New_York")
    march, november = datetime(2026, 3, 7, 12, tzinfo=UTC), datetime(2026, 10, 31, 12, tzinfo=UTC)

    def shown(text: str, since: datetime, count: int) -> list[str]:
        times = []
        for _ in range(count):
            time = Cron(text).after(since, tz)
            assert time is not None
            times.append(time.astimezone(tz).strftime("%d %H:%M %Z"))
            since = time
        return times

    assert shown("30 2 * * *", march, 2) == ["08 03:00 EDT", "09 02:30 EDT"]
    assert shown("*/30 2 * * *", march, 2) == ["09 02:00 EDT", "09 02:30 EDT"]
    assert shown("30 1 * * *", november, 2) == ["01 01:30 EDT", "02 01:30 EST"]
    assert shown("*/30 1 * * *", november, 4) == ["01 01:00 EDT", "01 01:30 EDT", "01 01:00 EST", "01 01:30 EST"]


@pytest.mark.parametrize(("alias", "fields"), ALIASES.items())
def test_an_alias_stands_for_its_fields(alias: str, fields: str) -> None:
    since, tz = datetime(2026, 5, 17, 8, 41, tzinfo=UTC), zone("Asia/Kolkata")
    assert Cron(alias.upper()).after(since, tz) == Cron(fields).after(since, tz)


def test_the_last_day_and_the_nth_weekday() -> None:
    since, tz = datetime(2026, 1, 30, tzinfo=UTC), zone("UTC")
    assert Cron("0 0 L * *").after(since, tz) == datetime(2026, 1, 31, tzinfo=UTC)
    assert Cron("0 0 * * MON#2").after(since, tz) == datetime(2026, 2, 9, tzinfo=UTC)
    assert Cron("0 0 * * 5L").after(since, tz) == datetime(2026, 2, 27, tzinfo=UTC)


def test_what_never_comes_is_none() -> None:
    assert Cron("0 0 */31 2 MON#5").after(datetime(2026, 1, 1, tzinfo=UTC), zone("UTC")) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "* * * *",
        "* * * * * *",
        "61 * * * *",
        "*/0 * * * *",
        "5-1 * * * *",
        "0 0 30 2 *",
        "@reboot",
        "0 0 * * 8",
    ],
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidJob, match="cron="):
        Cron(text)


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "EST5", "../../etc/passwd", "/etc/passwd", "Europe/Berlin\0"])
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidJob, match="IANA"):
        zone(name)


@pytest.mark.parametrize(
    ("text", "same"),
    [("0 0 * * MON-SUN", "0 0 * * *"), ("0 0 * * sat-sun", "0 0 * * 0,6"), ("0 0 * * WED,fri-SUN", "0 0 * * 0,3,5,6")],
)
def test_a_week_may_end_with_sunday(text: str, same: str) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    one = two = begin
    for _ in range(20):
        one, two = (cron.after(moment, zone("UTC")) for cron, moment in ((Cron(text), one), (Cron(same), two)))  # type: ignore[assignment, arg-type]
        assert one == two


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 22-6 * * *", "'22-6' runs backwards, and ranges go upwards: write 22-23,0-6"),
        ("0 0 * * FRI-MON", "'FRI-MON' runs backwards, and ranges go upwards: write FRI-SAT,SUN-MON"),
        ("0 0 * nov-FEB/2 *", "'nov-FEB/2' runs backwards"),
        ("0 0 \u00b9 * *", "has a character that no field takes"),
        ("0 0 \u0661 * *", "has a character that no field takes"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, message: str) -> None:
    with pytest.raises(InvalidJob, match=re.escape(message)):
        Cron(text)
