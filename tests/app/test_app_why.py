"""why(): the reasons for a job's status, the weightiest first, each with the way out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from headway import Context, Headway
from headway.define.options import new_job
from headway.model.fleet import NewWorker
from headway.model.ids import new_id
from headway.testing import drain, held

AT = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)


@pytest.fixture
def work(app: Headway) -> Any:
    @app.job(queue="mail", max_attempts=2, backoff=lambda tries: 60)
    def work(fails: bool = False) -> None:
        if fails:
            raise LookupError("no such user")

    return work


def while_working(app: Headway, queue: str, story: Callable[[], Any]) -> None:
    """Run a worker, and the story beside it in a thread."""

    async def both() -> None:
        worker = asyncio.create_task(app.arun(queue))
        while not await app.aworkers():
            await asyncio.sleep(0.002)
        try:
            await asyncio.to_thread(story)
        finally:
            worker.cancel()
            await asyncio.wait([worker])
            await app.aclose()

    asyncio.run(both())


def test_queued(app: Headway, work: Any) -> None:
    first, second = work.enqueue(), work.enqueue()
    assert app.why(first.id).reasons == [
        "no worker listens to queue mail: start one with headway worker module:app --queues mail",
        "it is next in queue mail; 0 of its jobs run now",
    ]
    assert app.why(second.id).reasons[-1] == "1 job of queue mail comes before it, 0 run now"
    with held(app, AT):
        app.pause("mail", actor="ada")
    why = app.why(second.id)
    assert why.reasons[0] == "queue mail was paused by ada at 2031-05-06T07:08:09+00:00: headway queues resume mail"
    assert str(why).startswith(f"job {second.id} is queued\n- queue mail was paused")


def test_queued_of_a_kind_that_no_worker_knows(app: Headway, work: Any) -> None:
    app.pause("mail")
    job = app.enqueue(new_job("elsewhere", "{}", {"queue": "mail"}, now=app.clock.now()))

    def look() -> None:
        assert app.why(job.id).reasons[1] == (
            "no worker on queue mail knows kind elsewhere: start one whose app defines it (known there: work)"
        )

    while_working(app, "mail", look)


def test_scheduled(app: Headway, work: Any) -> None:
    with held(app, AT) as clock:
        job = work.using(delay="5m").enqueue()
        assert app.why(job.id).reasons[0] == "it is scheduled for 2031-05-06T07:13:09+00:00 (in 5m 0s)"
        clock.advance("6m")
        assert "(due now: a worker's next round queues it)" in app.why(job.id).reasons[0]


def test_scheduled_for_another_try(app: Headway, work: Any) -> None:
    with held(app, AT):
        job = work.enqueue(fails=True)
        drain(app)
        assert app.why(job.id).reasons[0] == (
            "it is scheduled for 2031-05-06T07:09:09+00:00 (in 1m 0s) after 1 of 2 tries: LookupError: no such user"
        )


def test_running_on_a_worker_that_is_silent(app: Headway, work: Any) -> None:
    job = work.enqueue()
    worker = NewWorker(
        id=new_id(), hostname="web1", pid=77, machine=None, process_started=None, version="1",
        queues={"mail": 5}, kinds=("work",), concurrency=5, lease_ms=60_000,
    )  # fmt: skip
    ops = app.store.ops
    with held(app, AT) as clock:
        app.store.run(ops.register(worker))
        assert app.store.run(ops.claim(worker.id, "mail", 1))

        def first() -> str:
            return app.why(job.id).reasons[0]

        assert first() == f"it has been running for 0ms on worker {worker.id}"
        clock.advance("29s")
        assert first() == f"it has been running for 29.0s on worker {worker.id}"
        clock.advance("2s")
        assert (
            first() == "its worker on web1 (pid 77) has been silent for 31.0s: if it stays so, its lease ends in 29.0s"
        )
        clock.advance("29s")
        assert first() == (
            "its worker on web1 (pid 77) has been silent for 1m 0s and its lease is over: a live worker takes the job "
            "over in its next round; if none is running, start one"
        )
        assert app.why(job.id).reasons[1] == f"it has been running for 1m 0s on worker {worker.id}"


def test_running_and_asked_to_cancel(app: Headway) -> None:
    seen: list[Any] = []

    @app.job
    def looks(ctx: Context) -> None:
        job = app.get(ctx.job_id)
        seen.append((app.why(ctx.job_id), job.worker_id))
        app.cancel(ctx.job_id)
        seen.append((app.why(ctx.job_id), job.worker_id))

    looks.enqueue()
    drain(app)
    (running, worker), (asked, _) = seen
    assert running.status == asked.status == "running"
    assert len(running.reasons) == 1
    assert running.reasons[0].startswith("it has been running for ")
    assert running.reasons[0].endswith(f" on worker {worker}")
    assert asked.reasons[0] == "it was asked to cancel; its handler has not ended yet"


def test_over(app: Headway, work: Any) -> None:
    at = "2031-05-06T07:08:09+00:00"

    @app.job(delivery="at_most_once")
    def once() -> None:
        raise LookupError("no such user")

    with held(app, AT):
        well, badly = work.enqueue(), work.using(max_attempts=1).enqueue(fails=True)
        canceled, failed = work.using(delay="1h").enqueue(), once.enqueue()
        app.cancel(canceled.id, reason="not needed")
        drain(app)
        assert app.why(well.id).reasons == [f"it succeeded at {at}"]
        assert app.why(badly.id).reasons == [
            f"dead since {at}, after 1 of 1 tries: LookupError: no such user",
            f"to run it again: headway jobs retry {badly.id}",
        ]
        assert app.why(canceled.id).reasons == [
            f"it was canceled at {at}: not needed",
            f"to run it again: headway jobs retry {canceled.id}",
        ]
        assert app.why(failed.id).reasons == [
            f"it failed at {at}: LookupError: no such user",
            f"it is at_most_once, so a new job retries it: headway jobs list --retry-of {failed.id}",
        ]
        (again,) = app.jobs(retry_of=failed.id)
        assert again.status == "scheduled"


def test_over_and_still_with_its_key(app: Headway, work: Any) -> None:
    with held(app, AT) as clock:
        job = work.using(unique_key="7", unique_for="10m").enqueue()
        assert not any("taken until" in reason for reason in app.why(job.id).reasons)
        drain(app)
        told = 'its unique key "7" is taken until 2031-05-06T07:18:09+00:00, for enqueues with unique_for'
        assert app.why(job.id).reasons[1:] == [told]
        clock.advance("10m")
        assert len(app.why(job.id).reasons) == 1
        work.using(unique_key="7", unique_for="10m").enqueue()
        assert len(app.why(job.id).reasons) == 1  # it is another's
