"""inline: what is enqueued has run when the enqueue returns, by the real path, and its errors are raised."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from headway import Call, Cancel, Context, Headway, Snooze
from headway.errors import HeadwayError
from headway.testing import drain, inline, on_database


def test_a_job_has_run_when_enqueue_returns(app: Headway) -> None:
    @app.job
    def double(number: int) -> int:
        return number * 2

    with inline(app):
        job = double.enqueue(21)
        assert (job.status, job.created) == ("queued", True)
        assert app.get(job.id).result == 42
        assert [attempt.status for attempt in app.attempts(job.id)] == ["succeeded"]
        assert app.get(app.enqueue("double", {"number": 1}).id).result == 2
        assert [app.get(each.id).result for each in app.enqueue_many(double.build(n) for n in (3, 4))] == [6, 8]
        assert app.get(app.tenant("acme").enqueue("double", {"number": 5}).id).result == 10
    assert app.get(double.enqueue(1).id).status == "queued"
    assert app.get(app.tenant("acme").enqueue("double", {"number": 5}).id).status == "queued"


def test_an_error_is_raised_as_it_was_and_recorded(app: Headway) -> None:
    error = LookupError("no user 7")

    @app.job(max_attempts=3)
    def breaks() -> None:
        raise error

    with inline(app), pytest.raises(LookupError) as caught:
        breaks.enqueue()
    assert caught.value is error
    (job,) = app.jobs()
    assert (job.status, job.tries) == ("scheduled", 1)
    assert job.error is not None
    assert "no user 7" in job.error


def test_an_error_of_a_job_that_a_handler_enqueued_is_raised_too(app: Headway) -> None:
    @app.job(queue="children")
    def child() -> None:
        raise LookupError("the child")

    @app.job
    def parent() -> str:
        return str(child.enqueue().id)

    with inline(app):
        with pytest.raises(LookupError, match="the child"):
            parent.enqueue()
        app.cancel_jobs(kind="child")
        with pytest.raises(LookupError, match="the child"):
            child.enqueue()
    assert {job.kind: job.status for job in app.jobs(kind="parent")} == {"parent": "succeeded"}


def test_an_end_without_an_exception_is_raised_as_ours(app: Headway) -> None:
    @app.job
    def unstorable() -> object:
        return object()

    @app.job(timeout="20ms")
    async def slow() -> None:
        await asyncio.Event().wait()

    with inline(app):
        with pytest.raises(HeadwayError, match='of kind "unstorable" is dead: the result cannot be stored'):
            unstorable.enqueue()
        with pytest.raises(HeadwayError, match='of kind "slow" is scheduled: timed out after 20ms'):
            slow.enqueue()


def test_what_a_handler_decides_is_no_error(app: Headway) -> None:
    @app.job
    def decides(name: str) -> None:
        raise {"snooze": Snooze("1h"), "cancel": Cancel("enough")}[name]

    with inline(app):
        assert app.get(decides.enqueue("snooze").id).status == "scheduled"
        assert app.get(decides.enqueue("cancel").id).status == "canceled"


def test_what_is_enqueued_in_a_transaction_runs_after_its_commit(app: Headway, own_connection: Any) -> None:
    ran: list[str] = []

    @app.job
    def work(name: str) -> None:
        ran.append(name)
        if name == "breaks":
            raise LookupError(name)

    with inline(app):
        job = work.using(conn=own_connection).enqueue("first")
        app.counts()
        assert ran == [], "it is not committed"
        own_connection.execute("commit")
        assert (app.get(job.id).status, ran) == ("succeeded", ["first"])
        own_connection.execute("begin")
        work.using(conn=own_connection).enqueue("never")
        own_connection.execute("rollback")
        own_connection.execute("begin")
        work.using(conn=own_connection).enqueue("at the end")
        own_connection.execute("commit")
    assert ran == ["first", "at the end"]

    def breaks() -> None:
        own_connection.execute("begin")
        work.using(conn=own_connection).enqueue("breaks")
        own_connection.execute("commit")

    with pytest.raises(LookupError, match="breaks"), inline(app):
        breaks()


def test_what_is_not_due_stays(app: Headway) -> None:
    @app.job
    def work() -> None: ...

    with inline(app):
        assert app.get(work.using(delay="1h").enqueue().id).status == "scheduled"
        work.using(unique_key="one", delay="1h").enqueue()
        assert work.using(unique_key="one", delay="1h").enqueue().created is False


def test_async_callers_run_it_on_their_own_loop(app: Headway) -> None:
    loops: list[object] = []

    @app.job
    async def note(ctx: Context) -> None:
        loops.append(asyncio.get_running_loop())

    @app.job
    async def breaks() -> None:
        raise LookupError("async")

    async def test() -> None:
        with inline(app):
            job = await note.aenqueue()
            assert (await app.aget(job.id)).status == "succeeded"
            assert loops == [asyncio.get_running_loop()]
            with pytest.raises(LookupError):
                await breaks.aenqueue()
            # a blocking enqueue inside the loop blocks it, as it does without inline
            assert (await app.aget(note.enqueue().id)).status == "succeeded"
            assert loops[1] is not loops[0]
        await app.aclose()

    asyncio.run(test())


def test_threads_run_their_own(app: Headway) -> None:
    @app.job
    def work(number: int) -> int:
        return number

    results: list[Any] = []

    def enqueue(number: int) -> None:
        results.append(app.get(work.enqueue(number).id).status)

    with inline(app):
        threads = [threading.Thread(target=enqueue, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == ["succeeded"] * 4
    assert sorted(job.result for job in app.jobs()) == [0, 1, 2, 3]


def test_an_app_can_be_pointed_at_another_database(headway_url: str, tmp_path: Any) -> None:
    app = Headway(f"sqlite:///{tmp_path / 'own.db'}")

    @app.job
    def work() -> None: ...

    own = work.enqueue()
    with on_database(app, headway_url):
        assert app.url == headway_url
        assert app.jobs() == []
        work.enqueue()
        assert drain(app).succeeded == 1
    assert [job.id for job in app.jobs()] == [own.id]
    app.close()


def test_calls_that_are_enqueued_together_run_as_a_batch(app: Headway) -> None:
    @app.job(batch=3, batch_wait="1m", max_attempts=1)
    def index(calls: list[Call]) -> list[Any]:
        return [LookupError("none") if call.args["number"] == 5 else len(calls) for call in calls]

    with inline(app):
        jobs = app.enqueue_many(index.build(number=number) for number in range(4))
        assert [app.get(job.id).result for job in jobs] == [3, 3, 3, 1]
        assert app.get(index.enqueue(number=4).id).result == 1
        with pytest.raises(LookupError, match="none"):
            index.enqueue(number=5)
