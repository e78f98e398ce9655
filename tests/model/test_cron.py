"""Cron against an oracle: the clock of a zone, minute by minute, and the rules as the documentation has them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from headway.errors import InvalidJob
from headway.model.cron import ALIASES, Cron, zone
from tests import sizes_and_seeds
from tests.model.cron_oracle import (
    HOUR,
    MINUTE,
    ZONES,
    Oracle,
    changes,
    expressions,
    fired,
    first_of_its_like,
    special_day,
    special_weekday,
    with_seconds,
)

ODD_ZONES = ["Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca", "America/Havana"]
PARTS = 8 if sizes_and_seeds.full else 1


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


@pytest.mark.parametrize("part", range(PARTS))
def test_seconds_go_through_jumps_by_the_same_rules(part: int, random_walk: Any) -> None:
    chance = random_walk.chance(f"seconds {part}")
    zones = ZONES[part::PARTS] if sizes_and_seeds.full else [*ODD_ZONES, *chance.sample(ZONES, 6)]
    for name in zones:
        tz = ZoneInfo(name)
        for moment in changes(name)[:2]:
            for text in with_seconds(chance, moment.astimezone(tz).replace(tzinfo=None)):
                since, until = moment - 130 * MINUTE, moment + 130 * MINUTE
                expected = Oracle(text, tz).times(since, until)
                assert fired(Cron(text), since, until, tz) == expected, (text, name, moment)


def test_days_of_years_are_those_of_the_rules(random_walk: Any) -> None:
    chance = random_walk.chance("days of years")
    utc = zone("UTC")
    days = [date(2023, 1, 1) + timedelta(days=n) for n in range(4 * 366)]
    for _ in range(1_000 if sizes_and_seeds.full else 25):
        day, weekday = special_day(chance, chance.choice(days)), special_weekday(chance, chance.choice(days))
        month = chance.choice(["*", "NOV-FEB", "2", "10-3/3", "4,6"])
        text = f"0 0 {chance.choice(['*', '?', '28-3', '*/2', day, day])} {month} {chance.choice(['*', '?', weekday])}"
        oracle = Oracle(text, utc)
        since, until = datetime(2022, 12, 31, tzinfo=UTC), datetime(2026, 12, 31, tzinfo=UTC)
        expected = [each for each in days if oracle.has(each) and each <= until.date()]
        assert [time.date() for time in fired(Cron(text), since, until, utc)] == expected, text


@pytest.mark.parametrize(
    "text",
    [
        "*/7 3,9 * * *",
        "5/20 */5 */10 2-11/3 *",
        "0 12 L * *",
        "0 12 LW * *",
        "0 12 13 * FRI",
        "0 12 */2 * MON-FRI",
        "0 12 * * MON#1,MON#3",
        "0 12 1,15 * 5L",
        "0 0 29 2 *",
        "0 0 29 2 MON",
        "*/25 10 4 */2 * 1/2",
        "15 */10 * 1-7 * *",
    ],
)
def test_where_no_clock_jumps_it_is_due_as_cronsim_says(text: str) -> None:
    since = datetime(2025, 11, 30, 23, 58, 30, tzinfo=UTC)
    expected = [time.replace(tzinfo=UTC) for time in islice(CronSim(text, since.replace(tzinfo=None)), 50)]
    assert fired(Cron(text), since, expected[-1], zone("UTC")) == expected


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
        "* * * * * * *",
        "61 * * * *",
        "61 * * * * *",
        "*/0 * * * *",
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
    ("text", "same"),
    [
        ("0 22-6 * * *", "0 22,23,0,1,2,3,4,5,6 * * *"),
        ("0 22-6/3 * * *", "0 22,1,4 * * *"),
        ("50-10/5 * * * *", "50,55,0,5,10 * * * *"),
        ("0 0 * * FRI-MON", "0 0 * * 5,6,0,1"),
        ("0 0 * * 5-1", "0 0 * * 5,6,0,1"),
        ("0 0 * * 7-2", "0 0 * * 0-2"),
        ("0 0 1 nov-FEB/2 *", "0 0 1 11,1 *"),
        ("0 0 30-2 * *", "0 0 30,31,1,2 * *"),
        ("0 0 ? * MON", "0 0 * * MON"),
        ("0 0 1 * ?", "0 0 1 * *"),
        ("0 0 ? * ?", "0 0 * * *"),
        ("0 0 * * fril", "0 0 * * 5L"),
        ("0 0 * * 7L", "0 0 * * SUNL"),
        ("0 0 L-0 * *", "0 0 L * *"),
        ("0 30 2 * * *", "30 2 * * *"),
    ],
)
def test_two_ways_to_write_the_same(text: str, same: str) -> None:
    since = datetime(2026, 10, 24, tzinfo=UTC)  # a day before the clock of Berlin is set back
    found, expected = (list(islice(iterate(Cron(each), since, "Europe/Berlin"), 200)) for each in (text, same))
    assert found == expected


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 0 L * *", "01-31 02-28 03-31 04-30"),
        ("0 0 L-3 * *", "01-28 02-25 03-28 04-27"),
        ("0 0 L-30 * *", "01-01 03-01 05-01 07-01"),
        ("0 0 LW * *", "01-30 02-27 03-31 04-30"),
        ("0 0 1W * *", "01-01 02-02 03-02 04-01"),  # 1 February and 1 March are Sundays
        ("0 0 1W 8 *", "08-03 08-02 08-01 08-01"),  # a Saturday: not in July, but the Monday after
        ("0 0 31W * *", "01-30 03-31 05-29 07-31"),  # 31 May is a Sunday: not in June, but the Friday before
        ("0 0 * * FRIL", "01-30 02-27 03-27 04-24"),
        ("0 0 * * MON#1,MON#3", "01-05 01-19 02-02 02-16"),
        ("0 0 * * MON#5", "03-30 06-29 08-31 11-30"),
        ("0 0 13 * FRIL", "01-13 01-30 02-13 02-27"),
    ],
)
def test_days_that_no_number_says(text: str, days: str) -> None:
    found = list(islice(iterate(Cron(text), datetime(2025, 12, 31, 12, tzinfo=UTC)), 4))
    assert " ".join(time.strftime("%m-%d") for time in found) == days


def iterate(cron: Cron, since: datetime, tz: str = "UTC") -> Iterator[datetime]:
    time = cron.after(since, zone(tz))
    while time is not None:
        yield time
        time = cron.after(time, zone(tz))


def test_a_time_of_day_with_seconds_comes_at_the_end_of_a_gap() -> None:
    berlin, night = zone("Europe/Berlin"), datetime(2026, 3, 29, tzinfo=UTC)
    end_of_gap = datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert Cron("15 30 2 * * *").after(night, berlin) == end_of_gap
    assert Cron("*/15 30 2 * * *").after(night, berlin) == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 0 \u00b9 * *", "has a character that no field takes"),
        ("0 0 \u0661 * *", "has a character that no field takes"),
        ("0 61,5 * * *", "'61' is no hour: use 0-23"),
        ("61 0 0 * * *", "'61' is no second: use 0-59"),
        ("0 0 * * MO", "'MO' is no day-of-week: use 0-7 (0 and 7 are Sunday), or SUN to SAT"),
        ("0 0 * * L", "'L' is no day-of-week: say which is the last, like FRIL or 5L for the last Friday"),
        ("0 0 * * MON#6", "'MON#6' is no day-of-week: MON#1 to MON#5 count those of a month"),
        ("0 0 * * MON#", "'MON#' is no day-of-week: MON#1 to MON#5"),
        ("0 0 * * MON-FRI#2", "'MON-FRI#2' is no day-of-week: use"),
        ("0 0 L-31 * *", "'L-31' is no day-of-month: L-1 to L-30 count back from the last day"),
        ("0 0 32W * *", "'32W' is no day-of-month: 1W to 31W"),
        ("0 0 L/2 * *", "'L/2' is no day-of-month: use 1-31, L for the last day"),
        ("? 0 * * *", "'?' is no minute: only a whole day-of-month or day-of-week can be ?; write *"),
        ("0 0 1,? * *", "'?' is no day-of-month: only a whole"),
        ("*/x * * * *", "'*/X' is no minute: after / comes the size of the step, 1 or more"),
        ("0 0 1,, * *", "'' is no day-of-month: use"),
        ("0 0 30,31 FEB *", "no month of FEB has a day 30,31"),
        ("0 0 0 1 1 ? 2031", "has 7 fields, and a year is none of them: give start= and end= instead"),
        ("* * * *", "has 4 fields, not five or, with seconds, six: write minute hour day month weekday"),
        ("@every 5m", "give an interval as every='5m', without cron"),
        ("@reboot", "is not known: give its times, and run_on_start=True, which fires when workers start, too"),
        ("@often", "is not known: write minute hour day month weekday, like '0 2 * * *', or @yearly"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, message: str) -> None:
    with pytest.raises(InvalidJob, match=re.escape(message)):
        Cron(text)
