"""Planted secrets under a worker: afterwards the whole database and all of the log are searched for them."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import structlog

from headway import Await, Cancel, Context, Done, Machine, Next, Replay, Retry, Snooze, Spawn, Stop, logs, step
from headway.model.outcome import Outcomes
from headway.secrets import Vault, read
from tests.secrets.planted_secrets import BY_NAME, BY_REFERENCE, PIN, PLANTED
from tests.worker_harness import WorkerHarness

pytestmark = pytest.mark.usefixtures("planted")


@pytest.fixture(params=["json", "terminal", "embedded"])
def log(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """What is logged, at its most talkative: as the command line configures it, or by a program's own handler."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    if request.param == "embedded":
        root.handlers[:] = [logging.StreamHandler(stream)]
        root.handlers[0].setFormatter(
            logging.Formatter("%(levelname)s %(message)s %(headway)s", defaults={"headway": ""})
        )
        root.setLevel("DEBUG")
    else:
        logs.configure("debug", json=request.param == "json", stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def quiet() -> Iterator[io.StringIO]:
    """The same in JSON, for tests whose matter is the database."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure("debug", json=True, stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def _everything(store: Any) -> str:
    """The whole database as text."""
    if store.dialect == "postgres":
        with psycopg.connect(store.url, autocommit=True) as conn:
            tables = conn.execute(
                "select quote_ident(table_schema) || '.' || quote_ident(table_name) from information_schema.tables"
                " where table_schema = 'headway' and table_type = 'BASE TABLE'"
            ).fetchall()
            assert len(tables) > 5
            rows = (row for (table,) in tables for row in conn.execute(f"select t.*::text from {table} as t"))
            return "\n".join(str(row[0]) for row in rows)
    path = Path(store.path)
    files = [file for end in ("", "-wal") if (file := path.with_name(path.name + end)).exists()]
    raw = [file.read_bytes().decode("utf-8", "replace") for file in files]
    # and as rows, where a text may go over several pages; of a copy, since two libraries may not share a file
    copies = [shutil.copy(file, file.with_name("copy-" + file.name)) for file in files]
    with closing(sqlite3.connect(copies[0])) as conn:
        tables = [name for (name,) in conn.execute("select name from sqlite_master where type = 'table'")]
        assert len(tables) > 5
        rows = [str(value) for table in tables for row in conn.execute(f"select * from {table}") for value in row]
    return "\n".join([*raw, *rows])


def _forms(value: str) -> set[str]:
    return {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}


def _search(place: str, text: str) -> None:
    for value in PLANTED:
        for form in _forms(value):
            at = text.find(form)
            assert at < 0, f"{value!r} is in the {place}: …{text[max(0, at - 200) : at + 60]}…"


def _no_trace(harness: WorkerHarness, log: io.StringIO, *expected: str) -> str:
    everything = _everything(harness.store)
    for text in expected:
        assert text in everything  # the search would find it
    _search("database", everything)
    _search("log", log.getvalue())
    return everything


def _reference(name: str = "PLANTED_PLAIN") -> Any:
    return {"$secret": name}


def test_a_handler_gets_the_secret_and_the_database_never(harness: WorkerHarness, log: io.StringIO) -> None:
    seen: list[Any] = []

    @harness.job
    async def login(user: str, password: str, more: dict[str, list[str]]) -> None:
        seen.append((user, password, more))

    given: dict[str, Any] = {"user": "ann-marker", "password": _reference(), "more": {"a": [_reference("PLANTED_PIN")]}}
    (job_id,) = harness.enqueue(login.build_from(given))
    harness.drain()
    assert seen == [("ann-marker", BY_REFERENCE, {"a": [PIN]})]
    assert harness.get(job_id).payload == given
    assert harness.get(job_id).status == "succeeded"
    _no_trace(harness, log, "ann-marker", "PLANTED_PLAIN")


def test_errors_tell_no_secrets(harness: WorkerHarness, log: io.StringIO) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            return "odd-marker " + BY_NAME

    @harness.job(max_attempts=1)
    def raises(password: str, how: str) -> None:
        if how == "chained":
            try:
                raise ValueError("inner-marker", password)
            except ValueError as error:
                raise KeyError(password) from error
        if how == "noted":
            error = RuntimeError("noted-marker")
            error.add_note(f"with {password} and {BY_NAME}")
            raise error
        if how == "long":
            raise ValueError("x" * 4_090 + password + "y" * 20_000 + BY_NAME)
        raise {
            "plain": ValueError(f"cannot log in with {password}"),
            "url": OSError(f"no route to {os.environ['PLANTED_ADDRESS']}"),
            "odd": Odd(),
            "retry": Retry("1h", f"later {password}"),
            "cancel": Cancel(f"gone {password}"),
            "bytes": ValueError(password.encode(), [password]),
        }[how]

    hows = ("chained", "noted", "long", "plain", "url", "odd", "retry", "cancel", "bytes")
    ids = harness.enqueue(*(raises.build_from({"password": _reference(), "how": how}) for how in hows))
    harness.drain()
    errors = {how: harness.last(job_id).error or "" for how, job_id in zip(hows, ids, strict=True)}
    assert "cannot log in with [redacted]" in errors["plain"]
    assert "postgresql://app:[redacted]@db.example.com/main" in errors["url"]
    assert errors["cancel"] == "gone [redacted]"
    for how, error in errors.items():
        assert "[redacted]" in error, how
        for piece in (BY_REFERENCE[:6], BY_NAME[:6], "by-ref"):
            assert piece not in error, how
    _no_trace(harness, log, "inner-marker", "noted-marker", "odd-marker")


def test_results_logs_and_notes_tell_no_secrets(harness: WorkerHarness, log: io.StringIO) -> None:
    @harness.job
    async def talks(ctx: Context, password: str, pin: str) -> Any:
        ctx.log(f"log-marker {password}")
        ctx.log(f"and {BY_NAME} at {os.environ['PLANTED_ADDRESS']}")
        ctx.progress(0.5, f"note-marker {password}")
        logging.getLogger("some.library").warning("library-marker %s", password, extra={"x": password})
        structlog.get_logger("other.library").info(
            "structured-marker", value=password, deep={"a": [BY_NAME]}, token="abc"
        )
        logs.get_logger("headway.job").warning("ours-marker", value=password, thing=Path(BY_NAME), token="abc")
        try:
            raise ValueError(password)
        except ValueError:
            logs.get_logger("headway.job").error("exception-marker", exc_info=True)
        return {"kept": "result-marker"}

    (job_id,) = harness.enqueue(talks.build_from({"password": _reference(), "pin": _reference("PLANTED_PIN")}))
    embedded = not isinstance(logging.getLogger().handlers[0].formatter, structlog.stdlib.ProcessorFormatter)
    if embedded:
        # other loggers are that program's own matter
        logging.getLogger("some.library").disabled = True
        structlog.configure(processors=[lambda *_: (_ for _ in ()).throw(structlog.DropEvent())])
    try:
        harness.drain()
    finally:
        logging.getLogger("some.library").disabled = False
    job = harness.get(job_id)
    assert job.result == {"kept": "result-marker"}
    _no_trace(harness, log, "result-marker", "log-marker")
    expected = ["ours-marker", "exception-marker", "log-marker [redacted]", "ValueError: [redacted]"]
    for text in expected if embedded else [*expected, "library-marker [redacted]", "structured-marker"]:
        assert text in log.getvalue()
    assert "'token': 'abc'" not in log.getvalue()
    assert '"token": "abc"' not in log.getvalue()


def test_a_result_with_a_secret_is_refused_and_not_tried_again(harness: WorkerHarness, log: io.StringIO) -> None:
    results: list[Any] = [
        ("$.header", {"header": f"Bearer {BY_REFERENCE}"}),
        ("$[1].a", [1, {"a": BY_REFERENCE}]),
        ("", {BY_REFERENCE: 1}),
        ("$.pin", {"pin": int(PIN)}),
    ]

    @harness.job(max_attempts=9)
    async def returns(place: int, password: str, pin: str) -> Any:
        return results[place][1]

    given = {"password": _reference(), "pin": _reference("PLANTED_PIN")}
    ids = harness.enqueue(*(returns.build_from({"place": place, **given}) for place in range(len(results))))
    harness.drain()
    for job_id, (where, _) in zip(ids, results, strict=True):
        job = harness.get(job_id)
        name = "PLANTED_PIN" if where == "$.pin" else "PLANTED_PLAIN"
        assert (job.status, job.tries, job.result) == ("dead", 1, None)
        assert job.error == (
            f"the result holds the value of the secret {name}{where and ' at ' + where}, which is never stored: leave "
            f'it out, or give the reference {{"$secret": "{name}"}} to the job that needs it'
        )
    _no_trace(harness, log, "which is never stored")


def test_a_machine_with_a_secret_in_what_it_stores_is_refused(harness: WorkerHarness, quiet: io.StringIO) -> None:
    @harness.job
    async def child(value: str = "") -> str:
        return value

    def outcome(how: str, value: str) -> Outcomes:
        return {
            "state": Next("ends", {"kept": "state-marker", "value": [value]}),
            "child": Spawn([child.build(value)], then="ends"),
            "meta": Spawn([child.using(meta={"m": value}).build()], then="ends"),
            "key": Spawn([child.using(unique_key=f"k-{value}").build()], then="ends"),
            "replay": Replay({"value": value}),
            "awaits": Await(PIN, then="ends"),
            "result": Done(value),
        }[how]

    handled: list[str] = []

    @harness.machine
    class M(Machine, max_attempts=9):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            ctx.secret("PLANTED_PIN")
            return outcome(ctx.state["how"], ctx.secret("PLANTED_PLAIN"))

        @step
        async def ends(self, ctx: Context) -> Outcomes:
            return Done()

        def handle(self, error: Exception, ctx: Context) -> Outcomes:
            handled.append(str(error))
            return Stop()

    hows = ("state", "child", "meta", "key", "replay", "awaits", "result")
    ids = harness.enqueue(*(M.build(how=how) for how in hows))
    harness.drain()
    for job_id, how in zip(ids, hows, strict=True):
        job = harness.get(job_id)
        assert (job.status, job.tries) == ("dead", 1), how
        assert "holds the value of the secret PLANTED_P" in (job.error or ""), how
        assert job.state in ({"how": how}, None), how
        assert harness.children(job_id) == []
    assert handled == []
    assert harness.find(kind="child") == []
    _no_trace(harness, quiet, "holds the value")


def test_what_only_looks_like_a_secret_is_stored_as_it_is(
    harness: WorkerHarness, quiet: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SORT_KEY", "created_at")
    monkeypatch.setenv("WAREHOUSE_URL", "postgresql://etl:warehouse-7@db/x")
    kept = {"sort": "created_at", "created_at": ["by created_at", "warehouse-7"], "header": "token=abc"}
    seen: list[Any] = []

    @harness.job
    async def child(value: Any) -> Any:
        seen.append(value)
        return value

    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            ctx.secret("PLANTED_PLAIN")
            return Spawn([child.using(meta=kept).build(kept)], then=self.ends, state=kept)

        @step
        async def ends(self, ctx: Context) -> Outcomes:
            ctx.log("sorted by created_at")
            seen.append(ctx.children[0].result)
            return Done(ctx.state)

    (job_id,) = harness.enqueue(M.build())
    harness.drain()
    assert seen == [kept, kept]
    job = harness.get(job_id)
    assert (job.status, job.result, job.state) == ("succeeded", kept, kept)
    assert [attempt.state for attempt in harness.attempts(job_id)] == [kept, None]
    (born,) = harness.find(kind="child")
    assert (born.payload, born.meta, born.result) == ({"value": kept}, kept, kept)
    assert job.log_tail == "sorted by [redacted]"
    _no_trace(harness, quiet, "created_at")


def test_a_machines_texts_tell_no_secrets(harness: WorkerHarness, quiet: io.StringIO) -> None:
    """Neither those of a later step, which did not ask for it."""

    @harness.machine
    class M(Machine, max_attempts=1):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            ctx.log(f"machine-marker {ctx.secret('PLANTED_PLAIN')}")
            return Next(self.fails, {})

        @step
        async def fails(self, ctx: Context) -> Outcomes:
            raise ValueError(BY_REFERENCE)

        def handle(self, error: Exception, ctx: Context) -> Outcomes:
            return Next(self.ends, {"error": "handled-marker"})

        @step
        async def ends(self, ctx: Context) -> Outcomes:
            return Stop(f"stop-marker {BY_REFERENCE}")

    (job_id,) = harness.enqueue(M.build())
    harness.drain()
    assert harness.get(job_id).error == "stop-marker [redacted]"
    _no_trace(harness, quiet, "machine-marker", "handled-marker", "stop-marker")


def test_one_tenant_neither_poisons_nor_learns_anothers_texts(
    harness: WorkerHarness, quiet: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_PLACE", "over-there")
    harness.vault = Vault()  # one app's, for all of its workers

    @harness.job
    async def echo(ctx: Context, text: str, secret: str = "") -> str:
        ctx.log(text)
        ctx.progress(0.5, text)
        logs.get_logger("headway.job").warning("log-marker", text=text)
        if "raise" in text:
            raise Cancel(text)
        return text

    (first,) = harness.enqueue(echo.build_from({"text": "a", "secret": _reference("PLANTED_PLACE")}))
    harness.drain()
    guess = f"over-there {BY_NAME}"
    acme = echo.using(tenant="acme")
    fine, failing, own = harness.enqueue(acme.build(guess), acme.build(f"raise {guess}"), echo.build("over-there"))
    harness.drain()
    job = harness.get(fine)
    assert (job.result, job.log_tail, job.progress_note) == (guess, guess, guess)
    assert harness.last(failing).error == f"raise {guess}"
    assert guess in quiet.getvalue()
    assert harness.get(own).log_tail == "[redacted]"
    assert harness.get(own).result == "over-there"
    assert harness.get(first).status == "succeeded"


def test_another_tenants_reference_is_not_resolved_unless_declared(harness: WorkerHarness, quiet: io.StringIO) -> None:
    seen: list[str] = []

    @harness.job(max_attempts=2, backoff=lambda tries: 3_600)
    async def login(password: str) -> None:
        seen.append(password)

    @harness.machine
    class M(Machine, max_attempts=1):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            seen.append(ctx.secret("PLANTED_PLAIN"))
            return Done()

    given = {"password": _reference()}
    job_id, machine = harness.enqueue(login.using(tenant="acme").build_from(given), M.using(tenant="acme").build())
    harness.drain()
    assert seen == []
    assert (harness.get(job_id).status, harness.get(machine).status) == ("scheduled", "dead")
    assert "the secret PLANTED_PLAIN is not given to login of tenant acme here" in (harness.last(job_id).error or "")
    harness.vault = Vault(read({"PLANTED_*": {"kinds": ["login"], "tenants": ["acme"]}}, "headway.toml"))
    harness.make_due(job_id)
    harness.drain()
    assert (harness.get(job_id).status, seen) == ("succeeded", [BY_REFERENCE])
    _no_trace(harness, quiet, "PLANTED_PLAIN")


def test_a_machines_payload_is_not_resolved(harness: WorkerHarness, quiet: io.StringIO) -> None:
    seen: list[Any] = []

    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            seen.append((ctx.state["password"], ctx.secret(ctx.state["password"]["$secret"])))
            return Done() if len(seen) > 1 else Replay()

    harness.enqueue(M.build(password=_reference()))
    harness.drain()
    assert seen == [(_reference(), BY_REFERENCE)] * 2
    _no_trace(harness, quiet, "PLANTED_PLAIN")


def test_a_missing_secret_fails_the_attempt_and_is_tried_again(
    harness: WorkerHarness, quiet: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    @harness.job(retry_on=(ValueError,), backoff=lambda tries: 3_600)
    async def login(password: str) -> None:
        seen.append(password)

    (job_id,) = harness.enqueue(login.build_from({"password": _reference("PLANTED_LATER")}))
    harness.drain()
    job = harness.get(job_id)
    assert (job.status, job.tries) == ("scheduled", 1)
    assert harness.last(job_id).error == (
        "the secret PLANTED_LATER is not set here: set the environment variable PLANTED_LATER for this worker "
        "and restart it"
    )
    monkeypatch.setenv("PLANTED_LATER", BY_REFERENCE)
    harness.make_due(job_id)
    harness.drain()
    assert (harness.get(job_id).status, seen) == ("succeeded", [BY_REFERENCE])
    _no_trace(harness, quiet, "PLANTED_LATER")


def test_a_secret_that_does_not_fit_is_not_quoted(harness: WorkerHarness, quiet: io.StringIO) -> None:
    @harness.job(schema={"properties": {"password": {"type": "string", "maxLength": 3}}})
    async def strict(password: str) -> None: ...

    (job_id,) = harness.enqueue(strict.build_from({"password": _reference()}))
    harness.drain()
    job = harness.get(job_id)
    assert job.status == "dead"
    assert "[redacted]" in (harness.last(job_id).error or "")
    _no_trace(harness, quiet)


def test_a_snooze_and_a_timeout_tell_no_secrets(harness: WorkerHarness, quiet: io.StringIO) -> None:
    @harness.job(delivery="at_most_once", max_attempts=1)
    async def snoozes(password: str) -> None:
        raise Snooze("1h")

    @harness.job(timeout="20ms", max_attempts=1)
    async def dawdles(password: str) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise RuntimeError(password)

    harness.enqueue(*(kind.build_from({"password": _reference()}) for kind in (snoozes, dawdles)))
    harness.drain()
    _no_trace(harness, quiet)
