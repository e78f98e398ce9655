"""A worker and what happens to it: it stops, its server goes away, its key is refused, others answer for its server."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from headway_client import (
    Client,
    Context,
    Done,
    Next,
    NotAllowed,
    Unauthorized,
    Worker,
)

from headway import Headway
from tests.connectors.loopback import answer, serving


def _until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, condition
        time.sleep(0.01)


def test_a_worker_that_stops_gives_its_jobs_back(app: Headway, client: Client, working: Any) -> None:
    worker = working.new(grace=0.1)
    release = threading.Event()

    @worker.handler("welcome")
    async def welcome(user_id: int) -> None:
        await asyncio.sleep(60)

    @worker.handler("report")
    def report() -> str:
        release.wait(30)
        return "done"

    working(worker)
    left, ends = client.enqueue("welcome", {"user_id": 1}), client.enqueue("report")
    _until(lambda: {client.get(each.id).status for each in (left, ends)} == {"running"})
    time.sleep(0.01)
    release.set()
    worker.stop()
    _until(lambda: worker.worker_id not in [each.id for each in app.workers()])
    job = client.get(left.id)
    assert (job.status, job.tries, job.fields["losses"]) == ("queued", 0, 0)
    assert client.result(ends.id).unwrap() == "done"


def test_a_handler_that_gives_way_to_a_stopping_worker_runs_again(client: Client, working: Any) -> None:
    worker = working.new(grace=30.0)
    began = threading.Semaphore(0)

    def wait(ctx: Context) -> None:
        assert (ctx.canceled, ctx.stopping) == (False, False)
        began.release()
        _until(lambda: ctx.stopping)
        assert not ctx.canceled  # the grace period is not over

    @worker.handler("welcome")
    def welcome(ctx: Context) -> str:
        wait(ctx)
        return "half of it"

    @worker.handler("report")
    def report(ctx: Context) -> Done:
        wait(ctx)
        return Done("all of it")

    @worker.handler("order", step="start")
    def order(ctx: Context) -> Next:
        wait(ctx)
        return Next("ship")

    working(worker)
    jobs = [client.enqueue(kind) for kind in ("welcome", "report", "order")]
    for _ in jobs:
        assert began.acquire(timeout=30)
    worker.stop()
    half, whole, step = jobs
    _until(lambda: client.get(half.id).status == "queued")
    assert [each.status for each in client.attempts(half.id)] == ["released"]
    assert client.get(half.id).tries == 0
    assert client.result(whole.id).unwrap() == "all of it"
    assert (client.get(step.id).status, client.get(step.id).fields["step"]) == ("queued", "ship")


def test_a_handler_that_returns_because_its_job_was_canceled_has_not_finished(client: Client, working: Any) -> None:
    worker = working.new(heartbeat=0.1)
    began = threading.Semaphore(0)

    def wait(ctx: Context, *, look: bool = True) -> None:
        began.release()
        _until(lambda: ctx.canceled if look else ctx.must_end)

    @worker.handler("welcome")
    def welcome(ctx: Context) -> str:
        wait(ctx)
        return "half of it"

    @worker.handler("report")
    def report(ctx: Context) -> Done:
        wait(ctx)
        return Done("all of it")

    @worker.handler("order", step="start")
    def order(ctx: Context) -> Done:
        wait(ctx)
        return Done("all steps")

    @worker.handler("survey")
    def unaware(ctx: Context) -> str:
        wait(ctx, look=False)
        return "did not look"

    working(worker)
    jobs = [client.enqueue(kind) for kind in ("welcome", "report", "order", "survey")]
    for job in jobs:
        assert began.acquire(timeout=30)
        assert client.cancel(job.id, reason="enough") == "running"
    half, *whole = jobs
    result = client.result(half.id, wait=30)
    assert (result.status, result.value, result.error) == ("canceled", None, "enough")
    assert [client.result(each.id, wait=30).unwrap() for each in whole] == ["all of it", "all steps", "did not look"]


_DEAF = """
import sys, time
from headway_client import Worker

worker = Worker(queues={"mail": 1})

@worker.handler("welcome")
def welcome():
    print("began", flush=True)
    time.sleep(600)

