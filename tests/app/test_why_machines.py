"""why() of machines: what they wait for, until when, and the way out; and who does not know their version or step."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from headway import Await, Done, Headway, Machine, Next, Replay, Sleep, Spawn, Stop, step
from headway.model.fleet import NewWorker
from headway.model.ids import new_id
from headway.testing import drain, held

AT = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
SINCE = "2031-05-06T07:08:09+00:00"
NOBODY = "no worker listens to queue checkout: start one with headway worker module:app --queues checkout"


@pytest.fixture
def checkout(app: Headway) -> type[Machine]:
    @app.job(queue="labels")
    def label(parcel: int) -> None: ...

    @app.machine
    class Checkout(Machine, version=2, queue="checkout", max_attempts=1):
        @step
        async def start(self, ctx: Any) -> Any:
            match ctx.state["way"]:
                case "any":
                    return Await(["payment", "cancel"], then=self.paid, timeout="3d")
                case "all":
                    return Await(["payment", "stock"], then=self.paid, match="all")
                case "children":
                    return Spawn([label.build(parcel=n) for n in range(ctx.state["count"])], then=self.paid)
                case "sleep":
                    return Sleep("2d", then=self.paid)
                case "replay":
                    return Replay(delay="5m")
                case "stop":
                    return Stop("never paid")
                case "next":
                    return Next(self.paid)
            raise LookupError("no such way")

        @step
        async def paid(self, ctx: Any) -> Any:
            return Done()

    return Checkout


def on_queue(app: Headway, *kinds: str) -> str:
    """A worker that knows these kinds, and does nothing."""
    worker = NewWorker(
        id=new_id(), hostname="elsewhere", pid=7, machine=None, process_started=None, version="1",
        queues={"checkout": 5}, kinds=kinds, concurrency=5, lease_ms=600_000,
    )  # fmt: skip
    app.store.run(app.store.ops.register(worker))
    return worker.id


def test_waiting_for_any_of_some_signals(app: Headway, checkout: type[Machine]) -> None:
    with held(app, AT) as clock:
        job = checkout.enqueue(way="any")
        drain(app, "checkout")
        clock.advance("21h")
        assert app.why(job.id).reasons == [
            f"it waits for signal payment or cancel since {SINCE} (21h 0m), until 2031-05-09T07:08:09+00:00 "
            f"(in 2d 3h), then step paid runs: headway machines signal {job.id} payment",
            NOBODY,
        ]
        app.signal(job.id, "refund")
        app.signal(job.id, "paymnet")
        assert app.why(job.id).reasons[1] == (
            "its inbox has signals that it does not await now (refund, paymnet); they stay for a later await: "
            f"headway machines inbox {job.id}"
        )


def test_waiting_for_all_of_some_signals(app: Headway, checkout: type[Machine]) -> None:
    with held(app, AT):
        job = checkout.enqueue(way="all")
        drain(app, "checkout")
        app.signal(job.id, "payment")
        assert app.why(job.id).reasons[0] == (
            f"it waits for signals payment and stock (payment has arrived) since {SINCE} (0ms), without a timeout, "
            f"then step paid runs: headway machines signal {job.id} stock"
        )


def test_waiting_for_what_is_there(app: Headway, checkout: type[Machine]) -> None:
    job = checkout.enqueue(way="any")
    drain(app, "checkout")
    app.signal(job.id, "payment")
    if app.store.dialect == "sqlite":
        assert app.get(job.id).status == "queued"  # there a signal wakes at once
        return
    assert app.why(job.id).reasons == [
        "what it waits for has arrived (payment): a worker's next claim or round queues step paid",
        NOBODY,
    ]


def test_a_deadline_that_is_over(app: Headway, checkout: type[Machine]) -> None:
    with held(app, AT) as clock:
        job = checkout.enqueue(way="any")
        drain(app, "checkout")
        clock.advance("4d")
        assert "(over: a worker's next round wakes it)" in app.why(job.id).reasons[0]


def test_waiting_for_children(app: Headway, checkout: type[Machine]) -> None:
    with held(app, AT):
        job = checkout.enqueue(way="children", count=8)
        drain(app, "checkout")
        children = app.children(job.id)
        app.cancel(children[0].id)
        named = ", ".join(f"{child.id} (label, queued)" for child in children[1:6])
        assert app.why(job.id).reasons == [
            f"it waits for 7 of 8 children since {SINCE} (0ms), then step paid runs: {named} and 2 more: "
            f"headway jobs why {children[1].id}, or headway jobs list --parent {job.id}",
            NOBODY,
        ]
        one = checkout.enqueue(way="children", count=1)
        drain(app, "checkout")
        assert app.why(one.id).reasons[0].startswith(f"it waits for its child since {SINCE} (0ms), then step paid")


def test_asleep(app: Headway, checkout: type[Machine]) -> None:
    with held(app, AT) as clock:
        sleeps, replays = checkout.enqueue(way="sleep"), checkout.enqueue(way="replay")
        drain(app, "checkout")
        assert app.why(sleeps.id).reasons == [
            "it sleeps until 2031-05-08T07:08:09+00:00 (in 2d 0h), then step paid runs: "
            f"headway jobs change {sleeps.id} --scheduled-for now runs it at once",
            NOBODY,
        ]
        assert app.why(replays.id).reasons[0] == (
            "step start runs again at 2031-05-06T07:13:09+00:00 (in 5m 0s): "
            f"headway jobs change {replays.id} --scheduled-for now runs it at once"
        )
        app.change(sleeps.id, scheduled_for=None)
        drain(app, "checkout")
        assert app.get(sleeps.id).status == "succeeded"
        clock.advance("1h")
        assert "(due now: a worker's next round queues it)" in app.why(replays.id).reasons[0]


def test_dead(app: Headway, checkout: type[Machine]) -> None:
    with held(app, AT):
        stopped, failed = checkout.enqueue(way="stop"), checkout.enqueue(way="?")
        drain(app, "checkout")
        assert app.why(stopped.id).reasons == [
            f"it stopped itself in step start at {SINCE}: never paid",
            f"to run step start again: headway jobs retry {stopped.id}",
            f"to start another machine from an earlier step: headway machines fork {stopped.id} --at FENCE "
            f"(headway machines show {stopped.id})",
        ]
        assert app.why(failed.id).reasons[0] == (
            f"dead since {SINCE}, after 1 failed try of step start: LookupError: no such way"
        )


def test_a_version_that_no_worker_has(app: Headway, checkout: type[Machine]) -> None:
    job = checkout.enqueue(way="next")
    on_queue(app, "checkout", "checkout@1", "other", "other@2")
    assert app.why(job.id).reasons[0] == (
        "no worker on queue checkout has version 2 of machine checkout (known there: 1): start one whose app has it, "
        "or give a newer version a migrate_from"
    )
    worker = on_queue(app, "checkout", "checkout@3")
    assert app.why(job.id).reasons[0] == (
        "no worker on queue checkout has version 2 of machine checkout, but 1, 3: it runs if that one migrates it "
        "(migrate_from)"
    )
    (claim,) = app.store.run(app.store.ops.claim(worker, "checkout", 1))
    app.store.run(app.store.ops.release([(claim.id, claim.fence)], delay_ms=30_000))
    assert "(known there: 1, 3): start one whose app has it" in app.why(job.id).reasons[1]
    on_queue(app, "checkout", "checkout@2")
    assert not any("version" in reason for reason in app.why(checkout.enqueue(way="next").id).reasons)


def test_a_step_that_a_worker_does_not_know(app: Headway, checkout: type[Machine]) -> None:
    job = checkout.enqueue(way="next")
    worker = on_queue(app, "checkout", "checkout@2")
    for _ in range(2):
        (claim,) = app.store.run(app.store.ops.claim(worker, "checkout", 1))
        app.store.run(app.store.ops.release([(claim.id, claim.fence)], delay_ms=0))
    assert app.why(job.id).reasons[0] == (
        'workers gave it back unstarted 2 times: they do not know step "start" of version 2 of machine '
        "checkout, or their State does not fit what the machine committed; their log says which. "
        "Start one whose code has it"
    )


def test_a_kind_that_no_worker_knows_names_kinds_without_versions(app: Headway, checkout: type[Machine]) -> None:
    job = checkout.enqueue(way="next")
    on_queue(app, "other", "other@1")
    assert app.why(job.id).reasons[0] == (
        "no worker on queue checkout knows kind checkout: start one whose app defines it (known there: other)"
    )


def test_running(app: Headway, checkout: type[Machine]) -> None:
    job = checkout.enqueue(way="next")
    worker = on_queue(app, "checkout", "checkout@2")
    app.store.run(app.store.ops.claim(worker, "checkout", 1))
    (reason,) = app.why(job.id).reasons
    assert reason.startswith("step start has been running for ")
    assert reason.endswith(f"on worker {worker}")
