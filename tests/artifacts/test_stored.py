"""ctx.artifact: stored with the attempt, readable by the app, and gone with the job, on both stores."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headway import Context, Done, Headway, Machine, Next, step
from headway.artifacts.folder import Folder
from headway.artifacts.objects import Objects
from headway.errors import (
    ArtifactElsewhere,
    ArtifactGone,
    ArtifactsUnavailable,
    InvalidArtifact,
    LeaseLost,
    NotAllowed,
    NotFound,
)
from headway.model.ids import new_id

BIG = os.urandom(1_048_576 + 5)


@pytest.fixture
def app(url: str, tmp_path: Path) -> Iterator[Headway]:
    app = Headway(url, artifacts=str(tmp_path / "artifacts"))
    yield app
    app.close()


def files(app: Headway, tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "artifacts").rglob("*") if path.is_file() and path.name != "id"]


def test_handlers_of_every_colour_store_what_they_have(app: Headway, tmp_path: Path) -> None:
    refused: list[BaseException] = []
    (tmp_path / "source").write_bytes(BIG)

    @app.job
    def plain(ctx: Context) -> str:
        ctx.artifact("copy.bin", tmp_path / "source")
        for wrong in ("../x", "copy.bin"):
            try:
                ctx.artifact(wrong, b"")
            except (InvalidArtifact, NotAllowed) as error:
                refused.append(error)
        return ctx.artifact("report.csv", (f"{n}\n" for n in range(3))).id

    @app.job
    async def concurrent(ctx: Context) -> str:
        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(BIG), 100_000):
                await asyncio.sleep(0)
                yield BIG[start : start + 100_000]

        async def failing() -> AsyncIterator[bytes]:
            yield b"x"
            raise ZeroDivisionError

        for attempt in (
            lambda: ctx.aartifact("failed.bin", failing()),
            lambda: ctx.aartifact("wrong", 7),  # type: ignore[arg-type]
            lambda: asyncio.to_thread(ctx.artifact, "async.bin", pieces()),  # type: ignore[arg-type]
        ):
            try:
                await attempt()
            except (ZeroDivisionError, InvalidArtifact) as error:
                refused.append(error)
        try:
            ctx.artifact("blocking.txt", "x")
        except NotAllowed as error:
            refused.append(error)
        await ctx.aartifact("note.txt", "zwölf", content_type="text/plain; charset=utf-8")
        return (await ctx.aartifact("streamed.bin", pieces())).id

    @app.machine
    class Steps(Machine):
        @step
        def start(self, ctx: Context[Any]) -> Next:
            ctx.artifact("step.txt", "1")
            return Next(self.end)

        @step
        async def end(self, ctx: Context[Any]) -> Done:
            await ctx.aartifact("step.txt", "2")
            return Done()

    jobs = [plain.enqueue(), concurrent.enqueue(), app.enqueue("steps")]
    assert app.run(until_idle=True).succeeded >= 3
    assert sorted(type(error).__name__ for error in refused) == [
        *["InvalidArtifact"] * 3,
        *["NotAllowed"] * 2,
        "ZeroDivisionError",
    ]
    first = app.artifact(app.result(jobs[0].id, timeout=5).value)
    assert (first.name, first.size, first.content_type, first.fence) == ("report.csv", 6, "text/csv", 1)
    with app.open_artifact(first.id) as file:
        assert file.read() == b"0\n1\n2\n"
    assert [each.name for each in app.artifacts(jobs[1].id)] == ["streamed.bin", "note.txt"]
    streamed = app.artifact(app.result(jobs[1].id, timeout=5).value)
    with app.open_artifact(streamed.id) as file:
        assert file.read() == BIG
    steps = app.attempts(jobs[2].id)
    assert [[(each.name, each.fence) for each in attempt.artifacts] for attempt in steps] == [
        [("step.txt", 1)],
        [("step.txt", 2)],
    ]
    assert len(app.artifacts()) == 6 == len(files(app, tmp_path))
    app.prune()  # what failed midway: bytes and notes are gone
    assert app.store.run(app.store.ops.trash(app._places.ids, limit=9)) == []
    with pytest.raises(NotFound):
        app.artifact(new_id())


def test_artifacts_of_failed_attempts_stay_and_go_with_the_job(app: Headway, tmp_path: Path) -> None:
    @app.job(max_attempts=2, backoff=lambda _: 0)
    def fails(ctx: Context) -> None:
        ctx.artifact("log.txt", f"attempt {ctx.attempt}")
        raise ValueError

    job = fails.enqueue()
    app.run(until_idle=True)
    while app.get(job.id).status != "dead":
        app.run(until_idle=True)
    texts = []
    for each in app.artifacts(job.id):
        with app.open_artifact(each.id) as file:
            texts.append(file.read().decode())
    assert texts == ["attempt 2", "attempt 1"]
    here = tmp_path / "there"
    here.mkdir()
    kept = app.artifacts(job.id)[0]
    assert app.download_artifact(kept.id, here) == here / "log.txt"
    with pytest.raises(FileExistsError):
        app.download_artifact(kept.id, here)
    assert asyncio.run(app.adownload_artifact(kept.id, here, overwrite=True)) == here / "log.txt"
    assert [path.name for path in here.iterdir()] == ["log.txt"]
    elsewhere = Headway(app.url, artifacts=str(tmp_path / "other"))
    with pytest.raises(ArtifactElsewhere, match="artifacts, which this process does not have"):
        elsewhere.open_artifact(kept.id)
    elsewhere.close()
    with pytest.raises(NotFound):
        app.tenant("acme").artifact(kept.id)
    app.delete(job.id)
    assert (app.artifacts(), len(files(app, tmp_path))) == ([], 2)
    app.prune()
    assert files(app, tmp_path) == []
    assert sorted(path.name for path in (tmp_path / "artifacts").iterdir()) == ["id", "parts"]


def test_changed_bytes_are_never_given_out(app: Headway, tmp_path: Path) -> None:
    @app.job
    async def store(ctx: Context) -> str:
        return (await ctx.aartifact("a.txt", "abc")).id

    job = store.enqueue()
    app.run(until_idle=True)
    (found,) = app.artifacts(job.id)
    (file,) = files(app, tmp_path)
    file.write_bytes(b"abd")
    with pytest.raises(ArtifactGone, match="nothing was kept"):
        app.download_artifact(found.id, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    file.write_bytes(b"abc")
    (tmp_path / "out").mkdir()
    for name, saved in (("../x", found.id), (".bashrc", found.id), ("a.txt", "a.txt")):  # rows written by hand
        lying = msgspec.structs.replace(found, name=name)
        assert app._places.download(lying, tmp_path / "out", overwrite=False) == tmp_path / "out" / saved
        (tmp_path / "out" / saved).unlink()
    file.write_bytes(b"ab")
    for broken in ("does not have its 3 bytes", "is gone"):
        with pytest.raises(ArtifactGone, match=broken):
            app.open_artifact(found.id)
        file.unlink(missing_ok=True)


def test_a_stale_worker_keeps_nothing(app: Headway, tmp_path: Path) -> None:
    seen: list[BaseException] = []

    @app.job(max_attempts=1)
    def stale(ctx: Context) -> None:
        def data() -> Iterator[bytes]:
            yield b"half"
            # somebody else has the job now
            app.store.run(app.store.ops.declare_dead(ctx.worker_id, actor=None))  # type: ignore[arg-type]
            yield b"whole"

        try:
            ctx.artifact("report.csv", data())
        except LeaseLost as error:
            seen.append(error)

    stale.enqueue()
    app.run(until_idle=True)
    assert seen
    assert (app.artifacts(), files(app, tmp_path)) == ([], [])


def test_s3_stores_and_prunes_as_a_folder_does(
    url: str, bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the folder by default is there, or beside the SQLite file
    before, app = Headway(url), Headway(url, artifacts=f"s3://{bucket.name}/headway")

    async def store(ctx: Context) -> str:
        return (await ctx.aartifact("a.bin", BIG)).id

    for each in (before, app):
        each.job(store)
    job = app.enqueue("store")
    app.run(until_idle=True)
    old = before.enqueue("store")
    before.run(until_idle=True)
    assert isinstance(before._places.own, Folder)
    there = before._places.own._at(before.artifacts(old.id)[0].path)
    found = app.artifact(app.result(job.id, timeout=5).value)
    assert [each.key for each in bucket.objects.all()] == [f"headway/{found.path}"]
    with asyncio.run(app.aopen_artifact(found.id)) as file:
        assert file.read() == BIG
    app.delete(job.id)
    app.delete(old.id)
    with monkeypatch.context() as away:
        away.setattr(Objects, "delete", _unavailable)
        assert there.exists()
        app.run(until_idle=True)
    assert (there.exists(), len(list(bucket.objects.all()))) == (False, 1)
    app.run(until_idle=True)
    assert list(bucket.objects.all()) == []
    before.close()
    app.close()


def _unavailable(*_: Any) -> None:
    raise ArtifactsUnavailable("away")


def test_without_a_worker_there_is_no_attempt_to_store_with() -> None:
    from headway.testing import context

    with pytest.raises(NotAllowed, match="no worker"):
        Context(context().claim).artifact("a", b"")
