"""Schedules tick and events come in while workers are killed: each time and each event makes one job, by the ledger."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import pytest

from headway.model.trigger import Fire
from tests.crash.crash_site import CrashSite
from tests.crash.killed_workers import KilledWorkers
from tests.crash.processes import until

SCHEDULES = 5
WORKERS = 4
EVENTS_A_KILL = 40
EVERY = timedelta(seconds=1)


def test_every_time_and_every_event_fires_once_while_workers_are_killed(
    site: CrashSite, request: pytest.FixtureRequest
) -> None:
    app = site.app
    kills = min(60, request.config.getoption("--crash-kills"))
    made = [
        app.create_schedule(
            f"s{number}",
            every=EVERY,
            kind="go",
            payload={"label": "{{schedule.name}}/{{schedule.nominal_at}}", "ms": 5},
            catch_up="all",
            overlap="allow",
        )
        for number in range(SCHEDULES)
    ]
    for number in range(2):
        app.create_trigger(
            f"t{number}",
            "parcel.came",
            kind="go",
            payload={"label": "{{trigger.name}}/{{event.number}}", "ms": 5},
            dedupe_window=0,
        )
    workers = KilledWorkers(site, WORKERS)
    events: list[str] = []
    for kill in range(kills):
        new = (app.build_event("parcel.came", {"number": kill * EVENTS_A_KILL + n}) for n in range(EVENTS_A_KILL))
        events += app.emit_many(new)
        share = len(events) - EVENTS_A_KILL // 2
        until(lambda share=share: _handled(site) >= share, "events are handled", within=120)
        workers.kill_any()
    until(lambda: _handled(site) == len(events), "all events are handled", within=120)
    names = [f"s{number}" for number in range(SCHEDULES)]
    until(lambda: all(len(app.fires(schedule=name)) > 1 for name in names), "all schedules have fired", within=120)
    for number in range(SCHEDULES):
        app.pause_schedule(f"s{number}")
    workers.until_over(within=120)

    expected = Counter[str]()
    for number in range(SCHEDULES):
        times = sorted(_time(fire) for fire in _fires(site, f"s{number}"))
        assert times[0] == made[number].next_fire_at
        assert times == [times[0] + EVERY * n for n in range(len(times))], "a time is missing, or came twice"
        expected.update(f"s{number}/{time.isoformat().replace('+00:00', 'Z')}" for time in times)
    expected.update(f"t{number}/{n}" for number in range(2) for n in range(len(events)))
    assert {event.status for event in app.events(limit=10_000)} == {"handled"}
    jobs = app.jobs(kind="go", limit=10_000)
    assert Counter(job.payload["label"] for job in jobs) == expected
    assert {job.status for job in jobs} == {"succeeded"}
    assert set(site.ledger.subjects("end")) == set(expected)


def _handled(site: CrashSite) -> int:
    return site.rows.events().get("handled", 0)


def _fires(site: CrashSite, schedule: str) -> list[Fire]:
    fires = site.app.fires(schedule=schedule, limit=10_000)
    assert {fire.status for fire in fires} == {"enqueued"}
    return fires


def _time(fire: Fire) -> datetime:
    assert fire.nominal_at is not None
    return fire.nominal_at
