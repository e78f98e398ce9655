"""perform: one handler in isolation, its arguments written and read as a worker would."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headway import Call, Cancel, Context, Done, Machine, Next, Registry, Snooze, step
from headway.errors import ConfigError, InvalidArtifact, InvalidJob, InvalidOutcome, InvalidPayload, NotAllowed
from headway.testing import aperform, aperform_step, artifacts_of, context, perform, perform_step, step_context

shop = Registry()


@dataclass
class Order:
    number: int
    at: datetime


@shop.job(queue="mail", max_attempts=7)
def ship(order: Order, ctx: Context, note: str = "none") -> list[Any]:
    ctx.progress(0.5, "half")
    ctx.log("shipped")
    return [type(order).__name__, order.at, note, ctx.kind, ctx.queue, ctx.tries, ctx.meta, ctx.canceled]


@shop.job
async def ask(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


def test_arguments_arrive_as_they_would_at_a_worker() -> None:
    at = datetime(2031, 1, 2, tzinfo=UTC)
    assert perform(ship, Order(1, at)) == ["Order", at, "none", "ship", "mail", 0, {}, False]
    assert perform(ask, value=(1, at)) == [1, "2031-01-02T00:00:00Z"]


def test_a_context_can_be_given_and_looked_at_afterwards() -> None:
    ctx = context(ship, tries=2, meta={"a": 1}, tenant="acme", canceled=True)
    done = perform(ship, Order(1, datetime(2031, 1, 2, tzinfo=UTC)), note="x", ctx=ctx)
    assert done[2:] == ["x", "ship", "mail", 2, {"a": 1}, True]
    assert (ctx.fence, ctx.tenant, ctx.losses) == (3, "acme", 0)
    report = ctx.take_report()
    assert report is not None
    assert (report.progress, report.note, report.tail) == (0.5, "half", "shipped")


def test_errors_are_the_handlers_own() -> None:
    @shop.job
    def breaks() -> None:
        raise LookupError("no user")

    with pytest.raises(LookupError, match="no user"):
        perform(breaks)


def test_what_could_not_be_enqueued_or_stored_is_refused() -> None:
    with pytest.raises(InvalidJob, match="the argument order is missing"):
        perform(ship)
    with pytest.raises(InvalidPayload, match=r"ship\(order\.number=…\)"):
        perform(ship, {"number": "one", "at": "2031-01-02T00:00:00Z"})

    @shop.job
    def unstorable() -> object:
        return {1, object()}

    with pytest.raises(InvalidPayload, match="the result cannot be stored"):
        perform(unstorable)


def test_async_tests_await_aperform() -> None:
    @shop.job
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    async def test() -> None:
        assert await aperform(ask, "x") == "x"
        assert await aperform(where) is False
        with pytest.raises(ConfigError, match="await aperform"):
            perform(ask, "x")

    asyncio.run(test())
    assert perform(where) is True


def test_the_examples_of_the_docstrings_run() -> None:
    for module in ("performed", "kept_artifacts"):
        result = doctest.testmod(importlib.import_module(f"headway.testing.{module}"))
        assert result.attempted > 0
        assert result.failed == 0


def test_a_context_by_hand_gives_every_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", "kx7Qz9mw2")

    def login(ctx: Context, password: str) -> tuple[str, str]:
        return password, ctx.secret("PLANTED")

    kind = Registry().job(login)
    reference: Any = {"$secret": "PLANTED"}
    assert perform(kind, ctx=context(kind, tenant="acme"), password=reference) == ("kx7Qz9mw2", "kx7Qz9mw2")
    assert perform(kind, password=reference) == ("kx7Qz9mw2", "kx7Qz9mw2")


def test_a_kind_that_takes_batches_gets_a_batch_of_one() -> None:
    @shop.job(batch=10)
    def plain(calls: list[Call[Order]]) -> list[Any]:
        return [(type(call.args).__name__, call.args.number, call.attempt) for call in calls]

    @shop.job(batch=10)
    async def later(calls: list[Call]) -> list[Any]:
        return [LookupError(str(call.args)) for call in calls]

    @shop.job(batch=10)
    def wrong(calls: list[Call]) -> list[Any]:
        return []

    assert perform(plain, number=7, at=datetime(2031, 5, 6, tzinfo=UTC)) == ("Order", 7, 1)
    with pytest.raises(LookupError, match="'number': 7"):
        perform(later, number=7)
    with pytest.raises(InvalidOutcome, match="0 answers for 1 calls"):
        asyncio.run(aperform(wrong, number=7))


def test_what_a_handler_settles_is_its_result_and_the_last_one_counts() -> None:
    outcomes: dict[str, list[Any]] = {
        "value": [{"moved": 1}],
        "nothing": [None],
        "twice": ["rolled back", "again"],
        "done": [Done("kept")],
        "snoozed": [Snooze("5m")],
        "canceled": [Cancel("closed")],
        "step": [Next("ship")],
        "unstorable": [object()],
        "error": [ValueError("no")],
        "not at all": [],
    }

    @shop.job
    def pay(ctx: Context, how: str) -> str:
        for outcome in outcomes[how]:
            ctx.settle(outcome, conn=None)
        return "returned"

    @shop.job
    async def apay(ctx: Context, how: str) -> str:
        for outcome in outcomes[how]:
            await ctx.asettle(outcome, conn=None)
        return "returned"

    @shop.job(batch=3)
    def all_pay(calls: list[Call]) -> list[Any]:
        for call in calls:
            call.ctx.settle(outcomes[call.args["how"]][-1], conn=None)
        return ["returned" for _ in calls]

    ctx = context()
    for kind in (pay, apay, all_pay):
        hows = ("value", "nothing", "twice", "done")
        assert [perform(kind, ctx=ctx, how=how) for how in hows] == [{"moved": 1}, None, "again", "kept"]
        for how, error in (
            ("snoozed", Snooze),
            ("canceled", Cancel),
            ("step", InvalidOutcome),
            ("error", InvalidOutcome),
        ):
            with pytest.raises(error):
                perform(kind, ctx=ctx, how=how)
        with pytest.raises(InvalidPayload):
            perform(kind, how="unstorable")
    assert perform(pay, ctx=ctx, how="not at all") == "returned"


def test_files_that_a_handler_stores_are_kept_for_the_test(tmp_path: Path) -> None:
    (tmp_path / "own.bin").write_bytes(b"\0\1")
    ids: list[str] = []

    async def pieces() -> Any:
        for piece in ("a", b"b"):
            yield piece

    @shop.job
    def export(ctx: Context) -> list[Any]:
        made = ctx.artifact("report.csv", (row for row in ("a\n", "b\n")))
        ids.append(made.id)
        ctx.artifact("own.bin", tmp_path / "own.bin", content_type="image/png")
        for error, name, data in (
            (NotAllowed, "report.csv", b"again"),
            (InvalidArtifact, "../x", b""),
            (InvalidArtifact, "x", 7),
            (InvalidArtifact, "x", pieces()),
        ):
            with pytest.raises(error):
                ctx.artifact(name, data)  # type: ignore[arg-type]
        return [made.content_type, made.size, made.sha256[:8], made.job_id, made.fence]

    @shop.job
    async def aexport(ctx: Context) -> None:
        await ctx.aartifact("pieces.txt", pieces())
        await ctx.aartifact("text", "grüße")
        with pytest.raises(NotAllowed, match="would block the event loop"):
            ctx.artifact("x", b"")

    @shop.machine
    class Exports(Machine):
        @step
        def start(self, ctx: Context) -> Any:
            ctx.artifact("start.txt", "a")
            return Next(self.end)

        @step
        async def end(self, ctx: Context) -> Any:
            await ctx.aartifact("end.txt", "b")
            return Done()

    ctx = context(export, tries=2)
    assert perform(export, ctx=ctx) == ["text/csv", 4, "911169dd", ctx.job_id, 3]
    assert artifacts_of(ctx) == {"report.csv": b"a\nb\n", "own.bin": b"\0\1"}
    perform(export)
    assert len(set(ids)) == 2
    ctx = context(aexport)
    perform(aexport, ctx=ctx)
    assert artifacts_of(ctx) == {"pieces.txt": b"ab", "text": "grüße".encode()}
    step_ctx = step_context(Exports)
    assert perform_step(Exports, ctx=step_ctx) == Next("end", state={})
    assert artifacts_of(step_ctx) == {"start.txt": b"a"}
    assert asyncio.run(aperform_step(Exports, "end")) == Done()
    with pytest.raises(NotAllowed, match="a worker runs this job"):
        artifacts_of(Context(ctx.claim))
