"""Cron expressions in words: as people would say them, and never the same for different times."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headway.errors import InvalidJob
from headway.model.cron import ALIASES, Cron
from headway.model.cron_words import explain_cron
from tests import sizes_and_seeds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 2 * * MON-FRI", "at 02:00 on Monday to Friday"),
        ("0 2 * * *", "at 02:00 every day"),
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/7 * * * *", "at minutes 0 to 56 in steps of 7 of every hour"),
        ("0 * * * *", "every hour"),
        ("30 * * * *", "at 30 minutes past every hour"),
        ("1 * * * *", "at 1 minute past every hour"),
        ("15,45 * * * *", "at minutes 15 and 45 of every hour"),
        ("0 */4 * * *", "every 4 hours"),
        ("30 */4 * * *", "at 00:30, 04:30, 08:30, 12:30, 16:30 and 20:30 every day"),
        ("30 */2 * * *", "every 2 hours from 00:30 to 22:30"),
        ("0 */5 * * *", "at 00:00, 05:00, 10:00, 15:00 and 20:00 every day"),
        ("0 9-17 * * MON-FRI", "every hour from 09:00 to 17:00 on Monday to Friday"),
        ("30 9-17 * * *", "every hour from 09:30 to 17:30"),
        ("*/15 9-17 * * *", "every 15 minutes from 09:00 to 17:59"),
        ("*/30 2 * * *", "at 02:00 and 02:30 every day"),
        ("0 22-6 * * *", "every hour from 22:00 to 06:00"),
        ("0 22-6/2 * * *", "at 00:00, 02:00, 04:00, 06:00 and 22:00 every day"),
        ("*/10 */2 * * *", "every 10 minutes in the hours 0 to 22 in steps of 2"),
        ("5-10 * * * *", "at minutes 5 to 10 of every hour"),
        ("0,5 9-17 * * *", "at minutes 0 and 5 of every hour from 09:00 to 17:59"),
        ("0 9-12,14-17 * * *", "every hour from 09:00 to 12:59 and from 14:00 to 17:59"),
        ("0 0 1 * *", "at 00:00 on day 1 of the month"),
        ("0 0 1,15 * *", "at 00:00 on days 1 and 15 of the month"),
        ("0 0 L * *", "at 00:00 on the last day of the month"),
        ("0 0 L-1 * *", "at 00:00 on the day before the last of the month"),
        ("0 0 L-3 * *", "at 00:00 on the third day before the last of the month"),
        ("0 0 L-3W * *", "at 00:00 on the weekday nearest to the third day before the last of the month"),
        ("0 0 LW * *", "at 00:00 on the last weekday of the month"),
        ("0 0 15W * *", "at 00:00 on the weekday nearest to day 15 of the month"),
        ("0 0 1-7 * MON", "at 00:00 on days 1 to 7 of the month and also on Monday"),
        ("0 0 */2 * MON", "at 00:00 on days 1 to 31 in steps of 2 of the month if that is Monday"),
        ("0 0 13 * FRI", "at 00:00 on day 13 of the month and also on Friday"),
        ("0 0 13 1 FRI", "at 00:00 on day 13 of the month and also on Friday, in January"),
        ("0 0 ? * MON#1,MON#3", "at 00:00 on the first Monday and the third Monday of the month"),
        ("0 0 * * FRIL", "at 00:00 on the last Friday of the month"),
        ("0 0 * 1,7 FRIL", "at 00:00 on the last Friday of January and July"),
        ("0 0 * 1-3 MON", "at 00:00 on Monday, in January to March"),
        ("0 0 * 1 MON,FRIL", "at 00:00 on Monday and the last Friday of the month, in January"),
        ("0 0 1 JAN *", "at 00:00 on day 1 of January"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("* * * * * *", "every second"),
        ("15 * * * * *", "at second 15 of every minute"),
        ("15,45 * * * * *", "at seconds 15 and 45 of every minute"),
        ("0 30 2 * * *", "at 02:30 every day"),
        ("15 30 2 * * *", "at 02:30:15 every day"),
        ("*/10 30 2 * * *", "at 02:30:00, 02:30:10, 02:30:20, 02:30:30, 02:30:40 and 02:30:50 every day"),
        ("*/10 0-29 9-17 * * *", "every 10 seconds during minutes 0 to 29 of every hour from 09:00 to 17:59"),
        ("5 */10 * * * *", "at second 5 of minutes 0 to 50 in steps of 10 of every hour"),
        ("* 9-17 * * *", "every minute from 09:00 to 17:59"),
        ("*/5 * * * SAT-SUN", "every 5 minutes on Saturday to Sunday"),
        ("0 12 1 */3 *", "at 12:00 on day 1 of January, April, July and October"),
        ("0 2 * JAN *", "at 02:00 every day in January"),
        ("*/5 * * JAN *", "every 5 minutes in January"),
        ("0 2 10-20/3 * *", "at 02:00 on days 10 to 19 in steps of 3 of the month"),
        ("0 2 */2 * *", "at 02:00 on days 1 to 31 in steps of 2 of the month"),
        ("0 2 * * */2", "at 02:00 on Sunday, Tuesday, Thursday and Saturday"),
        ("0 2 1 * 0-6", "at 02:00 every day"),
        ("*/90 * * * *", "every hour"),
        ("50-10/5 * * * *", "at minutes 50 to 10 in steps of 5 of every hour"),
        ("0 0 1,L-12 * *", "at 00:00 on day 1 and the 12th day before the last of the month"),
        ("0 0 L-21 * *", "at 00:00 on the 21st day before the last of the month"),
    ],
)
def test_an_expression_in_words(text: str, words: str) -> None:
    assert explain_cron(text) == words


@pytest.mark.parametrize(("alias", "fields"), ALIASES.items())
def test_an_alias_has_the_words_of_its_fields(alias: str, fields: str) -> None:
    assert explain_cron(alias) == explain_cron(fields)


def test_what_cannot_be_read_has_no_words() -> None:
    with pytest.raises(InvalidJob, match="'25' is no hour"):
        explain_cron("0 25 * * *")


def field(chance: random.Random, low: int, high: int, *others: str) -> str:
    """A field at random, of one or two parts."""

    def part() -> str:
        first, last, step = chance.randint(low, high), chance.randint(low, high), chance.choice([1, 2, 3, 5, 15])
        forms = [f"{first}", f"{first}-{last}", f"{first}-{last}/{step}", f"*/{step}", f"{first}/{step}", *others]
        return chance.choice(forms)

    return chance.choice(["*", "0" if low == 0 else "1", part(), part(), f"{part()},{part()}"])


def times(text: str) -> tuple[Any, ...]:
    """All that matters of an expression: its times of the day, and its days in months of every shape."""
    cron = Cron(text)
    months = ((year, month) for year in (2024, 2025, 2026, 2027, 2028) for month in cron.fields[4].values)
    days = {month: tuple(cron._days_of(*month)) for month in months}
    return (*(each.values for each in cron.fields[:3]), frozenset(days.items()))


def test_the_same_words_mean_the_same_times(random_walk: Any) -> None:
    chance = random_walk.chance("words")
    said: dict[str, str] = {}
    for _ in range(100_000 if sizes_and_seeds.full else 4_000):
        text = " ".join(
            [
                chance.choice(["0", "0", "0", field(chance, 0, 59)]),
                field(chance, 0, 59),
                field(chance, 0, 23),
                chance.choice(["*", "?", field(chance, 1, 31, "L", "L-3", "LW", "15W", "L-2W")]),
                chance.choice(["*", field(chance, 1, 12)]),
                chance.choice(["*", field(chance, 0, 7, "MON#1", "5L")]),
            ]
        )
        try:
            words = explain_cron(text)
        except InvalidJob:
            continue  # a day that no month has
        before = said.setdefault(words, text)
        if before != text:
            assert times(before) == times(text), (before, text, words)
    assert len(said) > 2_000
