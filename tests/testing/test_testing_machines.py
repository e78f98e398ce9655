"""drain, inline and assert_enqueued with machines."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from headway import Await, Context, Done, Headway, Machine, Next, Replay, Sleep, Spawn, Stop, step
from headway.errors import HeadwayError
from headway.model.outcome import Outcomes
from headway.testing import assert_enqueued, drain, held, inline, refute_enqueued


def checkout(app: Headway) -> type[Machine]:
    @app.machine
    class Checkout(Machine, queue="checkout"):
        class State(msgspec.Struct):
            order: int
            paid: bool = False

        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Await("payment", then=self.ship, timeout="3d")

        @step(queue="warehouse")
        async def ship(self, ctx: Context) -> Outcomes:
            if ctx.timed_out:
                return Stop("never paid")
            return Sleep("2d", then=self.end, state={"order": ctx.state.order, "paid": True})

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done(ctx.state.order)

    return Checkout


def test_drain_takes_machines_as_far_as_they_get(app: Headway) -> None:
    machine = checkout(app)
    first, second = machine.enqueue(order=1), machine.enqueue(order=2)
    assert str(drain(app)) == "2 stepped"
    app.signal(first.id, "payment")
    assert str(drain(app)) == "1 stepped"
    assert (app.get(first.id).status, app.get(second.id).status) == ("scheduled", "waiting")
    # without a clock a sleep is brought forward, and a timeout is not
    assert str(drain(app, with_scheduled=True)) == "1 succeeded"
    assert app.get(second.id).status == "waiting"


def test_with_a_clock_timeouts_and_sleeps_come_in_order_of_time(app: Headway) -> None:
    machine = checkout(app)
    with held(app) as clock:
        began = clock.now()
        first, second = machine.enqueue(order=1), machine.enqueue(order=2)
        drain(app)
        app.signal(first.id, "payment")
        assert str(drain(app, with_scheduled=True)) == "1 succeeded, 1 stepped, 1 failed"
        assert (clock.now() - began).days == 3
    assert (app.get(first.id).result, app.get(second.id).error) == (1, "never paid")


def test_drain_leaves_versions_alone_that_are_not_known_here(app: Headway) -> None:
    machine = checkout(app)
    job = machine.build(order=1)
    assert job.checkpoint is not None
    job = msgspec.structs.replace(job, checkpoint=msgspec.structs.replace(job.checkpoint, version=7))
    app.enqueue(job)
    summary = drain(app, with_scheduled=True)
    assert (summary.succeeded, summary.dead, app.get(job.id).status) == (0, 0, "scheduled")


def test_drain_runs_children_and_the_machine_that_waits_for_them(app: Headway) -> None:
    @app.job(queue="kids")
    def kid(n: int) -> int:
        return n

    @app.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Spawn([kid.build(n) for n in range(3)], then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done([child.result for child in ctx.children])

    job = M.enqueue()
    assert str(drain(app)) == "4 succeeded, 1 stepped"
    assert app.get(job.id).result == [0, 1, 2]


def test_inline_takes_a_machine_to_its_wait_and_a_signal_on_from_there(app: Headway) -> None:
    machine = checkout(app)
    with inline(app):
        job = machine.using(unique_key="order:42").enqueue(order=42)
        assert app.get(job.id).status == "waiting"
        app.signal(job.id, "payment")
        assert app.get(job.id).status == "scheduled"
        other = machine.using(unique_key="order:43", tenant="acme").enqueue(order=43)
        app.tenant("acme").signal(other.id, "payment")
        assert app.get(other.id).status == "scheduled"
        third = machine.using(unique_key="order:44").enqueue(order=44)
        machine.signal("order:44", "payment")
        assert app.get(third.id).status == "scheduled"
    last = machine.enqueue(order=45)
    assert app.get(last.id).status == "queued"
    assert "signal_many" not in vars(app)


def test_inline_works_in_an_event_loop(app: Headway) -> None:
    machine = checkout(app)

    async def test() -> None:
        with inline(app):
            job = await machine.aenqueue(order=1)
            await app.asignal(job.id, "payment")
            assert (await app.aget(job.id)).status == "scheduled"
        await app.aclose()

    asyncio.run(test())


def test_inline_raises_what_a_step_raised_unless_its_handle_took_it(app: Headway) -> None:
    @app.machine
    class Bare(Machine):
        @step
        def start(self, ctx: Context) -> Outcomes:
            return Next(self.breaks)

        @step
        def breaks(self, ctx: Context) -> Outcomes:
            raise LookupError("no order")

    @app.machine
    class Guarded(Machine):
        @step
        def start(self, ctx: Context) -> Outcomes:
            if ctx.state["how"] == "rubbish":
                return None  # type: ignore[return-value]
            raise LookupError("no order")

        @step
        def end(self, ctx: Context) -> Outcomes:
            return Done("saved")

        def handle(self, error: Exception, ctx: Context) -> Outcomes:
            how: dict[str, Any] = {
                "next": Next(self.end),
                "done": Done("saved"),
                "replay": Replay(delay="1h"),
                "wait": Await("help"),
                "stop": Stop(error),
                "rubbish": Done("saved"),
            }
            return how[ctx.state["how"]]  # type: ignore[no-any-return]

    with inline(app):
        with pytest.raises(LookupError, match="no order"):
            Bare.enqueue()
        statuses = {
            how: app.get(Guarded.enqueue(how=how).id).status for how in ("next", "done", "replay", "wait", "rubbish")
        }
        assert statuses == {
            "next": "succeeded",
            "done": "succeeded",
            "replay": "scheduled",
            "wait": "waiting",
            "rubbish": "succeeded",
        }
        with pytest.raises(LookupError, match="no order"):
            Guarded.enqueue(how="stop")


def test_inline_raises_for_a_machine_that_stopped_itself(app: Headway) -> None:
    @app.machine
    class M(Machine):
        @step
        def start(self, ctx: Context) -> Outcomes:
            return Stop("no way")

    with inline(app), pytest.raises(HeadwayError, match="has failed: no way"):
        M.enqueue()


def test_machines_are_found_by_class_and_by_where_they_are(app: Headway) -> None:
    machine = checkout(app)
    machine.enqueue(order=1)
    paid = machine.enqueue(order=2)
    assert_enqueued(app, machine, count=2)
    assert_enqueued(app, machine.kind(), count=1, payload={"order": 1})
    drain(app)
    assert_enqueued(app, machine, status="waiting", awaiting=["payment"], step="ship", count=2)
    app.signal(paid.id, "payment")
    drain(app)
    (job,) = assert_enqueued(app, machine, step="end", state={"paid": True})
    assert job.id == paid.id
    refute_enqueued(app, machine, step="start")
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(app, machine, step="start")
    assert 'of kind "checkout" with step=' in str(caught.value)
    assert "waiting at step ship in queue warehouse" in str(caught.value)
