"""`@app.schedule(..., run_on_start=True)`: fires when workers start, too, once for all that start together."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from headway import Headway
from headway.errors import InvalidJob
from headway.testing import drain
from tests.app.conftest import NOON


def hourly(app: Headway, ran: list[Any], **options: Any) -> None:
    @app.schedule("@hourly", payload={"at": "{{schedule.nominal_at}}"}, run_on_start=True, **options)
    @app.job
    def warm(at: str) -> None:
        ran.append(at[11:19])


@pytest.mark.parametrize("catch_up", ["none", "latest", "all"])
def test_it_fires_at_each_start_and_at_its_times(app: Headway, clock: Any, ran: list[Any], catch_up: Any) -> None:
    hourly(app, ran, catch_up=catch_up)
    clock.advance("10m")
    drain(app)
    assert ran == ["12:10:00"]
    clock.advance("10m")
    drain(app)  # all workers had ended: this is another start
    assert ran == ["12:10:00", "12:20:00"]
    schedule = app.get_schedule("warm")
    assert schedule.next_fire_at == NOON + timedelta(hours=1)
    assert [fire.status for fire in app.fires(schedule="warm")] == ["enqueued"] * 2


def test_what_it_catches_up_on_is_its_start(app: Headway, clock: Any, ran: list[Any]) -> None:
    hourly(app, ran)
    drain(app)
    clock.advance("150m")
    drain(app)
    assert ran == ["12:00:00", "14:00:00"]


def test_a_paused_one_does_not_fire(app: Headway, clock: Any, ran: list[Any]) -> None:
    hourly(app, ran)
    drain(app)
    app.pause_schedule("warm")
    clock.advance("10m")
    drain(app)
    assert ran == ["12:00:00"]


def test_many_workers_that_start_together_fire_it_once(url: str, ran: list[Any]) -> None:
    """By the real clock: none of them ends before all have started, and the job is done."""
    app = Headway(url, promote_every="50ms")
    started: list[str] = []

    @app.schedule("0 0 29 2 *", run_on_start=True)
    @app.job
    def warm() -> None:
        ran.append("warm")

    async def fleet() -> None:
        met = asyncio.Event()
        workers = [asyncio.create_task(app.arun()) for _ in range(5)]

        def look(*_: Any) -> None:
            if len(started) == 5 and ran:
                met.set()

        app.on("worker.started", lambda event: (started.append(event.worker_id), look()))
        app.on("job.succeeded", look)
        await asyncio.wait_for(met.wait(), 60)
        await app.arun(until_idle=True)  # a sixth that joins them
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    asyncio.run(fleet())
    assert ran == ["warm"]
    assert len(app.fires(schedule="warm")) == 1
    app.close()


def test_it_is_true_or_false_and_for_the_code_alone(app: Headway) -> None:
    with pytest.raises(InvalidJob, match="run_on_start='yes' must be True or False"):
        app.schedule("@daily", run_on_start="yes")(app.job(lambda: None, name="a"))  # type: ignore[typeddict-item]
    with pytest.raises(InvalidJob, match="run_on_start"):
        app.create_schedule("s", "@daily", kind="a", run_on_start=True)  # type: ignore[call-arg]
