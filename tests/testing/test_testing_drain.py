"""drain: everything that can run now runs, in order, and a summary says what happened."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from headway import Cancel, Headway, Retry, Snooze
from headway.define.options import new_job
from headway.errors import ConfigError, HeadwayError
from headway.testing import adrain, drain, drained, held


def test_drain_runs_what_can_run_now_in_order(app: Headway) -> None:
    ran: list[int] = []

    @app.job
    def note(number: int) -> None:
        ran.append(number)

    note.using(priority=200).enqueue(3)
    note.enqueue(1)
    note.enqueue(2)
    note.using(delay="1h").enqueue(4)
    assert str(drain(app)) == "3 succeeded"
    assert ran == [1, 2, 3]
    assert str(drain(app)) == "nothing to do"
    assert app.counts()["scheduled"] == 1


def test_drain_runs_what_handlers_enqueue_also_into_new_queues(app: Headway) -> None:
    @app.job
    async def parent(depth: int) -> None:
        if depth:
            await parent.using(queue=f"depth-{depth}").aenqueue(depth - 1)

    parent.enqueue(3)
    assert drain(app).succeeded == 4


def test_drain_takes_only_the_queues_it_is_given(app: Headway) -> None:
    @app.job
    def work() -> None: ...

    for queue in ("red", "green", "blue"):
        work.using(queue=queue).enqueue()
    assert drain(app, "red").succeeded == 1
    assert drain(app, ["green"]).succeeded == 1
    assert drain(app, {"blue": 2}).succeeded == 1


def test_a_failure_is_recorded_and_not_raised(app: Headway) -> None:
    @app.job
    def breaks() -> None:
        raise ValueError("no")

    job = breaks.enqueue()
    assert str(drain(app)) == "1 retried"
    assert app.get(job.id).status == "scheduled"


def test_with_scheduled_goes_through_retries_and_snoozes_to_the_end(app: Headway) -> None:
    snoozed: list[int] = []

    @app.job(max_attempts=3)
    def breaks() -> None:
        raise ValueError("no")

    @app.job
    def sleeps() -> None:
        if not snoozed:
            snoozed.append(1)
            raise Snooze("3d")

    @app.job
    def again() -> None:
        raise Retry("1h") if not app.get(again_job.id).tries else Cancel("enough")

    breaks.using(delay="2h").enqueue()
    sleeps.enqueue()
    again_job = again.enqueue()
    assert str(drain(app, with_scheduled=True)) == "1 succeeded, 3 retried, 1 snoozed, 1 dead, 1 canceled"
    assert app.counts() == {"succeeded": 1, "dead": 1, "canceled": 1}


def test_with_scheduled_moves_a_held_clock_from_due_time_to_due_time(app: Headway) -> None:
    seen: list[tuple[str, timedelta]] = []

    @app.job
    def note(name: str) -> None:
        seen.append((name, clock.now() - start))

    with held(app) as clock:
        start = clock.now()
        note.using(delay="3d").enqueue("later")
        note.using(delay="5m").enqueue("soon")
        note.enqueue("now")
        assert drain(app, with_scheduled=True).succeeded == 3
    assert seen == [("now", timedelta()), ("soon", timedelta(minutes=5)), ("later", timedelta(days=3))]


def test_with_scheduled_leaves_what_it_could_never_run(app: Headway) -> None:
    @app.job
    def known() -> None: ...

    known.using(queue="paused", delay="1m").enqueue()
    app.pause("paused")
    app.enqueue(new_job("elsewhere", "{}", {"delay": "1m"}, now=app.clock.now()))
    known.using(delay="1m").enqueue()
    assert drain(app, with_scheduled=True).succeeded == 1
    assert app.counts() == {"scheduled": 2, "succeeded": 1}


def test_work_without_an_end_is_refused_by_name(app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drained, "ROUNDS", 5)

    @app.job
    def insomniac() -> None:
        raise Snooze("1m")

    insomniac.enqueue()
    with held(app), pytest.raises(HeadwayError, match="1 of kind insomniac"):
        drain(app, with_scheduled=True)


def test_async_tests_await_adrain(app: Headway) -> None:
    loops: list[object] = []

    @app.job
    async def note() -> None:
        loops.append(asyncio.get_running_loop())

    async def test() -> None:
        await note.aenqueue()
        with pytest.raises(ConfigError, match="await adrain"):
            drain(app)
        assert (await adrain(app)).succeeded == 1
        assert loops == [asyncio.get_running_loop()]
        await app.aclose()

    asyncio.run(test())
