"""Reservations and run_now: a queue to oneself, and a job executed in it, recorded like any other."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headway import Context, Headway, Retry
from headway.errors import (
    ConfigError,
    Duplicate,
    HeadwayError,
    InvalidJob,
    InvalidPayload,
    NotAllowed,
    ReservationBusy,
    UnknownKind,
)
from headway.testing import drain, inline

Call = Callable[..., Any]


def standing(app: Headway) -> list[tuple[str, str]]:
    return [(each.queue, each.id) for each in app.store.run(app.store.ops.reservations())]


@pytest.fixture
def work(app: Headway) -> Any:
    @app.job(queue="gpu")
    def work(name: str = "") -> str:
        return f"did {name}"

    return work


@contextmanager
def someone_else(app: Headway, queue: str, seconds: float = 600) -> Iterator[None]:
    """Another process has the queue."""
    ops = app.store.ops
    other = "00000000-0000-7000-8000-000000000001"
    app.store.run(ops.reserve(queue, other, holder="elsewhere:7", expires_ms=round(seconds * 1_000)))
    yield
    app.store.run(ops.unreserve(queue, other))


# reserve


def test_nobody_claims_from_a_reserved_queue(app: Headway, work: Any) -> None:
    work.enqueue("a")
    with app.reserve("gpu") as mine:
        assert standing(app) == [("gpu", mine.id)]
        assert (mine.queue, mine.lost) == ("gpu", False)
        assert mine.expires_at is not None
        (queue,) = [queue for queue in app.queues() if queue.name == "gpu"]
        assert queue.reserved_by is not None
        assert queue.reserved_by.endswith(f":{os.getpid()}")
        assert drain(app).succeeded == 0
    assert standing(app) == []
    assert mine.expires_at is None
    assert drain(app).succeeded == 1


def test_the_same_in_async(app: Headway, work: Any) -> None:
    async def story() -> None:
        await work.aenqueue("a")
        async with app.reserve("gpu", holder="me") as mine:
            assert [each.id for each in await app.store.arun(app.store.ops.reservations())] == [mine.id]
            assert (await app.arun("gpu", until_idle=True)).succeeded == 0
            with pytest.raises(ReservationBusy, match="reserved by me since"):
                async with app.reserve("gpu"):
                    pass
        assert (await app.arun("gpu", until_idle=True)).succeeded == 1
        await app.aclose()

    asyncio.run(story())
    assert standing(app) == []


def test_it_is_given_back_when_the_block_fails(app: Headway) -> None:
    with pytest.raises(LookupError), app.reserve("gpu"):
        raise LookupError
    assert standing(app) == []


def test_a_queue_that_somebody_has_is_busy(app: Headway) -> None:
    with someone_else(app, "gpu"), pytest.raises(ReservationBusy) as caught, app.reserve("gpu"):
        pass
    assert "queue gpu is reserved by elsewhere:7 since 2" in str(caught.value)
    assert "or wait for it with a longer timeout=" in str(caught.value)
    with someone_else(app, "gpu"):
        began = time.monotonic()
        with pytest.raises(ReservationBusy, match=r"waited 0\.2s"), app.reserve("gpu", timeout="200ms"):
            pass
        assert time.monotonic() - began >= 0.2
        with app.reserve("cpu"):
            assert len(standing(app)) == 2


def test_it_waits_until_the_queue_is_free_or_the_other_has_expired(app: Headway) -> None:
    with someone_else(app, "gpu", 0.3), app.reserve("gpu", timeout="60s") as mine:
        assert standing(app) == [("gpu", mine.id)]

    entered = threading.Event()

    def let_go() -> None:
        with app.reserve("gpu"):
            entered.set()
            time.sleep(0.2)

    thread = threading.Thread(target=let_go)
    thread.start()
    assert entered.wait(60)
    with app.reserve("gpu", timeout="60s"):
        pass
    thread.join()


def test_it_is_renewed_while_it_is_held(app: Headway) -> None:
    with app.reserve("gpu", expires="3s") as mine:
        (first,) = app.store.run(app.store.ops.reservations())
        assert mine.expires_at == first.expires_at
        deadline = time.monotonic() + 60
        while mine.expires_at == first.expires_at and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not mine.lost
        (renewed,) = app.store.run(app.store.ops.reservations())
        assert renewed.id == mine.id
        assert renewed.expires_at > first.expires_at


def test_what_somebody_else_took_is_lost(app: Headway, caplog: pytest.LogCaptureFixture) -> None:
    with app.reserve("gpu", expires="300ms") as mine:
        app.store.run(app.store.ops.unreserve("gpu", mine.id))
        with someone_else(app, "gpu"):
            said = "the reservation of queue gpu was lost: elsewhere:7 has it now"
            deadline = time.monotonic() + 60
            while said not in caplog.text and time.monotonic() < deadline:
                time.sleep(0.01)
            assert said in caplog.text
            assert mine.lost


def test_draining_waits_for_what_runs(app: Headway) -> None:
    started, end = threading.Event(), threading.Event()

    @app.job(queue="gpu")
    def slow() -> None:
        started.set()
        end.wait(60)

    slow.enqueue()
    worker = threading.Thread(target=drain, args=(app,))
    worker.start()
    assert started.wait(60)
    with app.reserve("gpu"):  # running jobs go on
        pass
    with pytest.raises(ReservationBusy, match=r"1 job of it still runs after 0\.1s, so it was given back"):
        app.reserve("gpu", drain=True, timeout="100ms").__enter__()
    assert standing(app) == []
    threading.Timer(0.2, end.set).start()
    with app.reserve("gpu", drain=True):
        assert end.is_set()
        assert app.counts().get("running", 0) == 0
    worker.join()


def test_a_reservation_that_cannot_be_is_refused(app: Headway) -> None:
    with pytest.raises(InvalidJob, match="queue='a b' is not a valid name"):
        app.reserve("a b")
    with pytest.raises(InvalidJob, match="too short to be renewed"):
        app.reserve("gpu", expires=0)
    with pytest.raises(InvalidJob, match="timeout='soon' is not a duration"):
        app.reserve("gpu", timeout="soon")
    with pytest.raises(InvalidJob, match="holder is empty"):
        app.reserve("gpu", holder="")
    with pytest.raises(NotAllowed, match="queues are shared by all tenants"):
        app.tenant("acme").reserve("gpu")
    mine = app.reserve("gpu")
    with mine, pytest.raises(NotAllowed, match="held already"):
        mine.__enter__()
    with mine:  # again, one after the other
        pass


# run_now


def test_run_now_executes_a_job_here_and_records_it(app: Headway, work: Any, call: Call) -> None:
    waits = work.enqueue("first in line")
    for asked in (("work", {"name": "a"}), (work, {"name": "a"}), (work.build("a"),)):
        outcome = call(app, "run_now", *asked)
        assert (outcome.status, outcome.value, outcome.error) == ("succeeded", "did a", None)
        (job, *_) = app.jobs(kind="work")
        (attempt,) = app.attempts(job.id)
        assert (job.status, job.result, attempt.status, attempt.fence) == ("succeeded", "did a", "succeeded", 1)
        assert attempt.worker_id is not None
    assert app.get(waits.id).status == "queued"
    assert standing(app) == []
    assert app.workers() == []


def test_run_now_runs_where_it_is_called(app: Headway) -> None:
    at: list[tuple[int, str]] = []

    @app.job
    async def where(ctx: Context) -> None:
        at.append((threading.get_ident(), standing(app)[0][0]))
        ctx.progress(0.5, "half")

    app.run_now(where)
    assert at == [(threading.get_ident(), "default")]

    async def story() -> None:
        await app.arun_now(where)
        with pytest.raises(ConfigError, match=r"await app\.arun_now"):
            app.run_now(where)
        await app.aclose()

    asyncio.run(story())
    assert len(at) == 2


def test_run_now_takes_options_and_the_hooks_of_the_app(app: Headway, work: Any, call: Call) -> None:
    heard: list[str] = []
    app.on("job.succeeded", lambda event: heard.append(event.job_id))
    call(app, "run_now", work, {"name": "a"}, priority=7, meta={"by": "hand"}, queue="cpu", tenant="acme")
    (job,) = app.jobs(kind="work")
    assert (job.priority, job.meta, job.queue, job.tenant) == (7, {"by": "hand"}, "cpu", "acme")
    assert heard == [job.id]


def test_a_failed_try_is_left_to_the_ordinary_workers(app: Headway, call: Call) -> None:
    @app.job(max_attempts=2, backoff="1h")
    def fails() -> None:
        raise LookupError("no such user")

    outcome = call(app, "run_now", fails)
    assert outcome.status == "scheduled"
    assert outcome.error.startswith("LookupError: no such user")
    (job,) = app.jobs(kind="fails")
    assert (job.tries, [attempt.status for attempt in app.attempts(job.id)]) == (1, ["failed"])
    outcome = call(app, "run_now", fails.using(max_attempts=1))
    assert (outcome.status, outcome.value) == ("dead", None)

    @app.job(timeout="50ms", max_attempts=1)
    async def sleeps() -> None:
        await asyncio.sleep(20)

    assert "timed out" in call(app, "run_now", sleeps).error

    @app.job
    def again() -> None:
        raise Retry("later", delay="1h")

    assert call(app, "run_now", again).status == "scheduled"


def test_run_now_inside_a_reservation_uses_it(app: Headway, work: Any) -> None:
    with app.reserve("gpu") as mine:
        assert app.run_now(work, {"name": "a"}).status == "succeeded"
        assert app.tenant("acme").run_now(work, {"name": "b"}).value == "did b"
        assert standing(app) == [("gpu", mine.id)]
        assert app.run_now(work, {"name": "c"}, queue="cpu").value == "did c"
    assert standing(app) == []
    assert [job.tenant for job in app.jobs(kind="work")] == ["default", "acme", "default"]

    async def story() -> None:
        async with app.reserve("gpu") as mine:
            assert (await app.arun_now(work, {"name": "a"})).status == "succeeded"
            assert [each.id for each in await app.store.arun(app.store.ops.reservations())] == [mine.id]
        await app.aclose()

    asyncio.run(story())


def test_a_thread_outside_of_the_reservation_waits_for_the_queue(app: Headway, work: Any) -> None:
    failures: list[BaseException] = []

    def elsewhere() -> None:
        try:
            app.run_now(work)
        except ReservationBusy as error:
            failures.append(error)

    with app.reserve("gpu"):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert len(failures) == 1
    assert app.jobs() == []  # nothing was enqueued


def test_a_job_that_may_not_run_now_is_canceled_again(app: Headway, work: Any, call: Call) -> None:
    first = work.using(train="t").enqueue("first")
    with pytest.raises(NotAllowed) as caught:
        call(app, "run_now", work.using(train="t", on_canceled="hold"))
    assert "cannot run now, and was canceled again: held behind job " + first.id in str(caught.value)
    (job, _) = app.jobs(kind="work")
    assert job.status == "canceled"
    assert [car.id for car in app.train("t")] == [first.id]
    assert app.trains(blocked=True) == []
    before = work.using(delay="1h").enqueue("before")
    with pytest.raises(NotAllowed, match=f"it waits for 1 job: {before.id}"):
        call(app, "run_now", work, {"name": "x"}, after=before)
    app.limit(kind="work", max_running=0)
    with pytest.raises(NotAllowed, match="limited: 0 of 0 jobs of kind work run now"):
        call(app, "run_now", work, {"name": "x"})
    assert app.jobs(kind="work")[0].status == "canceled"
    assert standing(app) == []


def test_run_now_of_a_job_that_is_there_already(app: Headway, work: Any, call: Call) -> None:
    first = work.using(unique_key="u").enqueue("first")
    with pytest.raises(Duplicate, match="is queued already, so nothing was enqueued") as caught:
        call(app, "run_now", work, {"name": "x"}, unique_key="u")
    assert caught.value.job_id == first.id
    assert app.get(first.id).status == "queued"
    assert call(app, "run_now", work, {"name": "x"}, idempotency_key="i").value == "did x"
    assert call(app, "run_now", work, {"name": "y"}, idempotency_key="i").value == "did x"


def test_what_cannot_run_now_is_refused_before_anything_is_written(app: Headway, work: Any, call: Call) -> None:
    for asked, options, error, message in (
        (("elsewhere",), {}, UnknownKind, "elsewhere"),
        ((work,), {"delay": "5m"}, InvalidJob, "runs a job now"),
        ((work,), {"conn": object()}, InvalidJob, "takes no conn"),
        ((work.using(conn=object()),), {}, InvalidJob, "takes no conn"),
        ((work,), {"group": "00000000-0000-7000-8000-000000000001"}, InvalidJob, "takes no group"),
        ((work, {"nome": "x"}), {}, InvalidJob, "no such parameter"),
        ((work, {"name": 7}), {}, InvalidPayload, "name"),
        ((work, ["x"]), {}, InvalidPayload, "not a dict"),
        ((work,), {"expires": "never"}, InvalidJob, "expires='never' is not a duration"),
    ):
        with pytest.raises(error, match=message):
            call(app, "run_now", *asked, **options)
    assert app.jobs() == []


def test_run_now_within_inline_mode_runs_once(app: Headway, work: Any) -> None:
    with inline(app):
        assert app.run_now(work, {"name": "a"}).value == "did a"
    assert len(app.jobs()) == 1
    assert len(app.attempts(app.jobs()[0].id)) == 1


def test_a_job_whose_worker_could_not_start_is_canceled_again(app: Headway, work: Any, call: Call) -> None:
    @app.on_startup
    def connect() -> None:
        raise OSError("no network")

    with pytest.raises(HeadwayError, match="connect raised OSError: no network: no job was claimed"):
        call(app, "run_now", work)
    assert [job.status for job in app.jobs()] == ["canceled"]
    assert standing(app) == []


def test_ctrl_c_ends_run_now_and_gives_the_job_and_the_queue_back(app: Headway) -> None:
    @app.job
    async def slow() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            app.run_now(slow)
    finally:
        signal.signal(signal.SIGINT, before)
    (job,) = app.jobs()
    assert (job.status, [attempt.status for attempt in app.attempts(job.id)]) == ("queued", ["released"])
    assert standing(app) == []


def test_a_crash_in_the_middle_leaves_a_correct_record_and_no_blocked_queue(url: str) -> None:
    app = Headway(url, reap_every="50ms")
    ran: list[int] = []

    @app.job
    def slow(seconds: float) -> None:
        ran.append(1)

    app.counts()
    code = (
        "import sys, time\nfrom headway import Headway\napp = Headway(sys.argv[1], lease='3s')\n"
        "@app.job\ndef slow(seconds: float) -> None:\n    print('begun', flush=True)\n    time.sleep(seconds)\n"
        "app.run_now(slow, {'seconds': 60}, expires='3s')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    (job,) = app.jobs()
    assert (job.status, len(standing(app))) == ("running", 1)
    process.kill()
    process.communicate()

    async def story() -> None:
        worker = asyncio.create_task(app.arun("default"))
        async with asyncio.timeout(90):
            while (await app.aget(job.id)).status != "succeeded":
                await asyncio.sleep(0.02)
        worker.cancel()
        await asyncio.wait([worker])
        await app.aclose()

    asyncio.run(story())
    assert [attempt.status for attempt in app.attempts(job.id)] == ["lost", "succeeded"]
    assert (ran, standing(app)) == ([1], [])
    app.close()


def test_an_interrupt_gives_the_job_and_the_queue_back(app: Headway) -> None:
    @app.job
    async def slow() -> None:
        await asyncio.sleep(60)

    async def story() -> None:
        task = asyncio.create_task(app.arun_now(slow))
        while not (await app.acounts()).get("running"):
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await app.aclose()

    asyncio.run(story())
    (job,) = app.jobs()
    assert (job.status, [attempt.status for attempt in app.attempts(job.id)]) == ("queued", ["released"])
    assert standing(app) == []
