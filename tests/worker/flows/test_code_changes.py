"""Flows whose code changes while they wait, that are forked, and that begin anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headway import Flow, Headway
from headway.testing import drain
from headway.worker import flow_journal
from tests.worker_harness import WorkerHarness

Operate = Callable[[Flow], Awaitable[Any]]


def one() -> str:
    return "one"


def two() -> str:
    return "two"


CHANGES: dict[str, tuple[Operate, Operate, str]] = {
    "a step by another": (
        lambda flow: flow.step(one),
        lambda flow: flow.step(two),
        "recorded one, asked for two",
    ),
    "the function of a name": (
        lambda flow: flow.using(name="pay").step(one),
        lambda flow: flow.using(name="pay").step(two),
        "recorded pay for another function, and the code asks for two there",
    ),
    "a sleep by a step": (
        lambda flow: flow.sleep(0.001),
        lambda flow: flow.step(two),
        "recorded sleep, asked for two",
    ),
    "a step by a sleep of its name": (
        lambda flow: flow.using(name="sleep").step(one),
        lambda flow: flow.sleep(0.001),
        "recorded sleep as done, and the code asks for a sleep there",
    ),
    "the name of a signal": (
        lambda flow: flow.receive("here"),
        lambda flow: flow.receive("there"),
        "recorded receive:here, asked for receive:there",
    ),
    "two steps of which the first is gone": (
        lambda flow: flow.step(one),
        lambda flow: flow.receive("go"),
        "recorded one, asked for receive:go",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_code_that_asks_for_something_else_does_nothing(harness: WorkerHarness, change: str) -> None:
    before, after, says = CHANGES[change]
    code, further = [before], []

    @harness.flow
    async def f(flow: Flow) -> Any:
        got = await code[0](flow)
        await flow.receive("go")
        further.append(got)
        return got

    (job_id,) = harness.enqueue(f.build())
    harness.signal(job_id, "here", "here")
    harness.drain()
    assert harness.get(job_id).status == "waiting"
    rows = harness.journal(job_id)
    code[0] = after
    harness.signal(job_id, "go")
    harness.drain()
    assert harness.get(job_id).status == "scheduled"
    assert says in (harness.last(job_id).error or "")
    assert (harness.journal(job_id), further) == (rows, [])
    code[0] = before
    harness.make_due(job_id)
    harness.drain()
    assert harness.get(job_id).status == "succeeded"


def test_a_flow_that_waits_while_its_code_is_changed_twice(still: WorkerHarness, clock: Any) -> None:
    """The first change does not fit what it has done, the second does."""
    code = ["first"]
    ran: list[str] = []

    def do(what: str) -> str:
        ran.append(what)
        return what

    @still.flow
    async def f(flow: Flow) -> list[str]:
        if code[0] == "second":
            await flow.using(name="check").step(do, "check")
        got = [await flow.using(name="reserve").step(do, "reserve")]
        await flow.sleep("7d")
        got.append(await flow.using(name="charge").step(do, f"charge by the {code[0]}"))
        return got

    (job_id,) = still.enqueue(f.build())
    still.drain()
    clock.advance("3d")
    code[0] = "second"
    still.drain()
    clock.advance("5d")
    for _ in range(3):  # looked at again, ever more rarely
        still.drain()
        assert still.get(job_id).status == "scheduled"
        clock.advance("10m")
    assert ran == ["reserve"]
    code[0] = "third"
    still.drain()
    assert still.get(job_id).result == ["reserve", "charge by the third"]
    assert ran == ["reserve", "charge by the third"]


def test_a_run_keeps_to_the_version_that_it_began_with(harness: WorkerHarness) -> None:
    """Two patches, one of them in tasks, asked about before and after a wait and a deploy."""

    def deploy(version: int) -> Any:
        harness.registry = type(harness.registry)()

        @harness.registry.flow(name="f", version=version, since=1)
        async def f(flow: Flow) -> list[Any]:
            async def branch(n: int) -> list[Any]:
                got = [n]
                if flow.version >= 2:
                    got.append(await flow.using(name=f"new-{n}").step(int))
                await flow.receive(f"go-{n}")
                return [*got, flow.version >= 2]

            both = await asyncio.gather(branch(1), branch(2))
            return [*both, "third" if flow.version >= 3 else "second" if flow.version >= 2 else "first"]

        return f

    runs = []
    for version in (1, 2, 3):
        runs += harness.enqueue(deploy(version).build())
        harness.drain()
        if version == 2:
            for job_id in runs:
                harness.signal(job_id, "go-1")
            harness.drain()
    for job_id in runs:
        assert harness.get(job_id).status == "waiting"
        for n in (1, 2):
            harness.signal(job_id, f"go-{n}")
    harness.drain()
    assert [harness.get(job_id).result for job_id in runs] == [
        [[1, False], [2, False], "first"],
        [[1, 0, True], [2, 0, True], "second"],
        [[1, 0, True], [2, 0, True], "third"],
    ]
    assert [[place for _, place in harness.journal(job_id) if "new" in place] for job_id in runs] == [
        [],
        ["new-1", "new-2"],
        ["new-1", "new-2"],
    ]


def test_a_fork_and_a_fork_of_it_begin_at_any_place(app: Headway) -> None:
    ran: list[str] = []

    def do(what: str) -> str:
        ran.append(what)
        return what

    @app.job
    def pack(what: str) -> str:
        ran.append(what)
        return what

    @app.flow
    async def f(flow: Flow) -> list[Any]:
        first = await flow.using(name="first").step(do, "first")
        told = await flow.receive("go")
        both = await asyncio.gather(flow.using(name="second").step(do, "second"), flow.call(pack, what="packed"))
        last = await flow.using(name="last").step(do, "last")
        return [first, told, *both, last]

    job = f.enqueue()
    app.signal(job.id, "go", 1)
    drain(app)
    assert app.result(job.id).value == ["first", 1, "second", "packed", "last"]
    again = {
        "first": {"first", "second", "packed", "last"},
        "receive:go": {"second", "packed", "last"},
        "last": {"last"},
    }
    for place, runs in again.items():
        source = job.id
        for n in (2, 3):  # the second is a fork of the first
            ran.clear()
            fork = app.fork(source, before=place)
            app.signal(fork.id, "go", n)
            drain(app)
            told = 1 if place == "last" else n
            assert app.result(fork.id).value == ["first", told, "second", "packed", "last"]
            assert (set(ran), len(ran)) == (runs, len(runs))
            assert app.get(fork.id).forked_from == source
            source = fork.id


def test_a_loop_that_never_ends_begins_anew_again_and_again(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id, keys and unread signals stay, and its journal does not grow."""
    monkeypatch.setattr(flow_journal, "MOST_ROWS", 12)
    seen: list[int] = []

    @harness.flow
    async def f(flow: Flow, total: int = 0) -> int:
        for _ in range(2):
            name, payload = await flow.receive(["add", "end"])
            if name == "end":
                return total
            total += await flow.step(abs, payload)
        seen.append(total)
        return flow.restart(total=total)

    (job_id,) = harness.enqueue(f.using(unique_key="k", tags=["meter"]).build())
    harness.drain()
    for n in range(1, 32):
        harness.signal(job_id, "add", -n)
    harness.drain()
    assert harness.get(job_id).status == "waiting"
    assert harness.enqueue(f.using(unique_key="k").build()) == [job_id]
    harness.signal(job_id, "end")
    harness.drain()
    job = harness.get(job_id)
    assert (job.status, job.result, job.tags) == ("succeeded", sum(range(32)), ("meter",))
    assert seen == [sum(range(n + 1)) for n in range(2, 32, 2)]


def test_a_journal_that_does_grow_ends_with_what_to_do(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch, lines: Any
) -> None:
    monkeypatch.setattr(flow_journal, "MOST_ROWS", 12)

    @harness.flow
    async def f(flow: Flow) -> None:
        while True:
            await flow.step(one)

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    job = harness.get(job_id)
    assert (job.status, len(harness.journal(job_id))) == ("dead", 12)
    assert "flow.restart" in (job.error or "")
    assert len(lines("becomes long")) == 1


def test_a_finished_flow_answers_from_its_row(app: Headway) -> None:
    ran: list[int] = []

    @app.flow
    async def f(flow: Flow) -> str:
        ran.append(await flow.step(len, "abc"))
        return "done"

    keyed = f.using(idempotency_key="order 42")
    job = keyed.enqueue()
    drain(app)
    assert keyed.enqueue().id == job.id
    drain(app)
    assert (app.result(job.id).value, ran) == ("done", [3])
