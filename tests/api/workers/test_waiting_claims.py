"""Claims that wait for work, and clients that go away meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from headway import Headway
from headway.api import Api
from headway.api.workers import waiting as waiting_claims
from headway.api.workers.caretaker import Caretaker
from headway.errors import StoreUnavailable
from headway.worker.trigger_runner import TriggerRunner


def _welcome(app: Headway, count: int = 1, **options: Any) -> list[str]:
    return [app.enqueue("welcome", {"user_id": n}, **options).id for n in range(count)]


def test_a_waiting_claim_gets_what_is_enqueued(
    app: Headway, api: Api, work: Any, loop: asyncio.AbstractEventLoop
) -> None:
    body = {"worker_id": work.id, "queues": ["mail"], "wait": 20}

    async def ask() -> Any:
        waiting = asyncio.create_task(
            work.ask._ask("POST", "/api/v1/worker/jobs/claim", work.ask._headers, {"json": body})
        )
        gateway = api._workers
        while gateway._waiting is None or not gateway._waiting._waiting:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(_welcome, app)
        return await waiting

    said = loop.run_until_complete(ask())
    assert len(said.json()["jobs"]) == 1


def test_new_queues_are_told_at_intervals(app: Headway, loop: asyncio.AbstractEventLoop) -> None:
    """Each telling sorts and counts all of them: with invented names, a claim would cost milliseconds of the loop."""
    told: list[list[str]] = []

    async def go() -> None:
        claims = waiting_claims.WaitingClaims(app, lambda _: 1, lambda queues: told.append(list(queues)))
        for n in range(200):
            claims._know([f"queue-{n}"])
        assert told == [["queue-0"]]
        while len(told) < 2:
            await asyncio.sleep(0.01)
        assert len(told[-1]) == 200
        claims._know(["queue-7"])
        await asyncio.sleep(2.2 * waiting_claims._TOLD_EVERY_S)
        assert len(told) == 2
        claims._know(["late"])
        assert len(told[-1]) == 201
        claims.start()
        await claims.stop()

    loop.run_until_complete(go())


def test_a_worker_that_leaves_ends_its_waiting_claims(
    app: Headway, api: Api, work: Any, loop: asyncio.AbstractEventLoop
) -> None:
    """A proxy may hide that its client hung up: nobody would get what such a claim takes."""
    body = {"worker_id": work.id, "queues": ["mail"], "wait": 20}

    async def go() -> Any:
        ask, headers = work.ask._ask, work.ask._headers
        waiting = asyncio.create_task(ask("POST", "/api/v1/worker/jobs/claim", headers, {"json": body}))
        while api._workers._waiting is None or not api._workers._waiting._waiting:
            await asyncio.sleep(0.01)
        leave = {"json": {"worker_id": work.id, "leave": True}}
        assert (await ask("POST", "/api/v1/worker/release", headers, leave)).status_code == 200
        await asyncio.to_thread(_welcome, app, 1, delivery="at_most_once")
        return await waiting

    assert loop.run_until_complete(go()).json()["jobs"] == []
    (job,) = app.jobs()
    assert (job.status, job.fence) == ("queued", 0)
    assert app.workers() == [each for each in app.workers() if each.id != work.id]


def test_a_claim_that_is_not_answered_yet_is_not_forgotten(
    app: Headway, api: Api, work: Any, loop: asyncio.AbstractEventLoop
) -> None:
    (job_id,) = _welcome(app)
    (job,) = work.claim()

    async def beat() -> Any:
        with api._workers.claiming(work.id) as claiming:
            claiming.taken = [(job_id, job["fence"])]
            said = [await beaten() for _ in range(3)]
        return [*said, await beaten()]

    async def beaten() -> Any:
        body = {"json": {"worker_id": work.id, "jobs": []}}
        said = (await work.ask._ask("POST", "/api/v1/worker/heartbeat", work.ask._headers, body)).json()
        return [len(said["released"]), len(said["lost"])]

    assert loop.run_until_complete(beat()) == [[0, 0], [0, 0], [0, 0], [1, 0]]


def test_a_worker_that_leaves_gives_back_what_it_has(app: Headway, work: Any) -> None:
    plain = app.enqueue("report", queue="mail").id
    once = app.enqueue("report", queue="mail", delivery="at_most_once").id
    assert len(work.claim()) == 2
    assert work.many("release", leave=True).status_code == 200
    found = [app.get(job_id) for job_id in (plain, once)]
    assert [(job.status, job.losses, job.tries) for job in found] == [("queued", 0, 0), ("failed", 0, 0)]
    assert [app.attempts(job_id)[0].error for job_id in (plain, once)] == ["its worker left"] * 2


def test_a_client_that_goes_away_while_it_waits_takes_nobodys_turn(
    app: Headway, api: Api, work: Any, loop: asyncio.AbstractEventLoop
) -> None:
    async def claim(worker_id: str, gone: asyncio.Event) -> Any:
        body = b'{"worker_id": "%s", "queues": ["mail"], "wait": 25}' % worker_id.encode()
        headers = [(b"host", b"127.0.0.1"), (b"authorization", work.ask._headers["Authorization"].encode())]
        sent: list[Any] = []
        said = [{"type": "http.request", "body": body}]

        async def receive() -> Any:
            if said:
                return said.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        path = "/api/v1/worker/jobs/claim"
        await api(
            {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}, receive, send
        )
        return msgspec.json.decode(sent[1]["body"])["jobs"]

    async def wait_for(count: int) -> None:
        while api._workers._waiting is None or api._workers._waiting.waiters("mail") != count:
            await asyncio.sleep(0.01)

    async def go() -> None:
        left, stays = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(claim(str(uuid4()), left))
        await wait_for(1)
        second = asyncio.create_task(claim(str(uuid4()), stays))
        await wait_for(2)
        left.set()  # it is woken and leaves in the same moment: the next in line gets the job
        await asyncio.to_thread(_welcome, app)
        assert [len(each) for each in await asyncio.gather(first, second)] == [0, 1]

    loop.run_until_complete(go())
    assert [job.status for job in app.jobs()] == ["running"]


def test_a_client_that_goes_away_gives_its_jobs_back(
    app: Headway, api: Api, work: Any, loop: asyncio.AbstractEventLoop
) -> None:
    _welcome(app)
    body = b'{"worker_id": "%s", "queues": ["mail"]}' % work.id.encode()
    headers = [(b"host", b"127.0.0.1")]
    headers += [(name.lower().encode(), value.encode()) for name, value in work.ask._headers.items()]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/worker/jobs/claim",
        "headers": headers,
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "root_path": "",
    }
    said = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]

    async def receive() -> Any:
        return said.pop(0) if said else {"type": "http.disconnect"}

    async def send(_: Any) -> None: ...

    loop.run_until_complete(api(scope, receive, send))
    (job,) = app.jobs()
    assert (job.status, job.fence, app.attempts(job.id)) == ("queued", 1, [])


def test_a_server_that_could_not_begin_to_work_leaves_no_connections(
    postgres_migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Headway(postgres_migrated_url)
    caretaker = Caretaker(app, "1", lambda: None)

    async def away(_: Any) -> None:
        raise StoreUnavailable("away")

    async def begin() -> None:
        monkeypatch.setattr(TriggerRunner, "begin", away)
        with pytest.raises(StoreUnavailable):
            await caretaker.start()
        (pool,) = caretaker._store._apool._of_loop.values()  # type: ignore[attr-defined]
        assert pool.idle == []
        await app.aclose()

    asyncio.run(begin())


@pytest.mark.parametrize("told", [True, False])
def test_a_job_wakes_a_claim_that_can_take_it(
    app: Headway, api: Api, client: Any, loop: asyncio.AbstractEventLoop, told: bool
) -> None:
    """Whoever has waited longer, for another tenant or other kinds, is left alone: `told` by the enqueue, or found."""
    acme, other = app.tenant("acme"), app.tenant("other")
    keys = {
        "acme": acme.create_api_key("w", "worker").text,
        "acme, reports": acme.create_api_key("w", "worker", kinds=["report"]).text,
        "other": other.create_api_key("w", "worker").text,
        "all": app.create_api_key("w", "worker").text,
    }
    kinds = {"all, orders": ["order@1"], "all, reports": ["report"]}
    elsewhere = app if told else Headway(app.url)

    async def claim(who: str) -> tuple[str, str] | None:
        body = {"worker_id": str(uuid4()), "queues": ["mail"], "wait": 20, "kinds": kinds.get(who, [])}
        ask = client(keys.get(who, keys["all"]))
        said = await ask._ask("POST", "/api/v1/worker/jobs/claim", ask._headers, {"json": body})
        jobs = said.json()["jobs"]
        return (who, jobs[0]["kind"]) if jobs else None

    async def until_waiting(count: int) -> Any:
        while api._workers._waiting is None or api._workers._waiting.waiters("mail") != count:
            await asyncio.sleep(0.01)
        return api._workers._waiting

    async def go() -> list[Any]:
        others = [asyncio.create_task(claim("other")) for _ in range(5)]
        waiting = await until_waiting(5)
        order = ["acme, reports", "all, orders", "acme", "all, reports"]
        tasks = []
        for each in order:
            tasks.append(asyncio.create_task(claim(each)))
            await until_waiting(5 + len(tasks))
        numbers = {each.number for each in waiting._waiting["mail"][other._visible_tenant]}
        # each suits just one of those that still wait
        jobs = [("acme", "welcome"), ("default", "report"), ("acme", "report"), ("default", "order")]
        for served, (tenant, kind) in enumerate(jobs, 1):
            payload = {"welcome": {"user_id": 1}, "order": {"n": 1}}.get(kind, {})
            await asyncio.to_thread(elsewhere.tenant(tenant).enqueue, kind, payload, queue="mail")
            while sum(each.done() for each in tasks) != served:
                await asyncio.sleep(0.01)
        assert {each.number for each in waiting._waiting["mail"][other._visible_tenant]} == numbers
        api.stopping.set()
        await asyncio.gather(*others)
        return [each.result() for each in tasks]

    found = loop.run_until_complete(go())
    if elsewhere is not app:
        elsewhere.close()
    assert found == [
        ("acme, reports", "report"),
        ("all, orders", "order"),
        ("acme", "welcome"),
        ("all, reports", "report"),
    ]


def test_the_claims_of_one_tenant_wait_for_so_many_queues(
    app: Headway, api: Api, client: Any, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_claims, "_MOST_OF_OWNER", 150)
    keys = [app.tenant(name).create_api_key("w", "worker").text for name in ("acme", "acme", "other")]

    async def claim(key: str) -> int:
        body = {"worker_id": str(uuid4()), "queues": [f"q{n}" for n in range(100)], "wait": 20}
        ask = client(key)
        return int((await ask._ask("POST", "/api/v1/worker/jobs/claim", ask._headers, {"json": body})).status_code)

    async def go() -> list[int]:
        tasks = [asyncio.create_task(claim(key)) for key in keys]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert [each.result() for each in done] == [429]
        while api._workers._waiting is None or api._workers._waiting.waiters("q0") != 2:
            await asyncio.sleep(0.01)
        api.stopping.set()
        return [await each for each in tasks]

    assert sorted(loop.run_until_complete(go())) == [200, 200, 429]
    assert api._workers._waiting._named == {}


def test_no_tenant_sees_the_queues_that_claims_of_others_name(app: Headway, loop: asyncio.AbstractEventLoop) -> None:
    """The server counts as a worker of them: a tenant that invents a thousand names would have them in each page of the
    others."""

    async def serve() -> None:
        caretaker = Caretaker(app, "1", lambda: None)
        caretaker.serve(["invented"])
        await caretaker.start()
        try:
            seen = [await asyncio.to_thread(each.queues) for each in (app.tenant("acme"), app)]
            assert ["invented" in {queue.name for queue in each} for each in seen] == [False, True]
        finally:
            await caretaker.stop()

    loop.run_until_complete(serve())