worker.run()
"""


@pytest.mark.parametrize(("grace", "signals"), [("100ms", 1), ("10m", 2)])
def test_a_function_that_does_not_end_does_not_keep_the_worker(
    grace: str, signals: int, app: Headway, server: Any, client: Client
) -> None:
    key = app.create_api_key("worker", "worker").text
    job = client.enqueue("welcome")
    environ = os.environ | {"HEADWAY_API": server.address, "HEADWAY_KEY": key, "HEADWAY_GRACE": grace}
    with subprocess.Popen([sys.executable, "-c", _DEAF], env=environ, stdout=-1, stderr=-1, text=True) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stderr is not None
            assert worker.stdout.readline() == "began\n"
            worker.terminate()
            if signals == 2:
                while "stopping" not in worker.stderr.readline():
                    assert worker.poll() is None
                worker.terminate()
            assert worker.wait(30) == 0
        finally:
            worker.kill()
    given_back = client.get(job.id)
    assert (given_back.status, given_back.tries, given_back.fields["losses"]) == ("queued", 0, 0)


def test_a_function_that_outlives_the_grace_of_an_embedded_worker_is_named(
    client: Client, working: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    worker = working.new(grace=0.05)
    began, end = threading.Event(), threading.Event()

    @worker.handler("welcome")
    def welcome() -> None:
        began.set()
        end.wait(60)

    working(worker)
    job = client.enqueue("welcome")
    assert began.wait(30)
    worker.stop()
    _until(lambda: "worker stopped" in caplog.text)
    end.set()
    said = [each for each in caplog.records if "runs on" in each.message]
    assert [each.__dict__["job_id"] for each in said] == [job.id]
    assert "after its job was given back" in said[0].message
    assert client.get(job.id).status == "queued"


def test_a_worker_whose_key_is_refused_from_the_start_ends(
    app: Headway, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    narrow = app.create_api_key("other", "worker", queues=["other"]).text
    for key, error in (("hw_live_wrong", Unauthorized), (narrow, NotAllowed)):
        caplog.clear()
        worker = Worker(Client(server.address, key=key), queues={"mail": 1})
        worker.handler("welcome")(lambda: None)
        with pytest.raises(error):
            asyncio.run(worker.arun())
        (said,) = [each for each in caplog.records if each.levelname == "ERROR"]
        assert "headway keys create" in said.message


def test_a_worker_whose_key_is_refused_later_asks_again_with_growing_pauses(caplog: pytest.LogCaptureFixture) -> None:
    problem = '{"code": "Unauthorized", "detail": "no such key", "fix": "make one"}'
    claims: list[float] = []

    def server(asked: Any) -> bytes:
        if not asked.target.endswith("/claim"):
            return answer(401, problem, content_type="application/problem+json", connection="close")
        claims.append(time.monotonic())
        if len(claims) in (1, 5):
            return answer(200, '{"jobs": [], "lease_expires_at": "2099-01-02T03:04:05Z"}', connection="close")
        return answer(401, problem, content_type="application/problem+json", connection="close")

    with serving(server) as front:
        worker = Worker(Client(front.url, key="hw_x"), queues={"mail": 1})
        worker.handler("welcome")(lambda: None)
        thread = threading.Thread(target=lambda: asyncio.run(worker.arun()), daemon=True)
        thread.start()
        _until(lambda: len(claims) >= 6)
        worker.stop()
        thread.join(30)
    pauses = [after - before for before, after in itertools.pairwise(claims[1:5])]
    assert pauses == sorted(pauses)
    assert pauses[-1] > 1.5
    assert len([each for each in caplog.records if each.levelname == "ERROR"]) == 2  # one each time that it begins


def test_a_server_that_goes_away_loses_nothing(app: Headway, server: Any, client: Client, working: Any) -> None:
    worker = working.new()
    began, go = threading.Event(), threading.Event()

    @worker.handler("welcome")
    def welcome(user_id: int) -> int:
        began.set()
        assert go.wait(30)
        return user_id

    working(worker)
    made = app.tenant("default").enqueue("welcome", {"user_id": 7})
    assert began.wait(30)
    server.stop()
    go.set()
    time.sleep(0.1)
    server.start()
    assert client.result(made.id, wait=30).unwrap() == 7
    assert len(client.attempts(made.id)) == 1


def test_a_worker_outlasts_a_proxy_that_knows_no_server(
    app: Headway, server: Any, client: Client, working: Any
) -> None:
    """Its 404 refuses neither a claim nor an outcome; its 413 refuses what is too large, and only that."""
    page = {"content_type": "text/html", "connection": "close"}
    unknown = ["/worker/jobs/claim", "/worker/settle"]

    def proxy(asked: Any) -> bytes:
        path = asked.target.removeprefix("/api/v1")
        if path in unknown:
            unknown.remove(path)
            return answer(404, "<html>", **page)
        if len(asked.body) > 20_000:
            return answer(413, "<html>", **page)
        headers = {name: asked.headers[name] for name in ("authorization", "content-type") if name in asked.headers}
        said = httpx2.request(
            asked.method, server.address + asked.target, content=asked.body, headers=headers, timeout=60
        )
        kept = {"content_type": said.headers.get("content-type", ""), "date": said.headers["date"]}
        return answer(said.status_code, said.content, connection="close", **kept)

    with serving(proxy) as front:
        worker = Worker(
            Client(front.url, key=app.create_api_key("proxied", "worker").text), queues={"mail": 4}, heartbeat=0.1
        )

        @worker.handler("welcome")
        async def welcome(size: int, ctx: Context) -> str:
            if size:
                ctx.log("y" * 30_000)
                await asyncio.sleep(0.5)
            return "x" * size

        working(worker)
        small = client.enqueue("welcome", {"size": 0})
        assert client.result(small.id, wait=30).unwrap() == ""
        assert (unknown, len(client.attempts(small.id))) == ([], 1)
        large = client.result(client.enqueue("welcome", {"size": 30_000}).id, wait=30)
        assert (large.status, "its outcome was refused" in (large.error or "")) == ("dead", True)
        worker.stop()


def _forwarded(asked: Any, server: Any) -> bytes:
    said = httpx2.request(
        asked.method,
        server.address + asked.target,
        content=asked.body,
        headers={name: asked.headers[name] for name in ("authorization", "content-type") if name in asked.headers},
        timeout=60,
    )
    kept = {"content_type": said.headers.get("content-type", ""), "date": said.headers["date"]}
    return answer(said.status_code, said.content, connection="close", **kept)


def test_a_job_that_ended_and_was_lost_frees_its_slot(app: Headway, server: Any, client: Client, working: Any) -> None:
    """A heartbeat with its last words says that the lease is lost, while its end waits to be written."""
    lost: list[bytes] = []

    def proxy(asked: Any) -> bytes:
        if not lost and b'"log"' in asked.body:
            lost.append(asked.body)
            problem = {"title": "Lease lost", "status": 409, "code": "LeaseLost", "detail": "not registered (any more)"}
            return answer(409, json.dumps(problem), content_type="application/problem+json", connection="close")
        return _forwarded(asked, server)

    with serving(proxy) as front:
        key = app.create_api_key("proxied", "worker").text
        worker = Worker(Client(front.url, key=key), queues={"mail": 1}, grace=1.0)

        @worker.handler("welcome")
        async def welcome(ctx: Context) -> int:
            if not lost:
                ctx.log("its last words")
            return ctx.fence

        working(worker)
        client.enqueue("welcome")
        _until(lambda: lost)
        assert client.result(client.enqueue("welcome").id, wait=30).status == "succeeded"
        worker.stop()


def test_a_job_that_is_lost_before_it_begins_frees_its_slot(app: Headway, server: Any, client: Client) -> None:
    """As a heartbeat's answer may come in the same moment as the claim's."""

    class Hasty(Worker):
        began = 0

        def _start(self, job: dict[str, Any]) -> bool:
            started = super()._start(job)
            Hasty.began += 1
            if Hasty.began == 1:
                self._lose("the test says so")
            return started

    worker = Hasty(Client(server.address, key=app.create_api_key("hasty", "worker").text), queues={"mail": 1}, grace=1)

    @worker.handler("welcome")
    async def welcome(ctx: Context) -> int:
        return ctx.fence

    thread = threading.Thread(target=lambda: asyncio.run(worker.arun()), daemon=True)
    thread.start()
    client.enqueue("welcome")
    _until(lambda: Hasty.began == 1)
    assert client.result(client.enqueue("welcome").id, wait=30).status == "succeeded"
    worker.stop()
    thread.join(30)


def test_a_claim_whose_answer_got_lost_is_made_again_under_its_own_name(
    app: Headway, server: Any, client: Client, working: Any
) -> None:
    """So the job that it brought is run, and by its first execution."""
    made = client.enqueue("welcome")
    names: list[str] = []

    def proxy(asked: Any) -> bytes:
        said = _forwarded(asked, server)
        if asked.target.endswith("/worker/jobs/claim"):
            names.append(json.loads(asked.body)["claim_id"])
            if len(names) <= 2:
                return b""
        return said

    with serving(proxy) as front:
        worker = Worker(
            Client(front.url, key=app.create_api_key("proxied", "worker").text), queues={"mail": 1}, grace=1.0
        )

        @worker.handler("welcome")
        async def welcome(ctx: Context) -> int:
            return ctx.fence

        working(worker)
        assert client.result(made.id, wait=30).unwrap() == 1
        worker.stop()
    assert len(set(names[:3])) == 1


def test_a_worker_outlasts_answers_of_another_program(app: Headway, server: Any, client: Client, working: Any) -> None:
    """Such as a page "we will be back soon" that is JSON and says 200."""
    strange = {"/worker/jobs/claim": 1, "/worker/settle": 1, "/worker/heartbeat": 2}

    def proxy(asked: Any) -> bytes:
        path = asked.target.removeprefix("/api/v1")
        if strange.get(path):
            strange[path] -= 1
            return answer(200, '{"status": "maintenance"}', content_type="application/json", connection="close")
        headers = {name: asked.headers[name] for name in ("authorization", "content-type") if name in asked.headers}
        said = httpx2.request(
            asked.method, server.address + asked.target, content=asked.body, headers=headers, timeout=60
        )
        kept = {"content_type": said.headers.get("content-type", ""), "date": said.headers["date"]}
        return answer(said.status_code, said.content, connection="close", **kept)

    with serving(proxy) as front:
        key = app.create_api_key("proxied", "worker").text
        worker = Worker(Client(front.url, key=key), queues={"mail": 4}, heartbeat=0.05)

        @worker.handler("welcome")
        async def welcome() -> None:
            await asyncio.sleep(60)

        @worker.handler("report")
        async def report() -> str:
            return "done"

        working(worker)
        canceled, ends = client.enqueue("welcome"), client.enqueue("report")
        assert client.result(ends.id, wait=20).unwrap() == "done"
        _until(lambda: not any(strange.values()))
        client.cancel(canceled.id)  # heartbeats go on
        assert client.result(canceled.id, wait=20).status == "canceled"
        worker.stop()
