"""A year of schedules by eight tickers that die, are late and do things twice: no nominal time twice, none missing.

`make test` takes the half from October to April, in which every zone changes its clocks both ways.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from headway.model.schedule import next_time, plan
from headway.model.trigger import Firing, Trigger
from tests import sizes_and_seeds
from tests.store.triggers.trigger_calls import firing, job_of, new_fire, new_schedule

TICKERS = 8
YEAR = timedelta(days=366)
OCTOBER, HALF = datetime(2031, 10, 1, tzinfo=UTC), timedelta(days=195)
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


# when they should fire, by rules of their own: nothing here comes from the code under test


def every(hours: float, since: datetime, until: datetime) -> Iterator[datetime]:
    """By the interval, counted from 1970."""
    step = int(hours * 3_600)
    at = int(since.timestamp()) // step * step + step
    while at <= until.timestamp():
        yield datetime.fromtimestamp(at, UTC)
        at += step


def hourly(minute: int, since: datetime, until: datetime) -> Iterator[datetime]:
    """At that minute of each real hour: in zones of whole hours, also where clocks are changed."""
    at = since.astimezone(UTC).replace(minute=minute, second=0, microsecond=0)
    while at <= until:
        if at > since:
            yield at
        at += timedelta(hours=1)


def daily(at: time, zone: str, since: datetime, until: datetime, weekday: int | None = None) -> Iterator[datetime]:
    """Once on each date: at the end of the gap where there is no such time, the first time where there are two."""
    tz = ZoneInfo(zone)
    day: date = since.astimezone(tz).date() - timedelta(days=1)
    while day <= until.astimezone(tz).date():
        local = datetime.combine(day, at, tz)
        utc = local.astimezone(UTC)
        if utc.astimezone(tz).replace(tzinfo=None) != local.replace(tzinfo=None):
            utc = _end_of_gap(local, tz)
        if since < utc <= until and weekday in (None, day.weekday()):
            yield utc
        day += timedelta(days=1)


def _end_of_gap(local: datetime, tz: ZoneInfo) -> datetime:
    """The first minute after the clocks were put forward over this time."""
    at = local.replace(fold=1).astimezone(UTC) - timedelta(hours=3)
    offset = at.astimezone(tz).utcoffset()
    while at.astimezone(tz).utcoffset() == offset:
        at += timedelta(minutes=1)
    return at


def test_the_rules_of_this_test_know_both_changes_of_the_clock() -> None:
    def days(zone: str, at: time, first: date) -> list[str]:
        since = datetime.combine(first, time(0), UTC)
        return [f"{each:%d %H:%M}" for each in daily(at, zone, since, since + timedelta(days=3))]

    assert days("Europe/Berlin", time(2, 30), date(2032, 3, 27)) == ["27 01:30", "28 01:00", "29 00:30"]
    assert days("Europe/Berlin", time(2, 30), date(2031, 10, 25)) == ["25 00:30", "26 00:30", "27 01:30"]


SCHEDULES: dict[str, dict[str, Any]] = {
    "hourly-in-New-York": {"cron": "15 * * * *", "tz": "America/New_York"},
    "in-Berlin-gap-and-overlap": {"cron": "30 2 * * *", "tz": "Europe/Berlin"},
    "in-New-York-overlap": {"cron": "30 1 * * *", "tz": "America/New_York"},
    "in-Lord-Howe-half-hour": {"cron": "10 2 * * *", "tz": "Australia/Lord_Howe"},
    "sundays-in-Berlin": {"cron": "45 2 * * sun", "tz": "Europe/Berlin"},
    "every-7-hours": {"every_ms": 7 * HOUR},
    "the-latest": {"every_ms": 3 * HOUR, "catch_up": "latest"},
}


def nominal(since: datetime, until: datetime) -> dict[str, list[datetime]]:
    """The times of each schedule, by rules of their own."""
    span = since, until
    return {
        "hourly-in-New-York": list(hourly(15, *span)),
        "in-Berlin-gap-and-overlap": list(daily(time(2, 30), "Europe/Berlin", *span)),
        "in-New-York-overlap": list(daily(time(1, 30), "America/New_York", *span)),
        "in-Lord-Howe-half-hour": list(daily(time(2, 10), "Australia/Lord_Howe", *span)),
        "sundays-in-Berlin": list(daily(time(2, 45), "Europe/Berlin", *span, weekday=6)),
        "every-7-hours": list(every(7, *span)),
        "the-latest": list(every(3, *span)),
    }


class Maintenance:
    """One of those who look what is due, plan, and fire: or die, or come back to an old plan, or do it twice."""

    def __init__(self, db: Any, chance: random.Random) -> None:
        self.db = db
        self.chance = chance
        self.old: list[Firing] = []
        self.died: Counter[str] = Counter()

    def tick(self) -> None:
        plans = planned(self.db)
        fate = self.chance.random()
        if fate < 0.25:
            self.died["before"] += 1
        elif fate < 0.35:
            self.died["within"] += 1
            self.rolled_back(plans)
        elif fate < 0.5:
            self.old += plans
        else:
            self.db.fire(*plans)
        if fate > 0.8:
            self.died["twice"] += 1
            self.db.fire(*plans)
        if self.old and fate > 0.6:
            self.chance.shuffle(self.old)
            self.db.fire(*(self.old.pop() for _ in range(min(3, len(self.old)))))

    def rolled_back(self, plans: list[Firing]) -> None:
        """Killed before the commit."""
        with closing(self.db.connect()) as conn:
            conn.execute("begin")
            self.db.store.run_in(conn, self.db.ops.fire(plans))
            conn.execute("rollback")


def planned(db: Any) -> list[Firing]:
    due = db.due(limit=50)
    return [_firing(met.trigger, due.now) for met in due.schedules]


def _firing(trigger: Trigger, now: datetime) -> Firing:
    found = plan(trigger, now)
    fires = (new_fire(trigger, at, job=job_of(trigger)) for at in found.times)
    return firing(trigger, *fires, next_fire_at=found.next_fire_at)


def test_a_year_of_eight_tickers_has_no_duplicates_and_no_gaps(db: Any) -> None:
    chance = random.Random(20_310_506)
    span = YEAR
    if not sizes_and_seeds.full:
        db.advance(OCTOBER - db.now())
        span = HALF
    start = db.now()
    ids = {}
    for name, options in SCHEDULES.items():
        new = new_schedule(**{"name": name, "catch_up": "all", "catch_up_window_ms": 60 * DAY, **options})
        ids[name] = db.schedule(**{**_given(new), "next_fire_at": next_time(new, start)}).id
    tickers = [Maintenance(db, chance) for _ in range(TICKERS)]
    while db.now() < start + span:
        # mostly hours, sometimes an outage of days
        db.advance(timedelta(hours=chance.choice([1, 2, 5, 9, 9, 14, 20, 100])))
        for ticker in chance.sample(tickers, 2):
            ticker.tick()
        if chance.random() < 0.05:
            db.change_trigger(chance.choice(list(ids.values())), description="an operator's hand")
    db.fire(*planned(db))
    for ticker in tickers:
        db.fire(*ticker.old)
    assert planned(db) == []

    fired = Counter((each.trigger_id, each.nominal_at) for each in db.fires(limit=100_000))
    assert set(fired.values()) == {1}
    jobs = Counter(job.trigger_id for job in db.find(limit=100_000))
    for name, expected in nominal(start, db.now()).items():
        times = sorted(at for trigger_id, at in fired if trigger_id == ids[name])
        if name == "the-latest":
            assert set(times) < set(expected)
            assert len(times) > 300 * (span / YEAR)
        else:
            assert times == expected
        assert jobs[ids[name]] == len(times)
    done = sum((ticker.died for ticker in tickers), Counter())
    assert min(done["before"], done["within"], done["twice"]) > 40 * (span / YEAR)


def _given(new: Any) -> dict[str, Any]:
    return {name: getattr(new, name) for name in ("name", "cron", "every_ms", "tz", "catch_up", "catch_up_window_ms")}
