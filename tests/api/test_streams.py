"""Streams: one query a second for all listeners; they resume, and a slow reader is dropped."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from headway import Headway
from headway.api import Api, streams
from headway.model.job import Report
from tests.api.conftest import Stream
from tests.store.db import new_worker, settlement


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "EVERY_S", 0.01)
    monkeypatch.setattr(streams, "_CHECK_S", 0.01)


async def until(stream: Stream, says: str) -> list[tuple[str, str, Any]]:
    """The events up to one of this name: each with its name, its id and its data."""
    found: list[tuple[str, str, Any]] = []
    while not found or found[-1][0] != says:
        for text in (await asyncio.wait_for(stream.next(), 30)).split("\n\n"):
            if text:
                name, event_id, data = (line.partition(": ")[2] for line in text.split("\n"))
                found.append((name, event_id, json.loads(data)))
    return found


def test_a_stream_tells_what_happens_and_resumes(app: Headway, api: Api, loop: Any, keys: dict[str, str]) -> None:
    acme, store, worker = app.tenant("acme"), app.store, new_worker()
    job_id = acme.enqueue("report", max_attempts=2).id
    headers = {"Authorization": f"Bearer {keys['producer']}"}
    path = f"/api/v1/jobs/{job_id}"
    store.run(store.ops.register(worker))

    async def watch() -> None:
        async with Stream(api, f"{path}/stream", headers) as stream:
            assert ("content-type", "text/event-stream; charset=utf-8") in stream.headers
            ((name, _, job),) = await until(stream, "job")
            assert (name, job["status"]) == ("job", "queued")
            (claim,) = await store.arun(store.ops.claim(worker.id, "default", 1))
            assert (await until(stream, "job"))[-1][2]["status"] == "running"
            await store.arun(store.ops.report(worker.id, [Report(job_id, 1, 0.5, "half", "first\nline", 10)]))
            told = await until(stream, "job")
            assert told[0] == ("log", "1-10", {"fence": 1, "from": 0, "to": 10, "text": "first\nline"})
            assert (told[-1][2]["progress"], told[-1][2]["progress_note"]) == (0.5, "half")
        await store.arun(store.ops.report(worker.id, [Report(job_id, 1, 0.6, None, "line\nsecond", 17)]))
        resumed = headers | {"Last-Event-ID": "1-10"}
        async with Stream(api, f"{path}/logs", resumed | {"Accept": "text/event-stream"}) as stream:
            ((_, event_id, log),) = await until(stream, "log")
            assert (event_id, log["from"], log["text"]) == ("1-17", 10, "\nsecond")
        async with Stream(api, f"{path}/stream", resumed) as stream:
            assert [name for name, _, _ in await until(stream, "job")] == ["log", "job"]
            await store.arun(store.ops.settle(worker.id, [settlement(claim, "dead", error="no")]))
            told = await until(stream, "job")
            assert [name for name, _, _ in told] == ["attempt", "job"]
            assert (told[0][2]["attempt_no"], told[0][2]["error_text"], told[1][2]["status"]) == (1, "no", "dead")
            await acme.adelete(job_id)
            assert (await until(stream, "gone"))[-1][0] == "gone"
            assert await stream.next() == "", "nothing comes after it"

    loop.run_until_complete(watch())
    assert api._streams._pollers == {}


def test_the_head_of_a_stream_ends(app: Headway, client: Any, keys: dict[str, str]) -> None:
    path = f"/jobs/{app.tenant('acme').enqueue('report').id}"
    ask = client(keys["viewer"])
    for asked, headers in ((f"{path}/stream?", {}), (f"{path}/logs?", {"Accept": "text/event-stream, */*"})):
        said = ask._loop.run_until_complete(
            asyncio.wait_for(ask._ask("HEAD", f"/api/v1{asked}", {**ask._headers, **headers}, {}), 10)
        )
        assert (said.status_code, said.content) == (200, b"")
        assert said.headers["content-type"] == "text/event-stream; charset=utf-8"


def test_each_stream_is_told_what_changed_since_its_own_beginning(
    app: Headway, api: Api, loop: Any, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that begins between a change and the next look takes nothing from those that were there before."""
    acme, store, worker = app.tenant("acme"), app.store, new_worker()
    job_id = acme.enqueue("report").id
    store.run(store.ops.register(worker))
    headers, path = {"Authorization": f"Bearer {keys['producer']}"}, f"/api/v1/jobs/{job_id}/stream"

    async def watch() -> None:
        (claim,) = await store.arun(store.ops.claim(worker.id, "default", 1))
        async with Stream(api, path, headers) as first:
            await until(first, "job")
            monkeypatch.setattr(streams, "EVERY_S", 0.5)
            await asyncio.sleep(0.05)
            await store.arun(store.ops.settle(worker.id, [settlement(claim, "dead", error="no")]))
            async with Stream(api, path, headers) as second:
                assert (await until(second, "job"))[-1][2]["status"] == "dead"
                told = await asyncio.wait_for(until(first, "job"), 5)
                assert [name for name, _, _ in told] == ["attempt", "job"]

    loop.run_until_complete(watch())


