"""When a schedule is due: intervals, ends, what is caught up on, and jitter."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Any

import msgspec
import pytest

from headway.model.ids import DEFAULT_TENANT_ID, new_id
from headway.model.schedule import CATCH_UP, MOST, jittered, next_time, plan, upcoming
from headway.model.trigger import NewTrigger

NOON = datetime(2026, 5, 17, 12, tzinfo=UTC)


def schedule(**fields: Any) -> NewTrigger:
    return NewTrigger(id=new_id(), tenant_id=DEFAULT_TENANT_ID, type="schedule", name="s", kind="k", **fields)


def every(minutes: float, **fields: Any) -> NewTrigger:
    return schedule(every_ms=int(minutes * 60_000), **fields)


def minutes(*numbers: float) -> tuple[datetime, ...]:
    return tuple(NOON + timedelta(minutes=number) for number in numbers)


def test_an_interval_counts_from_1970() -> None:
    assert tuple(islice(upcoming(every(11), NOON), 2)) == minutes(4, 15)
    assert next_time(every(60), NOON) == NOON + timedelta(hours=1)
    assert next_time(every(60), NOON - timedelta(microseconds=1)) == NOON


def test_an_interval_with_a_start_counts_from_there() -> None:
    late = every(10, start_at=NOON + timedelta(minutes=3))
    assert tuple(islice(upcoming(late, NOON - timedelta(days=9)), 3)) == minutes(3, 13, 23)
    assert next_time(late, NOON + timedelta(minutes=13)) == NOON + timedelta(minutes=23)


def test_a_cron_with_a_start_and_an_end() -> None:
    between = schedule(cron="*/10 * * * *", start_at=NOON + timedelta(minutes=10), end_at=NOON + timedelta(minutes=30))
    assert tuple(upcoming(between, NOON - timedelta(days=1))) == minutes(10, 20, 30)
    assert next_time(between, NOON + timedelta(minutes=30)) is None


@pytest.mark.parametrize("catch_up", ["none", "latest", "all"])
def test_on_time_every_way_fires_the_one_time(catch_up: Any) -> None:
    planned = plan(every(10, catch_up=catch_up, next_fire_at=NOON), NOON + timedelta(milliseconds=300))
    assert (planned.times, planned.next_fire_at) == ((NOON,), NOON + timedelta(minutes=10))


def test_before_its_time_nothing_is_fired() -> None:
    assert plan(every(10, next_fire_at=NOON), NOON - timedelta(microseconds=1)).times == ()


def test_latest_fires_the_last_time_that_was_missed() -> None:
    planned = plan(every(10, catch_up="latest", next_fire_at=NOON), NOON + timedelta(minutes=47))
    assert (planned.times, planned.next_fire_at) == (minutes(40), NOON + timedelta(minutes=50))


def test_none_fires_what_is_not_a_minute_late() -> None:
    late = every(10, catch_up="none", next_fire_at=NOON)
    assert plan(late, NOON + timedelta(seconds=59)).times == (NOON,)
    planned = plan(late, NOON + timedelta(minutes=47))
    assert (planned.times, planned.next_fire_at) == ((), NOON + timedelta(minutes=50))


def test_all_fires_what_the_window_holds() -> None:
    late = every(10, catch_up="all", catch_up_window_ms=1_800_000, next_fire_at=NOON)
    planned = plan(late, NOON + timedelta(minutes=65))
    assert (planned.times, planned.next_fire_at) == (minutes(40, 50, 60), NOON + timedelta(minutes=70))
    assert plan(late, NOON + timedelta(minutes=25)).times == minutes(0, 10, 20)


def test_a_long_list_goes_on_where_the_plan_before_ended() -> None:
    late = every(1, catch_up="all", catch_up_window_ms=10**10, next_fire_at=NOON)
    now = NOON + timedelta(minutes=MOST + 5)
    first = plan(late, now)
    assert len(first.times) == MOST
    assert first.next_fire_at == NOON + timedelta(minutes=MOST)
    second = plan(every(1, catch_up="all", catch_up_window_ms=10**10, next_fire_at=first.next_fire_at), now)
    assert second.times == minutes(*range(MOST, MOST + 6))
    assert second.next_fire_at == NOON + timedelta(minutes=MOST + 6)


@pytest.mark.parametrize("cron", ["* * * * *", "* * * * * *", "0 3 * * *", "0 0 29 2 *", "@monthly"])
def test_latest_after_years_costs_no_more_than_after_an_hour(cron: str) -> None:
    late = schedule(cron=cron, tz="Europe/Berlin", next_fire_at=datetime(2004, 2, 28, 23, tzinfo=UTC))
    began = time.process_time()
    planned = plan(late, NOON)
    assert time.process_time() - began < 5  # 11 million minutes would take ten
    (last,) = planned.times
    assert last <= NOON
    assert next_time(late, last) == planned.next_fire_at
    assert planned.next_fire_at is not None
    assert planned.next_fire_at > NOON


def test_after_its_end_it_is_not_due_any_more() -> None:
    ending = every(10, catch_up="all", next_fire_at=NOON, end_at=NOON + timedelta(minutes=15))
    planned = plan(ending, NOON + timedelta(minutes=60))
    assert (planned.times, planned.next_fire_at) == (minutes(0, 10), None)


def test_jitter_is_the_same_for_everybody_and_within_its_bound() -> None:
    times = [jittered("a", NOON + timedelta(minutes=n), 60_000) - timedelta(minutes=n) for n in range(200)]
    assert all(NOON <= each <= NOON + timedelta(minutes=1) for each in times)
    assert len(set(times)) > 150
    assert jittered("a", NOON, 60_000) == jittered("a", NOON, 60_000) != jittered("b", NOON, 60_000)
    assert jittered("a", NOON, 0) == NOON


@pytest.mark.parametrize("timing", [{"every_ms": 1_000}, {"cron": "* * * * *"}, {"cron": "* * * * * *"}])
def test_what_is_too_much_to_catch_up_on_is_skipped_as_one(timing: Any) -> None:
    long_ago = datetime(1970, 1, 1, tzinfo=UTC)
    late = schedule(catch_up="all", catch_up_window_ms=10**14, next_fire_at=long_ago, **timing)
    planned = plan(late, NOON, 5)
    last = list(takewhile(lambda at: at <= NOON, upcoming(late, planned.times[0])))
    assert 1 + len(last) == CATCH_UP
    assert planned.next_fire_at == last[4]
    assert (planned.skipped_from, planned.skipped_until) == (long_ago, planned.times[0])
    goes_on = plan(msgspec.structs.replace(late, next_fire_at=planned.next_fire_at), NOON, 5)
    assert (goes_on.times, goes_on.skipped_from) == (tuple(last[4:9]), None)


def test_a_year_of_hours_is_caught_up_on() -> None:
    late = schedule(
        cron="0 * * * *", catch_up="all", catch_up_window_ms=10**11, next_fire_at=NOON - timedelta(days=365)
    )
    planned = plan(late, NOON)
    assert (planned.times[0], planned.skipped_from) == (NOON - timedelta(days=365), None)
