"""When a schedule is due: pure rules of its times, of what it catches up on, and of its jitter."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain, islice, takewhile
from typing import Protocol

import msgspec

from headway.model.cron import Cron, zone
from headway.model.trigger import CatchUp, Trigger

ON_TIME = timedelta(seconds=60)
"""How late a time may be fired and still count as on time, where a schedule catches up on nothing."""
OVERDUE = timedelta(minutes=2)
"""How late a schedule may be before people are told."""
MOST = 1_000
"""How many times one plan has at most; the next plan has the others."""
CATCH_UP = 10_000
"""How many times a schedule that fires all that it missed catches up on at most: the last ones. A week of minutes."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BACK = [timedelta(minutes=5), timedelta(hours=2), timedelta(days=2), timedelta(days=40), timedelta(days=800)]


class Timing(Protocol):
    """The part of a schedule that says when it is due: `Trigger` and `NewTrigger` have it."""

    @property
    def cron(self) -> str | None: ...
    @property
    def every_ms(self) -> int | None: ...
    @property
    def tz(self) -> str: ...
    @property
    def start_at(self) -> datetime | None: ...
    @property
    def end_at(self) -> datetime | None: ...


class CatchingUp(Timing, Protocol):
    @property
    def catch_up(self) -> CatchUp: ...
    @property
    def catch_up_window_ms(self) -> int: ...
    @property
    def next_fire_at(self) -> datetime | None: ...


class Plan(msgspec.Struct, frozen=True):
    """The nominal times to fire now, oldest first, and when the schedule is due after that."""

    times: tuple[datetime, ...]
    next_fire_at: datetime | None
    skipped_from: datetime | None = None  # the first of the times that are too many to catch up on
    skipped_until: datetime | None = None  # the first time after these


def next_time(timing: Timing, after: datetime) -> datetime | None:
    """The first nominal time after this moment, in UTC; None: it will not fire again.

    An interval counts from `start_at`, or from 1970: every 5 minutes is at :00, :05, …
    """
    if timing.start_at is not None:
        after = max(after, timing.start_at - timedelta(microseconds=1))
    if timing.every_ms is not None:
        every = timedelta(milliseconds=timing.every_ms)
        anchor = timing.start_at or _EPOCH
        found: datetime | None = anchor + ((after - anchor) // every + 1) * every
    else:
        assert timing.cron is not None
        found = _cron(timing.cron).after(after, zone(timing.tz))
    if found is None or (timing.end_at is not None and found > timing.end_at):
        return None
    return found


def upcoming(timing: Timing, after: datetime) -> Iterator[datetime]:
    """The nominal times after this moment, one after the other."""
    time = next_time(timing, after)
    while time is not None:
        yield time
        time = next_time(timing, time)


def time_before(timing: Timing, moment: datetime) -> datetime | None:
    """The last nominal time before this moment, if there is one in the two years before it."""
    until = moment - timedelta(microseconds=1)
    return next((time for back in _BACK if (time := _last(timing, until - back, until)) is not None), None)


def past_times(timing: Timing, start: datetime, end: datetime) -> list[datetime]:
    """The nominal times from start to end, both included; one more than can be caught up on at most."""
    times = takewhile(lambda time: time <= end, upcoming(timing, start - timedelta(microseconds=1)))
    return list(islice(times, CATCH_UP + 1))


def plan(schedule: CatchingUp, now: datetime, most: int = MOST) -> Plan:
    """What a schedule that is due fires now, by its `catch_up`; `most` times at once.

    latest: the last time that has come. none: that one too, unless it is more than a minute late. all: every time
    since, as far back as the window goes, but the last 10,000 only; those before are skipped.
    """
    due = schedule.next_fire_at
    if due is None or due > now:
        return Plan((), due)
    latest = _latest(schedule, due, now)
    match schedule.catch_up:
        case "none" if now - latest > ON_TIME:
            return Plan((), next_time(schedule, now))
        case "none" | "latest":
            return Plan((latest,), next_time(schedule, now))
        case "all":
            window = timedelta(milliseconds=schedule.catch_up_window_ms)
            since = due - timedelta(microseconds=1)
            if window < now - since:
                since = now - window
    # fewer have come for sure in a shorter time: no need to count them
    looked_at = CATCH_UP if now - since > CATCH_UP * _shortest(schedule) else most
    # its next time is due also if it is none of the expression's: when workers start, it is that moment
    first = (due,) if since < due else ()
    coming = chain(first, upcoming(schedule, max(since, due)))
    behind = list(islice(takewhile(lambda time: time <= now, coming), looked_at + 1))
    times = behind if len(behind) <= CATCH_UP else _last_times(schedule, since, now)
    following = times[most] if len(times) > most else next_time(schedule, times[-1] if times else now)
    if times is behind:
        return Plan(tuple(times[:most]), following)
    return Plan(tuple(times[:most]), following, skipped_from=behind[0], skipped_until=times[0])


def _shortest(timing: Timing) -> timedelta:
    """No two of its times are closer to each other."""
    if timing.every_ms is not None:
        return timedelta(milliseconds=timing.every_ms)
    assert timing.cron is not None
    return _cron(timing.cron).shortest


def _last_times(schedule: CatchingUp, since: datetime, now: datetime) -> list[datetime]:
    """The last times that have come, as many as are caught up on; found from the end."""
    back = _shortest(schedule) * CATCH_UP
    while True:
        start = max(since, now - back)
        times = deque(takewhile(lambda time: time <= now, upcoming(schedule, start)), maxlen=CATCH_UP)
        if len(times) == CATCH_UP or start == since:
            return list(times)
        back *= 2


def _latest(schedule: CatchingUp, due: datetime, now: datetime) -> datetime:
    """The last time that has come; found from the end, as there may be millions since `due`."""
    end = now if schedule.end_at is None else min(now, schedule.end_at)
    if schedule.every_ms is not None:
        every = timedelta(milliseconds=schedule.every_ms)
        anchor = schedule.start_at or _EPOCH
        return max(due, anchor + (end - anchor) // every * every)
    for back in _BACK:
        if end - back <= due:
            break
        last = _last(schedule, end - back, end)
        if last is not None:
            return last
    return _last(schedule, due, end) or due


def _last(timing: Timing, since: datetime, until: datetime) -> datetime | None:
    last = None
    for time in upcoming(timing, since):
        if time > until:
            break
        last = time
    return last


def jittered(trigger_id: str, nominal_at: datetime, jitter_ms: int) -> datetime:
    """The nominal time plus this schedule's own part of the jitter: the same for every worker."""
    if not jitter_ms:
        return nominal_at
    digest = hashlib.blake2b(f"{trigger_id} {nominal_at.isoformat()}".encode(), digest_size=8).digest()
    return nominal_at + timedelta(milliseconds=int.from_bytes(digest) % (jitter_ms + 1))


@lru_cache(10_000)
def _cron(text: str) -> Cron:
    return Cron(text)


def overdue(schedule: Trigger, now: datetime) -> bool:
    """Whether it should have fired minutes ago."""
    return schedule.next_fire_at is not None and now - schedule.next_fire_at > OVERDUE