def test_a_job_is_told_to_be_over_after_its_last_attempt(
    app: Headway, api: Api, loop: Any, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it ends between the look that found it running and the read that shows it."""
    acme, store, worker = app.tenant("acme"), app.store, new_worker()
    job_id = acme.enqueue("report").id
    store.run(store.ops.register(worker))
    read = streams._Poller._read

    async def read_late(poller: Any, ids: list[str]) -> Any:
        if ids:
            (claim,) = claims
            await store.arun(store.ops.settle(worker.id, [settlement(claim, "dead", error="no")]))
        return await read(poller, ids)

    claims: list[Any] = []

    async def watch() -> None:
        headers = {"Authorization": f"Bearer {keys['producer']}"}
        async with Stream(api, f"/api/v1/jobs/{job_id}/stream", headers) as stream:
            await until(stream, "job")
            monkeypatch.setattr(streams._Poller, "_read", read_late)
            claims.extend(await store.arun(store.ops.claim(worker.id, "default", 1)))
            told = await until(stream, "job")
            assert [(name, said["status"]) for name, _, said in told] == [("attempt", "failed"), ("job", "dead")]

    loop.run_until_complete(watch())


def test_whatever_was_the_last_event_nothing_is_lost_and_nothing_told_twice(
    app: Headway, api: Api, loop: Any, keys: dict[str, str]
) -> None:
    acme, store, worker = app.tenant("acme"), app.store, new_worker()
    job_id = acme.enqueue("report", max_attempts=9).id
    store.run(store.ops.register(worker))
    headers, path = {"Authorization": f"Bearer {keys['producer']}"}, f"/api/v1/jobs/{job_id}/stream"

    async def attempt(text: str, to: str) -> None:
        (claim,) = await store.arun(store.ops.claim(worker.id, "default", 1))
        report = Report(job_id, claim.fence, None, None, text, len(text))
        await store.arun(store.ops.report(worker.id, [report]))
        await store.arun(store.ops.settle(worker.id, [settlement(claim, to, error="no")]))

    def told(events: list[tuple[str, str, Any]]) -> list[tuple[str, int]]:
        """Executions that ended, and logs."""
        return [(name, said.get("attempt_no") or said["fence"]) for name, _, said in events if name != "job"]

    async def watch() -> None:
        async with Stream(api, path, headers) as stream:
            seen = await until(stream, "job")
            await attempt("first", "queued")
            while told(seen) != [("log", 1), ("attempt", 1)]:
                seen += await until(stream, "job")
            await attempt("again", "queued")  # as long as the first
            while told(seen)[2:] != [("log", 2), ("attempt", 2)]:
                seen += await until(stream, "job")
        await attempt("while nobody listened", "queued")
        await attempt("to the end", "dead")
        async with Stream(api, path, headers | {"Last-Event-ID": seen[-1][1]}) as stream:
            seen += await until(stream, "job")
        whole = told(seen)
        assert whole[4:] == [("attempt", 3), ("log", 4), ("attempt", 4)], "of what nobody heard, the last log is there"
        for number, (_, event_id, _) in enumerate(seen[1:], 1):
            async with Stream(api, path, headers | {"Last-Event-ID": event_id}) as stream:
                rest = told(seen[: number + 1]) + told(await until(stream, "job"))
                ended = [each for each in rest if each[0] == "attempt"]
                assert ended == [("attempt", fence) for fence in (1, 2, 3, 4)], event_id
                assert rest.count(("log", 4)) == 1, event_id
        for odd in ("7-0", "999999999-5", "x", "4", "-1-1"):
            async with Stream(api, path, headers | {"Last-Event-ID": odd}) as stream:
                assert told(await until(stream, "job")) == [("log", 4)], "as without one"

    loop.run_until_complete(watch())


def test_a_stream_tells_what_an_operator_changes(app: Headway, api: Api, loop: Any, keys: dict[str, str]) -> None:
    acme = app.tenant("acme")
    job_id = acme.enqueue("report").id
    changes: list[dict[str, Any]] = [
        {"max_attempts": 7},
        {"max_losses": 8},
        {"timeout": "9s"},
        {"expires_at": datetime(2040, 1, 2, tzinfo=UTC)},
        {"priority": 3},
    ]

    async def watch() -> None:
        headers = {"Authorization": f"Bearer {keys['viewer']}"}
        async with Stream(api, f"/api/v1/jobs/{job_id}/stream", headers) as stream:
            await until(stream, "job")
            for each in changes:
                await acme.achange(job_id, **each)
                told = (await asyncio.wait_for(until(stream, "job"), 5))[-1][2]
        assert (told["max_attempts"], told["max_losses"], told["timeout_ms"]) == (7, 8, 9_000)
        assert told["expires_at"] == "2040-01-02T00:00:00Z"

    loop.run_until_complete(watch())


def test_a_stream_ends_when_its_job_leaves_the_queues_of_the_key(app: Headway, api: Api, loop: Any) -> None:
    acme = app.tenant("acme")
    job_id = acme.enqueue("report", queue="mail").id
    narrow = acme.create_api_key("mailer", "viewer", queues=["mail"]).text

    async def watch() -> None:
        path, headers = f"/api/v1/jobs/{job_id}/stream", {"Authorization": f"Bearer {narrow}"}
        async with Stream(api, path, headers) as stream:
            await until(stream, "job")
            await acme.achange(job_id, queue="vip")
            assert [name for name, _, _ in await until(stream, "gone")] == ["gone"]
            assert await stream.next() == ""

    loop.run_until_complete(watch())


def test_what_many_are_told_is_in_memory_once_and_sent_bit_by_bit(app: Headway) -> None:
    job = app.get(app.enqueue("report").id)
    few, many = (streams.Listener(job, None, only_log=False) for _ in range(2))
    said, logs = streams.said_of(job), {}
    seen = msgspec.structs.replace(streams.watched_of(job), status="running", fence=1)
    for each in (few, many):
        each.tell(seen, [], said)
        each.tell(msgspec.structs.replace(seen, log_tail="x" * 60_000, log_end=60_000), [], None, logs)
        each.tell(msgspec.structs.replace(seen, log_tail="y" * 60_000, log_end=120_000), [], None)
        each.tell_gone()
    assert few._to_send[0][1] is many._to_send[0][1]
    assert few._to_send[1][1] is many._to_send[1][1]

    async def read() -> list[bytes]:
        sent = []
        while not few.over:
            sent.append(await few.next())
        return sent

    first, last = asyncio.run(read())
    assert [each.count(b"event: ") for each in (first, last)] == [3, 1]
    assert b"event: log\nid: 1-120000\n" in first
    assert (last, few._bytes) == (b"event: gone\nid: 1-120000\ndata: {}\n\n", 0)


def test_a_dropped_reader_is_told_nothing_more(app: Headway) -> None:
    job = app.get(app.enqueue("report").id)
    listener, seen = streams.Listener(job, None, only_log=False), streams.watched_of(job)
    for end in range(1, 2 * streams._MOST_EVENTS):
        now = msgspec.structs.replace(seen, status="running", fence=1, log_tail="x" * end, log_end=end)
        listener.tell(now, [], None)
    assert (listener.dropped, list(listener._to_send)) == (True, []), "else it would resume after what it never got"


def test_a_stream_on_which_nothing_happens_stays_alive(
    app: Headway, api: Api, loop: Any, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_ALIVE_S", 0.01)
    job_id = app.tenant("acme").enqueue("report").id

    async def watch() -> None:
        async with Stream(
            api, f"/api/v1/jobs/{job_id}/stream", {"Authorization": f"Bearer {keys['viewer']}"}
        ) as stream:
            assert (await stream.next()).startswith("event: job\n")
            assert [await stream.next() for _ in range(2)] == [": nothing new\n\n"] * 2
            await app.tenant("acme").acancel(job_id)
            while (said := await stream.next()).startswith(":"):
                pass
            assert said.startswith("event: job\n"), "what comes afterwards is not lost"

    loop.run_until_complete(watch())


def test_many_streams_make_one_query_a_round(
    app: Headway, api: Api, loop: Any, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = app.tenant("acme")
    ids = [acme.enqueue("report").id for _ in range(5)]
    asked: Counter[str] = Counter()
    for name in ("watched", "get", "find", "attempts"):
        op = getattr(app.store.ops, name)

        def counted(*args: Any, _name: str = name, _op: Any = op, **options: Any) -> Any:
            asked[_name] += 1
            return _op(*args, **options)

        monkeypatch.setattr(type(app.store.ops), name, staticmethod(counted))
    headers = {"Authorization": f"Bearer {keys['producer']}"}

    async def watch() -> None:
        paths = [f"/api/v1/jobs/{ids[number % 5]}/stream" for number in range(50)]
        opened = [Stream(api, path, headers) for path in paths]
        for each in opened:
            await each.__aenter__()
            await each.next()
        asked.clear()
        while asked["watched"] < 5:
            await asyncio.sleep(0.01)
        assert set(asked) == {"watched"}, asked
        await acme.acancel(ids[0])
        for each in opened[::5]:
            assert (await until(each, "job"))[-1][2]["status"] == "canceled"
        for each in opened:
            await each.__aexit__()

    loop.run_until_complete(watch())


def test_a_slow_reader_a_revoked_key_and_a_stopping_server_end_a_stream(
    app: Headway, api: Api, loop: Any, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = app.tenant("acme")
    job_id = acme.enqueue("report").id
    made = acme.create_api_key("viewer", "viewer")
    path = f"/api/v1/jobs/{job_id}/stream"
    monkeypatch.setattr(streams, "_MOST_EVENTS", 3)

    async def watch() -> None:
        slow = Stream(api, path, {"Authorization": f"Bearer {keys['viewer']}"})
        await slow.__aenter__()
        for priority in range(1, 30):
            await acme.achange(job_id, priority=priority)
            await asyncio.sleep(0.02)
            if slow.task.done():
                break
        await asyncio.wait_for(slow.task, 30)
        async with Stream(api, path, {"Authorization": f"Bearer {made.text}"}) as stream:
            await until(stream, "job")
            await acme.arevoke_api_key(made.key.id)
            api.keys.forget(made.key.id)
            while await asyncio.wait_for(stream.next(), 30):
                pass
        async with Stream(api, path, {"Authorization": f"Bearer {keys['viewer']}"}) as stream:
            await until(stream, "job")
            api.stopping.set()
            while await asyncio.wait_for(stream.next(), 30):
                pass

    loop.run_until_complete(watch())
    assert api._streams._pollers == {}
