"""Results over the limit of rows, of kinds that let them spill: an artifact has them, and readers get the value."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headway import Context, Done, Headway, Machine, Registry, Spawn, step
from headway.errors import ArtifactElsewhere, InvalidJob
from headway.model.spill import Spilled
from headway.testing import perform

LIMIT = 1_000
BIG = {"text": "zwölf " * 200}  # over the limit in bytes, and not in characters of ASCII alone


@pytest.fixture
def app(url: str, tmp_path: Path) -> Iterator[Headway]:
    app = Headway(url, artifacts=str(tmp_path / "artifacts"), result_limit=LIMIT, spill_limit=4_000, grace="100ms")
    yield app
    app.close()


def test_a_result_over_the_limit_is_an_artifact_and_every_reader_gets_the_value(app: Headway) -> None:
    said: dict[str, str] = {}

    @app.job(spill=True)
    def large(much: int) -> Any:
        return BIG if much == 1 else "y" * (LIMIT - 2) if much == 0 else "x" * much

    @app.job(spill=True)
    async def own_words(ctx: Context) -> Any:
        """Returns what looks like a reference, to a real artifact of its own."""
        kept = await ctx.aartifact("mine.json", "1")
        said[ctx.job_id] = kept.id
        return {"$artifact": kept.id}

    @app.job
    def without(much: int) -> Any:
        return BIG

    @app.machine
    class Parent(Machine, spill=True):
        @step
        def start(self, ctx: Context[Any]) -> Spawn:
            return Spawn([large.build(much=0), large.build(much=1), own_words.build()], then=self.join)

        @step
        def join(self, ctx: Context[Any]) -> Done:
            return Done([child.result for child in ctx.children])

    jobs = {name: job.id for name, job in {
        "fits": large.enqueue(much=0), "spilled": large.enqueue(much=1), "too large": large.enqueue(much=5_000),
        "own": own_words.enqueue(), "without": without.enqueue(much=1), "parent": app.enqueue("parent"),
    }.items()}  # fmt: skip
    app.run(until_idle=True)

    def result(name: str) -> Any:
        return app.result(jobs[name], timeout=5).unwrap()

    assert result("fits") == "y" * (LIMIT - 2)
    assert result("spilled") == BIG
    assert asyncio.run(_aresult(app, jobs["spilled"])) == BIG
    assert app.run_now("large", {"much": 1}).value == BIG
    assert result("own") == {"$artifact": app.artifacts(jobs["own"])[0].id}
    (child,) = said.keys() - {jobs["own"]}
    assert result("parent") == ["y" * (LIMIT - 2), BIG, {"$artifact": said[child]}]
    for name in ("too large", "without"):
        found = app.result(jobs[name], timeout=5)
        limit = "4,000" if name == "too large" else "1,000"
        assert (found.status, f"over the limit of {limit}" in str(found.error)) == ("dead", True)
        assert ("or let it spill: @app.job(spill=True)" in str(found.error)) is (name == "without")

    # the row has a reference, which lists show as it is
    kept = app.artifacts(jobs["spilled"])
    assert [(each.name, each.content_type, each.fence) for each in kept] == [(".result.json", "application/json", 1)]
    assert app.get(jobs["spilled"]).result == {"$artifact": kept[0].id}
    assert app.result(jobs["spilled"], raw=True).value == Spilled(kept[0].id)
    with app.open_artifact(kept[0].id) as file:
        assert msgspec.json.decode(file.read()) == BIG
    assert app.artifacts(jobs["fits"]) == [] == app.artifacts(jobs["too large"])
    assert [each.result for each in app.children(jobs["parent"], fence=1)][1] == Spilled(
        app.artifacts(app.children(jobs["parent"], fence=1)[1].id)[0].id
    )

    with pytest.raises(InvalidJob, match="spill='yes' must be True or False"):
        app.job(spill="yes", name="other")(lambda: None)  # type: ignore[call-overload]
    assert len(perform(large, much=9 * 2**20)) > 0


def test_a_result_that_cannot_be_stored_or_read_costs_nothing_but_another_try(
    app: Headway, url: str, tmp_path: Path
) -> None:
    folder, seen, kinds = tmp_path / "artifacts", {"tries": 0}, Registry()

    @app.job(spill=True, backoff="1ms", retry_on=ZeroDivisionError)
    def unlucky(ctx: Context) -> Any:
        seen["tries"] += 1
        if seen["tries"] == 1:
            folder.mkdir()
            (folder / "parts").write_text("in the way")
        else:
            (folder / "parts").unlink()
        return BIG

    @app.job(spill=True, max_losses=3)
    def stale(ctx: Context) -> Any:
        if ctx.fence == 1:
            app._run(app._store.ops.release([(ctx.job_id, ctx.fence)], delay_ms=0))  # as if it were reaped
        return {**BIG, "fence": ctx.fence}

    @kinds.machine
    class Reader(Machine, queue="readers"):
        @step
        def start(self, ctx: Context[Any]) -> Spawn:
            return Spawn([app.kinds["stale"].build()], then=self.join)

        @step
        def join(self, ctx: Context[Any]) -> Done:
            return Done(ctx.children[0].result["fence"])

    app.include(kinds)
    first = unlucky.enqueue()
    app.run(until_idle=True)
    second = stale.enqueue()
    app.run(until_idle=True)
    statuses = [(each.status, "could not be stored" in (each.error or "")) for each in app.attempts(first.id)]
    assert statuses == [("failed", True), ("succeeded", False)]
    assert app.result(first.id).value == BIG
    # a stale worker's result is not kept, and its bytes are gone
    assert [each.fence for each in app.artifacts(second.id)] == [2]
    assert app.result(second.id).value == {**BIG, "fence": 2}
    assert len(_files(folder)) == 2

    # a host without the folder: the job can be looked at, its value says where it is, and a step that needs it waits
    machine = app.enqueue("reader")
    app.run(until_idle=True, queues=["readers"])
    app.run(until_idle=True, queues=["default"])
    with closing(Headway(url, artifacts=str(tmp_path / "elsewhere"))) as other:
        other.include(kinds)
        assert other.get(first.id).result == {"$artifact": app.artifacts(first.id)[0].id}
        with pytest.raises(ArtifactElsewhere, match="which this process does not have"):
            other.result(first.id)
        other.run(until_idle=True, queues=["readers"])
    found = app.get(machine.id)
    assert (found.status, found.tries, found.step) == ("scheduled", 0, "join")
    app.change(machine.id, scheduled_for=None)
    app.run(until_idle=True, queues=["readers"])
    assert app.result(machine.id, timeout=5).unwrap() == 2

    # the bytes go with the job
    app.delete(first.id)
    app.run(until_idle=True)
    assert app.artifacts(first.id) == []
    assert len(_files(folder)) == 2


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.name != "id"]


async def _aresult(app: Headway, job_id: str) -> Any:
    return (await app.aresult(job_id, timeout=5)).value
