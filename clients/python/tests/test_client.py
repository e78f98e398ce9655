"""The client's verbs against a real server."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json
import re
import socket
import threading
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NotRequired, TypedDict
from uuid import uuid4

import pytest
from headway_client import (
    ApiError,
    AsyncClient,
    Attempt,
    Client,
    Duplicate,
    Gone,
    Invalid,
    Job,
    JobFailed,
    LogText,
    NotAllowed,
    NotFinished,
    NotFound,
    Settings,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
)
from headway_client.convert import from_json, to_json
from headway_client.errors import ConfigError
from headway_client.outcomes import Spawn
from headway_client.settings import seconds
from headway_client.streams import EventReader
from pydantic import BaseModel

from headway import Headway, config
from tests.connectors.loopback import answer, serving
from tools.async_client import CLIENT, derived


@dataclasses.dataclass
class Welcome:
    user_id: int
    at: datetime | None = None


class Order(BaseModel):
    n: int
    tags: list[str] = []


def test_jobs(app: Headway, client: Client) -> None:
    made = client.enqueue("welcome", {"user_id": 7}, priority=5, delay=timedelta(hours=1))
    assert (made.created, made.kind, made.queue, made.status) == (True, "welcome", "mail", "scheduled")
    job = client.get(made.id)
    assert (job.payload, job.priority, job.fields["max_attempts"]) == ({"user_id": 7}, 5, 3)
    assert job.created_at is not None
    assert job.created_at.tzinfo is not None
    assert client.run(made.id) == "queued"
    assert client.change(made.id, priority=1).priority == 1
    assert client.result(made.id).status == "queued"
    with pytest.raises(NotFinished):
        client.result(made.id, wait=0.1).unwrap()
    assert client.why(made.id)
    assert client.cancel(made.id, reason="enough") == "canceled"
    with pytest.raises(JobFailed, match="canceled: enough"):
        client.result(made.id).unwrap()
    assert client.reschedule(made.id, delay=timedelta(hours=1)).status == "scheduled"
    at = datetime(2030, 1, 2, tzinfo=UTC)
    assert client.reschedule(made.id, scheduled_for=at).scheduled_for == at
    for wrong in ({}, {"delay": 1, "scheduled_for": at}):
        with pytest.raises(TypeError, match="give a time"):
            client.reschedule(made.id, **wrong)
    client.cancel(made.id)
    later = client.retry(made.id, delay=timedelta(hours=1), max_attempts=9, payload=Welcome(8), keep_place=False)
    assert (later.status, later.fields["max_attempts"], later.payload["user_id"]) == ("scheduled", 9, 8)
    with pytest.raises(NotAllowed, match="plain job"):
        client.fork(made.id, 1, {"n": 1}, step="start")
    assert client.attempts(made.id) == []
    many = client.enqueue_many([{"kind": "order", "payload": Order(n=n)} for n in range(5)])
    assert len({each.id for each in many}) == 5
    assert [job.payload["n"] for job in client.jobs(kind="order", limit=2)] == [4, 3]
    assert [job.payload["n"] for job in client.jobs(kind="order")] == [4, 3, 2, 1, 0]
    page = client.page(limit=2)
    assert (len(page.items), page.next_cursor is not None) == (2, True)
    at = datetime(2030, 1, 2, tzinfo=UTC)
    assert client.get(client.enqueue("welcome", Welcome(7, at)).id).payload == {"user_id": 7, "at": at.isoformat()}
    assert client.signal(many[0].id, "go", {"n": 1}, dedup_key="k") == client.signal(many[0].id, "go", dedup_key="k")
    assert app.get_event(client.emit("sold", {"n": 1})).name == "sold"


def test_a_list_has_at_most_so_many_jobs_over_several_pages(client: Client) -> None:
    """As `app.jobs(limit=50)` has it."""
    made = [each.id for each in client.enqueue_many([{"kind": "order"}] * 205)]
    made.reverse()
    assert [job.id for job in client.jobs(kind="order")] == made[:50]
    assert [job.id for job in client.jobs(kind="order", limit=203)] == made[:203]
    assert [job.id for job in client.jobs(kind="order", limit=None)] == made
    assert [job.id for job in client.jobs(kind="order", limit=202, offset=2)] == made[2:204]
    with pytest.raises(Invalid, match="Expected `int` >= 1"):
        list(client.jobs(limit=0))


def test_waiting_jobs_are_moved(client: Client) -> None:
    one, two, three = (each.id for each in client.enqueue_many([{"kind": "welcome"}] * 3))

    def line() -> list[str]:
        return [job.id for job in client.jobs(queue="mail", order="run")]

    assert client.move(three, first=True).id == three
    assert line() == [three, one, two]
    client.move(three, after=one)
    assert line() == [one, three, two]
    client.move(two, before=one)
    assert line() == [two, one, three]
    client.move(two, last=True)
    assert line() == [one, three, two]
    with pytest.raises(Invalid, match="first"):
        client.move(one)


def test_errors_are_types(client: Client) -> None:
    client.enqueue("welcome", {"user_id": 1}, unique_key="k")
    with pytest.raises(Duplicate) as refused:
        client.enqueue("welcome", {"user_id": 1}, unique_key="k", on_conflict="raise")
    assert refused.value.job_id
    assert refused.value.request_id
    with pytest.raises(NotFound):
        client.get(str(uuid4()))
    with pytest.raises(Invalid, match="wlecome"):
        client.enqueue("wlecome")
    with pytest.raises(NotAllowed):
        client.delete(client.enqueue("welcome").id)
    with pytest.raises(TypeError, match="object has no JSON"):
        client.enqueue("welcome", {"x": object()})
    wrong = client.settings.key[:-1] + ("a" if client.settings.key[-1] != "a" else "b")
    with Client(client.settings.api, key=wrong) as stranger, pytest.raises(Unauthorized):
        stranger.get(str(uuid4()))


def test_the_async_client_is_the_same(client: Client) -> None:
    assert (CLIENT / "aio.py").read_text("utf-8") == derived(), "run make format"

    async def ask() -> None:
        async with AsyncClient(settings=client.settings) as ask:
            made = await ask.enqueue("welcome", {"user_id": 7})
            assert (await ask.get(made.id)).payload == {"user_id": 7}
            assert [job.id async for job in ask.jobs()] == [made.id]
            assert (await ask.result(made.id, wait=0.1)).status == "queued"

    asyncio.run(ask())


def test_a_lost_answer_creates_one_job(app: Headway, client: Client) -> None:
    """A proxy that breaks the connection after the server has answered: the request is sent again."""
    listener = socket.create_server(("127.0.0.1", 0))
    target = ("127.0.0.1", int(client.settings.api.rpartition(":")[2]))
    seen: list[bytes] = []

    def serve() -> None:
        for turn in range(2):
            near, _ = listener.accept()
            with near, socket.create_connection(target) as far:
                asked = near.recv(65_536)
                while b"\r\n\r\n" not in asked or not asked.rstrip().endswith(b"}"):
                    asked += near.recv(65_536)
                seen.append(asked)
                far.sendall(asked)
                answer = far.recv(65_536)
                while not answer.rstrip().endswith(b"}"):
                    answer += far.recv(65_536)
                if turn:
                    near.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with Client(settings=dataclasses.replace(client.settings, api=address)) as broken:
        made = broken.enqueue("welcome", {"user_id": 7})
    thread.join(10)
    listener.close()
    keys = [line for asked in seen for line in asked.split(b"\r\n") if line.lower().startswith(b"idempotency-key")]
    assert (len(keys), len(set(keys))) == (2, 1)
    assert [job.id for job in app.jobs()] == [made.id]


def test_an_answer_that_is_not_as_promised_is_refused_and_no_redirect_is_followed() -> None:
    close = {"connection": "close"}
    said = {
        "html": answer(200, "<html>", **close),
        "other": answer(200, '{"id": 7}', **close),
        "list": answer(200, "[]", **close),
        "moved": answer(302, location="http://127.0.0.1:1/", **close),
        "proxy": answer(502, "<html>", **close),
        "event": answer(200, "event: job\ndata: {}\n\n", **close),
    }
    with serving(lambda asked: said[asked.target.split("/")[4]]) as server:
        settings = Settings(api=server.url, key="hw_x", retries=0)
        with Client(settings=settings) as client:
            for name in ("html", "other", "list"):
                with pytest.raises(UnexpectedAnswer, match=f"GET /jobs/{name} is not as promised"):
                    client.get(name)
            for ask in (client.get, lambda name: list(client.stream(name))):
                with pytest.raises(UnexpectedAnswer, match="302 with no content type"):
                    ask("moved")
                with pytest.raises(ApiError) as refused:
                    ask("proxy")
                assert refused.value.status == 502
                assert isinstance(refused.value, Unavailable)
            with pytest.raises(UnexpectedAnswer, match='an event "job" of the stream'):
                list(client.stream("event"))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 429, 500])
@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("text/html", "<html>"),
        ("application/json", '{"code": "NotFound"}'),
        ("application/problem+json", '{"title": "of another API"}'),
        ("application/problem+json", '{"code": 7}'),
        ("application/problem+json", "<html>"),
    ],
)
def test_the_refusal_of_another_program_is_not_the_apis(status: int, media_type: str, body: str) -> None:
    said = answer(status, body, content_type=media_type, connection="close")
    with (
        serving(lambda _: said) as server,
        Client(settings=Settings(api=server.url, key="hw_x", retries=0)) as client,
    ):
        for ask in (client.get, client.enqueue, client.cancel, lambda name: list(client.stream(name))):
            with pytest.raises(UnexpectedAnswer, match=re.escape(f"{status} with {media_type}")) as refused:
                ask("x")
            assert refused.value.status == status


def test_a_database_that_is_away_is_unavailable() -> None:
    said = answer(503, '{"code": "StoreUnavailable"}', content_type="application/problem+json", connection="close")
    with serving(lambda _: said) as server, Client(settings=Settings(api=server.url, key="hw_x", retries=0)) as client:
        with pytest.raises(Unavailable) as away:
            client.get("x")
        assert isinstance(away.value, ApiError)
        assert (away.value.status, away.value.code) == (503, "StoreUnavailable")


def test_a_problem_with_a_charset_is_the_apis() -> None:
    said = answer(404, '{"code": "NotFound"}', content_type="Application/Problem+JSON; charset=utf-8")
    with (
        serving(lambda _: said) as server,
        Client(settings=Settings(api=server.url, key="hw_x")) as client,
        pytest.raises(NotFound),
    ):
        client.get("x")


def test_a_proxys_page_while_the_server_is_away_is_tried_again() -> None:
    turns = iter([502, 503, 504])

    def script(_: Any) -> bytes:
        status = next(turns, 200)
        return answer(status, "<html>" if status != 200 else '{"status": "canceled"}', connection="close")

    with serving(script) as server, Client(settings=Settings(api=server.url, key="hw_x", retries=3)) as client:
        assert client.cancel("x") == "canceled"


def test_a_stream_resumes_where_it_was_cut() -> None:
    job = {"id": "x", "kind": "k", "queue": "q", "payload": {}}
    parts = [
        [("job", "1-0", job | {"status": "running"}), ("log", "1-4", {"fence": 1, "from": 0, "to": 4, "text": "ü€\n"})],
        [("attempt", "1-4", {"fence": 1, "status": "succeeded"}), ("new", "", {})],
        [("job", "1-4", job | {"status": "succeeded"})],
        [("job", "1-4", job | {"status": "succeeded"}), ("gone", "1-4", {}), ("job", "", {})],
    ]
    turns = iter(parts)

    def script(_: Any) -> bytes:
        text = "".join(f"event: {n}\nid: {i}\ndata: {json.dumps(v)}\n\n" for n, i, v in next(turns))
        return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hi\n\n" + text.encode()

    async def followed(settings: Settings) -> list[Any]:
        async with AsyncClient(settings=settings) as ask:
            return [each async for each in ask.stream("x", follow=True)]

    with serving(script) as server:
        settings = Settings(api=server.url, key="hw_x", retries=1)
        with Client(settings=settings) as near:
            found = list(near.stream("x"))
        assert [type(each) for each in found] == [Job, LogText, Attempt, Job]
        assert (found[1], found[3].status) == (LogText(1, 0, 4, "ü€\n"), "succeeded")
        assert [each.headers.get("last-event-id") for each in server.asked] == [None, "1-4", "1-4"]
        # with follow, the job's end is not the stream's
        assert [type(each) for each in asyncio.run(followed(settings))] == [Job, Gone]
    text = ': hi\r\nevent: job\r\nid: 1-2\r\ndata: {"a":\r\ndata: "ü€😀"}\r\n\r\ndata:plain\n\nid\ndata: x\r\rdata: cut'
    data = text.encode()
    for size in (1, 2, 3, 7, len(data)):
        reader = EventReader()
        events = [each for at in range(0, len(data), size) for each in reader.feed(data[at : at + size])]
        assert [(each.event, each.data, each.id) for each in events] == [
            ("job", '{"a":\n"ü€😀"}', "1-2"),
            ("message", "plain", "1-2"),
            ("message", "x", ""),
        ]


def test_a_server_that_is_away_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    settings = Settings(api=address, key="hw_x", retries=1)
    with Client(settings=settings) as client, pytest.raises(Unavailable, match=f"{address} .* 2 times"):
        client.get("x")


def test_settings_are_read_strictly() -> None:
    found = Settings.read(
        {"HEADWAY_API": "https://x/", "HEADWAY_KEY": "hw_a", "HEADWAY_GRACE": "2m", "HEADWAY_URL": "x"}
    )
    assert (found.api, found.key, found.grace) == ("https://x", "hw_a", 120.0)
    assert seconds("250ms") == 0.25
    # what the engine takes for its own HEADWAY_GRACE
    assert Settings.read({"HEADWAY_KEY": "hw_a", "HEADWAY_GRACE": "1m 30s"}).grace == 90.0
    for environ, named in (
        ({}, "HEADWAY_KEY"),
        ({"HEADWAY_KEY": "abc"}, "HEADWAY_KEY"),
        ({"HEADWAY_KEY": "hw_a", "HEADWAY_TIMEOUT": "soon"}, "HEADWAY_TIMEOUT='soon'"),
        ({"HEADWAY_KEY": "hw_a", "HEADWAY_RETRIES": "-1"}, "HEADWAY_RETRIES"),
        ({"HEADWAY_KEY": "hw_a", "HEADWAY_API": "localhost"}, "HEADWAY_API"),
        ({"HEADWAY_KEY": "hw_a", "HEADWAY_LOG_FORMAT": "xml"}, "HEADWAY_LOG_FORMAT"),
        ({"HEADWAY_KEY": "hw_a", "HEADWAY_LOG_LEVEL": "loud"}, "HEADWAY_LOG_LEVEL"),
        ({"HEADWAY_KEY": "hw_a", "HEADWAY_TENANT": " "}, "HEADWAY_TENANT"),
        ({"HEADWAY_KEY": "hw_a", "HEADWAY_OTEL": "maybe"}, "HEADWAY_OTEL"),
        ({"HEADWAY_KEY": "hw_a", "HEADWAY_TIMEOUTS": "1"}, "HEADWAY_TIMEOUT"),
        ({"HEADWAY_KEY": "hw_a\n"}, "HEADWAY_KEY"),
        ({"HEADWAY_KEY": "hw_a", "HEADWAY_TENANT": "\xe4"}, "HEADWAY_TENANT"),
        ({"HEADWAY_KEY": "hw_a", "HEADWAY_TIMEOUT": "0s"}, "HEADWAY_TIMEOUT"),
        ({"HEADWAY_KEY": "hw_a", "HEADWAY_API": "http://x:y"}, "HEADWAY_API='http://x:y'"),
        ({"HEADWAY_KEY": "hw_a", "HEADWAY_API": "http://x:70000"}, "HEADWAY_API"),
        ({"HEADWAY_KEY": "hw_a", "HEADWAY_API": "http://[::1"}, "HEADWAY_API"),
        ({"HEADWAY_KEY": "hw_a", "HEADWAY_API": "http://x/?y=1"}, "HEADWAY_API"),
    ):
        with pytest.raises(ConfigError) as wrong:
            Settings.read(environ)
        assert named in str(wrong.value)
        assert "abc" not in str(wrong.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("HEADWAY_KYE", "HEADWAY_KEY"),
        ("HEADWAY_KEYS", "HEADWAY_KEY"),
        ("HEADWAY_API_KEY", "HEADWAY_KEY"),
        ("HEADWAY_APi", "HEADWAY_API"),
        ("headway_api", "HEADWAY_API"),
        ("HEADWAY_AIP", "HEADWAY_API"),
        ("HEADWAY_API_URL", "HEADWAY_API"),
        ("HEADWAY_RETRYS", "HEADWAY_RETRIES"),
        ("HEADWAY_OTLE", "HEADWAY_OTEL"),
        ("HEADWAY_LOGLEVEL", "HEADWAY_LOG_LEVEL"),
        ("HEADWAY_LOG_FROMAT", "HEADWAY_LOG_FORMAT"),
    ],
)
def test_a_name_that_is_nearly_a_settings_is_refused(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is not a setting: do you mean {meant}\\?"):
        Settings.read({"HEADWAY_API": "https://x", "HEADWAY_KEY": "hw_a", name: "http://y"})


def test_variables_of_the_engine_and_of_kubernetes_are_left_alone() -> None:
    ours = {field.name for field in dataclasses.fields(Settings)}
    names = {*config.NAMES, *(f"server_{name}" for name in config.SERVER_NAMES)} - ours
    names |= {f"oidc_{name}" for name in config.OIDC_NAMES}
    names |= {"config", "process", "runtime_dir", "supervisor_fd", "listener_fd", "shares_fd", "dev_link", "dev_key"}
    names |= {"webhook_secret", "test_url", "job_id", "attempt", "trace_id", "log_fields"}
    # of services that are called headway and headway-api
    names |= {"port", "service_host", "port_8420_tcp", "api_port", "api_service_host", "api_port_8420_tcp_addr"}
    environ = {f"HEADWAY_{name.upper()}": "x" for name in names}
    assert Settings.read(environ | {"HEADWAY_KEY": "hw_a"}) == Settings(key="hw_a")


def test_an_address_has_no_password_and_may_name_the_path_of_the_api() -> None:
    for address in ("http://user:pw@host", "http://pw@host/below", "ftp://user:pw@host"):
        with pytest.raises(ConfigError, match="HEADWAY_API=… ") as wrong:
            Settings.read({"HEADWAY_KEY": "hw_a", "HEADWAY_API": address})
        assert "pw" not in str(wrong.value)
        with pytest.raises(ConfigError, match="the address ") as wrong:
            Settings.read({"HEADWAY_KEY": "hw_a"}, api=address)
        assert "pw" not in str(wrong.value)
    with pytest.raises(ConfigError, match="set HEADWAY_KEY"):
        Settings.read({"HEADWAY_KEY": "hw_a", "HEADWAY_API": "https://user:pw@host"})
    for address, used in (
        ("https://host/api/v1", "https://host"),
        ("https://host/below//api/v1/", "https://host/below"),
        ("https://host/below/", "https://host/below"),
        ("http://api/v1", "http://api/v1"),
    ):
        assert Settings.read({"HEADWAY_KEY": "hw_a", "HEADWAY_API": address}).api == used


def test_values_become_json_and_back() -> None:
    at = datetime(2030, 1, 2, tzinfo=UTC)
    value: Any = {"w": Welcome(1, at), "o": Order(n=2), "d": timedelta(seconds=2), "u": uuid4(), "s": {1}}
    said = to_json(value)
    assert said["w"] == {"user_id": 1, "at": at.isoformat()}
    assert (said["o"], said["d"], said["s"]) == ({"n": 2, "tags": []}, "PT2S", [1])
    assert from_json(said["w"], Welcome) == Welcome(1, at)
    assert from_json([said["o"]], list[Order]) == [Order(n=2)]
    assert from_json({"a": said["w"]}, dict[str, Welcome | None]) == {"a": Welcome(1, at)}


class Visit(TypedDict):
    day: date
    spans: NotRequired[Sequence[timedelta]]


def test_times_and_durations_come_back_as_they_went() -> None:
    values: list[tuple[Any, Any]] = [
        (date(2030, 1, 2), date),
        (dt.time(3, 4, tzinfo=UTC), dt.time),
        (timedelta(days=-1, microseconds=7), timedelta),
        ((7, timedelta(0)), tuple[int, timedelta]),
        ((date(2030, 1, 2), date(2030, 1, 3)), tuple[date, ...]),
        (frozenset({date(2030, 1, 2)}), frozenset[date]),
        ({"day": date(2030, 1, 2), "spans": [timedelta(hours=1)]}, Visit),
    ]
    for value, kind in values:
        assert from_json(json.loads(json.dumps(to_json(value))), kind) == value
    # options are not: they may be texts such as "5m"
    assert Spawn([{"kind": "a", "delay": timedelta(minutes=5)}]).said()["spawn"] == [{"kind": "a", "delay": 300.0}]
    for wrong, kind in (("P", timedelta), ("1h", timedelta), ([1], tuple[int, int])):
        with pytest.raises(ValueError, match=r"duration|longer"):
            from_json(wrong, kind)


def test_the_engine_reads_what_the_client_sends(app: Headway, client: Client) -> None:
    found = []

    @app.job(name="welcome", queue="mail")
    def welcome(day: date, at: datetime, span: timedelta) -> None:
        found.append((day, at, span))

    day, at, span = date(2030, 1, 2), datetime(2030, 1, 2, 3, tzinfo=UTC), timedelta(hours=1, microseconds=1)
    job = client.enqueue("welcome", {"day": day, "at": at, "span": span}, delay=timedelta(days=1))
    client.change(job.id, delay=timedelta(0))
    app.run(until_idle=True)
    assert found == [(day, at, span)]
