"""perform_step: one step of a machine, without a database, with the state, signals and children of the test."""

from __future__ import annotations

import asyncio
import doctest
import importlib
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from headway import Await, Context, Done, Machine, Next, Registry, Replay, Retry, Signal, Spawn, Stop, step
from headway.errors import ConfigError, InvalidJob, InvalidOutcome, InvalidPayload
from headway.model.machine import Child
from headway.model.outcome import Outcomes
from headway.testing import aperform_step, perform, perform_step, step_context

registry = Registry()


class Order(msgspec.Struct):
    order: int
    paid: int = 0


@registry.job
def kid() -> None: ...


@registry.machine
class Checkout(Machine):
    State = Order

    @step
    async def start(self, ctx: Context) -> Outcomes:
        return Await("payment", then=self.check, timeout="3d")

    @step(max_attempts=9)
    def check(self, ctx: Context) -> Outcomes:
        if ctx.timed_out:
            return Stop(f"never paid, but {[signal.name for signal in ctx.signals]}")
        ctx.state.paid = sum(signal.payload for signal in ctx.signals)
        return Next(self.gather)

    @step
    def gather(self, ctx: Context) -> Outcomes:
        return Done([[child.status, child.result, child.error] for child in ctx.children])

    @step
    def odd(self, ctx: Context) -> Any:
        match ctx.state.order:
            case 1:
                return None
            case 2:
                raise LookupError("two")
            case 3:
                return Done(object())
            case 4:
                return Spawn((kid.build() for _ in range(2)), then="gather")  # type: ignore[arg-type]
            case 5:
                return Replay(delay="1m")
            case _:
                return Done([ctx.tries, ctx.queue, ctx.meta, len(ctx.inbox), ctx.step])

    def handle(self, error: Exception, ctx: Context) -> Outcomes:
        return Replay() if ctx.tries < 2 else Stop(error)


def test_the_outcome_can_be_compared() -> None:
    assert perform_step(Checkout, state={"order": 42}) == Await("payment", "check", Order(42), "3d")
    assert perform_step(Checkout, "check", state=Order(42), signals=[("payment", 100), ("payment", 20)]) == Next(
        "gather", Order(42, paid=120)
    )
    assert perform_step(Checkout, "odd", state={"order": 5}) == Replay(Order(5), "1m")
    outcome = perform_step(Checkout.using(queue="other"), "odd", state={"order": 4})
    assert isinstance(outcome, Spawn)
    assert [job.kind for job in outcome.children] == ["kid", "kid"]


def test_a_timeout_may_come_with_some_of_the_signals() -> None:
    assert perform_step(Checkout, "check", state={"order": 1}, timed_out=True) == Stop("never paid, but []")
    outcome = perform_step(Checkout, "check", state={"order": 1}, timed_out=True, signals=["half"])
    assert outcome == Stop("never paid, but ['half']")


def test_children_are_results_errors_or_what_they_were() -> None:
    there = Child(id="x", kind="kid", status="canceled", result=None, error="gone")
    outcome = perform_step(Checkout, "gather", state={"order": 1}, children=[{"n": 1}, ValueError("no"), there])
    assert outcome == Done(
        [["succeeded", {"n": 1}, None], ["dead", None, "ValueError: no"], ["canceled", None, "gone"]]
    )


def test_the_rest_of_the_context_is_as_given() -> None:
    signal = Signal(
        id="x",
        job_id="y",
        name="other",
        payload=1,
        dedup_key=None,
        sent_at=datetime(2031, 5, 6, tzinfo=UTC),
        status="pending",
        consumed_at=None,
        fence=None,
    )
    outcome = perform_step(
        Checkout, "odd", state={"order": 9}, inbox=[signal, "more"], tries=3, queue="q", meta={"a": 1}
    )
    assert outcome == Done([3, "q", {"a": 1}, 2, "odd"])
    ctx = step_context(Checkout, "check", state={"order": 1}, tenant="acme")
    assert (ctx.tenant, ctx.claim.max_attempts, ctx.signals) == ("acme", 9, ())


def test_a_handle_can_be_called_with_a_context() -> None:
    assert Checkout().handle(ValueError("no"), step_context(Checkout, state={"order": 1}, tries=1)) == Replay()
    error = ValueError("no")
    assert Checkout().handle(error, step_context(Checkout, state={"order": 1}, tries=2)) == Stop(error)


def test_what_a_step_raises_or_returns_wrongly_is_raised() -> None:
    with pytest.raises(LookupError, match="two"):
        perform_step(Checkout, "odd", state={"order": 2})
    with pytest.raises(InvalidOutcome, match=r"checkout.odd returned nothing"):
        perform_step(Checkout, "odd", state={"order": 1})
    with pytest.raises(InvalidPayload, match="result"):
        perform_step(Checkout, "odd", state={"order": 3})
    with pytest.raises(InvalidJob, match="has no step 'shipp': it has start, check, gather, odd"):
        perform_step(Checkout, "shipp", state={"order": 3})
    with pytest.raises(InvalidJob, match="the field order of its state is missing"):
        perform_step(Checkout)
    with pytest.raises(InvalidPayload):
        perform_step(Checkout, "check", state={"order": 1}, signals=[("payment", object())])


def test_an_outcome_that_a_step_settles_counts_and_not_what_it_returns() -> None:
    @Registry().machine
    class Paying(Machine):
        State = Order

        @step
        def start(self, ctx: Context) -> Outcomes:
            ctx.state.paid += 1
            ctx.settle(Next(self.ship), conn=None)
            return Done("ignored")

        @step
        async def ship(self, ctx: Context) -> Outcomes:
            await ctx.asettle(Retry("1m", "not yet") if ctx.state.order == 1 else "shipped", conn=None)
            return Done("ignored")

    assert perform_step(Paying, state={"order": 1}) == Next("ship", state=Order(1, 1))
    with pytest.raises(Retry):
        perform_step(Paying, "ship", state={"order": 1})
    with pytest.raises(InvalidOutcome, match="shipped"):
        perform_step(Paying, "ship", state={"order": 2})


def test_perform_is_for_plain_jobs() -> None:
    for machine in (Checkout, Checkout.kind()):
        with pytest.raises(InvalidJob, match=r"is a machine: use perform_step\("):
            perform(machine, order=1)  # type: ignore[arg-type]


def test_it_works_in_an_event_loop() -> None:
    async def test() -> None:
        with pytest.raises(ConfigError, match="await aperform_step"):
            perform_step(Checkout, state={"order": 1})
        outcome = await aperform_step(Checkout, state={"order": 1})
        assert isinstance(outcome, Await)
        assert await aperform_step(Checkout, "gather", state={"order": 1}) == Done([])

    asyncio.run(test())


def test_the_examples_of_the_docstrings_run() -> None:
    result = doctest.testmod(importlib.import_module("headway.testing.one_step"))
    assert result.attempted > 0
    assert result.failed == 0
