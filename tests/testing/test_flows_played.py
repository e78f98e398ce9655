"""Flows in unit tests: played in memory with given steps, stepped through, replayed from a journal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headway import Flow, Headway, Registry, SyncFlow
from headway.errors import ChildFailed, FlowChanged, FlowMisused, InvalidJob, StepFailed
from headway.testing import drain, play, playing, replay

shop = Registry()


def reserve(order: int) -> int:
    return order * 10


async def charge(amount: int) -> str:
    return f"charged {amount}"


@shop.job
def pack(order: int) -> str:
    return f"packed {order}"


@shop.flow(max_attempts=2)
async def checkout(flow: Flow, order: int) -> list[Any]:
    stock = await flow.step(reserve, order)
    paid = await flow.receive("payment", timeout="3d")
    if paid is None:
        flow.fail("never paid")
    flow.set(stage="paid")
    both = await asyncio.gather(flow.step(charge, paid), flow.call(pack, order=order))
    await flow.sleep("14d")
    return [stock, *both]


@shop.flow
def plainly(flow: SyncFlow, order: int) -> list[Any]:
    stock = flow.step(reserve, order)
    flow.sleep("1d")
    return [stock, flow.receive("go")]


def test_steps_run_or_give_what_the_test_says() -> None:
    job = checkout.build(order=4)
    given = {"pack": "parcel", "charge": lambda amount: f"fake {amount}"}
    assert play(job, checkout, steps=given, signals=[("payment", 7)]) == [40, "fake 7", "parcel"]
    assert play(plainly.build(order=1), plainly, signals=[("go", 2)]) == [10, 2]


def test_it_goes_step_by_step() -> None:
    it = playing(checkout.build(order=4), checkout, steps={"pack": "parcel"})
    assert it.waits_for == ["reserve"]
    played = it.next()
    assert played is not None
    assert (played.place, played.kind, played.value) == ("reserve", "done", 40)
    assert it.waits_for == ["receive:payment"]
    it.signal("payment", 1)
    assert it.run() == [40, "charged 1", "parcel"]
    assert it.values == {"stage": "paid"}
    assert [each.place for each in it.trail] == ["reserve", "receive:payment", "charge", "call:pack", "sleep"]


def test_errors_are_what_a_worker_would_give() -> None:
    with pytest.raises(StepFailed, match="charge failed 2 times: ValueError: declined"):
        play(
            checkout.build(order=1),
            checkout,
            steps={"charge": ValueError("declined"), "pack": 1},
            signals=[("payment", 1)],
        )
    with pytest.raises(ChildFailed, match="no box"):
        play(checkout.build(order=1), checkout, steps={"pack": ValueError("no box")}, signals=[("payment", 1)])
    with pytest.raises(InvalidJob, match="calls pack: say what it gives"):
        play(checkout.build(order=1), checkout, signals=[("payment", 1)])


def test_a_signal_that_is_missing_is_named_or_times_out() -> None:
    with pytest.raises(Exception, match="never paid"):
        play(checkout.build(order=1), checkout)
    with pytest.raises(FlowMisused, match="receive:go"):
        play(plainly.build(order=1), plainly)


def test_a_stored_flow_is_replayed_against_the_code(tmp_path: Path) -> None:
    app = Headway(f"sqlite:///{tmp_path}/replay.db")
    code = ["reserve"]

    def tax(order: int) -> int:
        return order

    @app.flow
    async def f(flow: Flow, order: int) -> int:
        got = await flow.step({"reserve": reserve, "tax": tax}[code[0]], order + len(code) - 1)
        await flow.receive("go")
        return got

    job = f.enqueue(order=3)
    drain(app)
    assert replay(app, job.id) == []
    code.append("more")
    assert replay(app, job.id) == ["reserve"]
    code[:] = ["tax"]
    with pytest.raises(FlowChanged, match="recorded reserve, asked for tax"):
        replay(app, job.id)
    assert app.get(job.id).status == "waiting"
