"""stepping: a machine goes as far as the test lets it, one step at a time, on a real database."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from headway import Await, Context, Done, Headway, Machine, Next, Replay, Retry, Sleep, Spawn, Stop, step
from headway.errors import ConfigError, HeadwayError, InvalidJob, NotAllowed, NotFound
from headway.model.outcome import Outcomes
from headway.testing import drain, held, stepped, stepping


def checkout(app: Headway) -> type[Machine]:
    @app.machine
    class Checkout(Machine, queue="checkout"):
        class State(msgspec.Struct):
            order: int
            paid: int = 0

        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Await("payment", then=self.check, timeout="3d")

        @step
        def check(self, ctx: Context) -> Outcomes:
            if ctx.timed_out:
                return Stop("never paid")
            ctx.state.paid = ctx.signals[0].payload["amount"]
            return Next(self.ship)

        @step(queue="warehouse")
        async def ship(self, ctx: Context) -> Outcomes:
            return Sleep("2h", then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done({"shipped": ctx.state.order})

    return Checkout


def test_a_machine_goes_exactly_one_step_at_a_time(app: Headway) -> None:
    machine = checkout(app)
    with held(app):
        order = stepping(app, machine, order=42)
        assert (order.status, order.at, order.path, order.state) == ("queued", "start", [], machine.State(42))
        execution = order.step()
        assert (execution.step, execution.outcome, execution.status) == ("start", "await", "succeeded")
        assert (order.status, order.at, order.waits_for) == ("waiting", "check", ("payment",))
        sent = order.signal("payment", {"amount": 100}, dedup_key="evt")
        assert sent.created
        assert not order.signal("payment", {"amount": 100}, dedup_key="evt").created
        assert (order.status, order.waits_for) == ("queued", ())
        execution = order.step()
        assert (execution.outcome, execution.signals, execution.woken) == ("next", ("payment",), "signal")
        # the next step did not follow at once
        assert (order.status, order.at, order.job.queue) == ("queued", "ship", "warehouse")
        assert order.state == machine.State(42, paid=100)
        assert order.step().outcome == "sleep"
        assert order.advance("1h") == "scheduled"
        assert order.advance("1h") == "queued"
        assert order.step().outcome == "done"
        assert (order.status, order.result, order.error) == ("succeeded", {"shipped": 42}, None)
        assert order.path == ["start", "check", "ship", "end"]
        assert order.outcomes == ["await", "next", "sleep", "done"]
        assert [signal.status for signal in order.signals] == ["consumed"]
        order.assert_path("start", "check", "ship", "end")
        assert "checkout" in repr(order)


def test_run_goes_on_until_it_waits(app: Headway) -> None:
    with held(app):
        order = stepping(app, checkout(app).using(unique_key="order:42"), order=42)
        assert order.job.unique_key == "order:42"
        assert order.run() == "waiting"
        assert order.run() == "waiting"
        order.advance("3d")
        assert order.run() == "failed"
        assert (order.error, order.path) == ("never paid", ["start", "check"])
        assert order.history[-1].woken == "timeout"


def test_only_this_machine_goes_on(app: Headway) -> None:
    machine = checkout(app)
    other = machine.enqueue(order=1)
    order = stepping(app, machine.build(order=2))
    assert stepping(app, machine, machine.State(3)).state == machine.State(3)
    order.run()
    assert app.get(other.id).status == "queued"
    taken_up = stepping(app, other)
    assert stepping(app, other.id).id == taken_up.id
    taken_up.step()
    assert taken_up.status == "waiting"
    with pytest.raises(InvalidJob, match="has its state already"):
        stepping(app, other, order=7)
    with pytest.raises(NotFound):
        stepping(app, "01a1de9a-6cc6-7647-97fb-177344aedd0d")


def test_what_cannot_go_on_says_what_it_waits_for(app: Headway) -> None:
    @app.job
    def kid() -> None: ...

    @app.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Await(["a", "b"], then=self.sleep, match="all", timeout="1d")

        @step
        async def sleep(self, ctx: Context) -> Outcomes:
            return Sleep("1h", then=self.spawn)

        @step
        async def spawn(self, ctx: Context) -> Outcomes:
            return Spawn([kid.build()], then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Stop("over")

    with held(app):
        m = stepping(app, M)
        m.run()
        with pytest.raises(NotAllowed, match=r"it waits for a and b, or until 20.*\.signal"):
            m.step()
        m.signal("a")
        m.signal("b")
        m.run()
        with pytest.raises(NotAllowed, match=r"it is scheduled for 20.*\.advance"):
            m.step()
        m.advance("1h")
        m.run()
        with pytest.raises(NotAllowed, match=r"it waits for its children; \.run_children"):
            m.step()
        m.run_children()
        m.run()
        with pytest.raises(NotAllowed, match=r"it has failed \(over\)"):
            m.step()
        held_back = stepping(app, M.using(after=kid.using(delay="1h").enqueue()))
        with pytest.raises(NotAllowed, match="is held"):
            held_back.step()
    with pytest.raises(ConfigError, match=r"the time is not held.*with held\(app\)"):
        m.advance("1h")


def test_children_run_by_themselves_and_their_errors_are_for_the_next_step(app: Headway) -> None:
    @app.job(max_attempts=1, queue="kids")
    def kid(n: int) -> int:
        if n == 2:
            raise ValueError("two")
        return n

    @app.machine
    class Waiter(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Done("waited") if ctx.signals else Await("go")

    @app.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Spawn([kid.build(1), kid.build(2), Waiter.build()], then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done([child.result for child in ctx.children])

    m = stepping(app, M)
    assert m.run() == "waiting"
    assert [child.status for child in m.children] == ["queued"] * 3
    assert [child.status for child in m.run_children()] == ["succeeded", "dead", "waiting"]
    assert m.status == "waiting"
    inner = stepping(app, m.children[2].id)
    inner.signal("go")
    inner.run()
    assert m.run() == "succeeded"
    assert m.result == [1, None, "waited"]
    assert m.path == ["start", "end"]


def test_what_a_step_raises_is_recorded_and_raised(app: Headway) -> None:
    error = LookupError("no such order")

    @app.machine
    class M(Machine, max_attempts=3):
        @step
        def start(self, ctx: Context) -> Outcomes:
            if ctx.tries == 0:
                raise error
            if ctx.tries == 1:
                raise Retry("1m", "busy")
            return Next(self.end)

        @step
        def end(self, ctx: Context) -> Outcomes:
            return "rubbish"  # type: ignore[return-value]

    with held(app):
        m = stepping(app, M)
        with pytest.raises(LookupError) as caught:
            m.step()
        assert caught.value is error
        assert (m.status, m.job.tries) == ("scheduled", 1)
        m.advance("1h")
        execution = m.step()
        assert (execution.outcome, execution.status, execution.error) == (None, "failed", "busy")
        m.advance("1h")
        with pytest.raises(HeadwayError, match=r"step end failed: m.end returned 'rubbish'"):
            m.run()
        assert m.path == ["start", "end"]
        assert m.outcomes == ["failed", "failed", "next", "failed"]


def test_what_handle_takes_is_not_raised(app: Headway) -> None:
    @app.machine
    class M(Machine):
        @step
        def start(self, ctx: Context) -> Outcomes:
            raise ValueError("no")

        @step
        def end(self, ctx: Context) -> Outcomes:
            raise KeyError("worse")

        def handle(self, error: Exception, ctx: Context) -> Outcomes:
            if ctx.step == "end":
                raise OSError("cannot handle that")
            return Replay() if ctx.tries == 0 else Next(self.end)

    m = stepping(app, M)
    assert m.step().outcome == "replay"
    execution = m.step()
    assert (execution.outcome, execution.status) == ("next", "failed")
    with pytest.raises(KeyError, match="worse") as caught:
        m.run()
    assert "cannot handle that" in "".join(caught.value.__notes__)
    assert (m.status, m.path, m.outcomes) == ("dead", ["start", "end"], ["replay", "next", "failed"])


def test_a_timeout_is_raised_too(app: Headway) -> None:
    @app.machine
    class M(Machine):
        @step(timeout="20ms")
        async def start(self, ctx: Context) -> Outcomes:
            await asyncio.sleep(30)
            return Done()

    with pytest.raises(HeadwayError, match="step start failed: timed out after 20ms"):
        stepping(app, M).step()


def test_a_wrong_path_is_shown_with_its_history(app: Headway) -> None:
    with held(app):
        order = stepping(app, checkout(app), order=42)
        order.run()
        order.advance("3d")
        order.run()
        with pytest.raises(AssertionError) as caught:
            order.assert_path("start", "check", "ship")
    message = str(caught.value)
    assert "expected checkout to go through start → check → ship, and it went through start → check:" in message
    assert "  1: start: await payment, at most 3d" in message
    assert "  2: check, woken by timeout: stop (never paid)" in message
    assert "now failed at check" in message


def test_the_path_of_what_ran_under_a_worker_can_be_checked_too(app: Headway) -> None:
    machine = checkout(app)
    job = machine.enqueue(order=7)
    drain(app)
    stepping(app, job).assert_path("start")


def test_it_works_in_an_event_loop(app: Headway) -> None:
    machine = checkout(app)

    async def test() -> None:
        order = stepping(app, machine, order=42)
        with pytest.raises(ConfigError, match=r"await machine.astep\(\)"):
            order.step()
        assert (await order.astep()).outcome == "await"
        order.signal("payment", {"amount": 1})
        assert await order.arun() == "scheduled"
        await app.aclose()

    asyncio.run(test())


def test_an_endless_machine_is_found_out(app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepped, "STEPS", 5)

    @app.machine
    class Forever(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Next(self.start)

    with pytest.raises(HeadwayError, match="after 5 steps it still goes on"):
        stepping(app, Forever).run()


def test_middleware_and_lifespan_take_part(app: Headway) -> None:
    seen: list[Any] = []
    app.on_startup(lambda: seen.append("up"))

    @app.middleware
    async def watch(ctx: Context, call_next: Any) -> Any:
        seen.append(ctx.step)
        return await call_next()

    m = stepping(app, checkout(app), order=1)
    m.step()
    assert seen == ["up", "start"]


def test_a_state_without_a_known_version_is_shown_as_it_is_stored(app: Headway) -> None:
    machine = checkout(app)
    job = machine.build(order=7)
    assert job.checkpoint is not None
    job = msgspec.structs.replace(job, checkpoint=msgspec.structs.replace(job.checkpoint, version=9))
    m = stepping(app, job)
    assert m.state == {"order": 7}
    with pytest.raises(NotAllowed, match="knows no step start in version 9 of checkout"):
        m.step()
