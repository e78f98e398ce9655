"""`headway worker` as a process: what it says, how it stops, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.cli.fleet.worker import parse_queues
from headway.cli.program.failure import describe
from headway.errors import ConfigError, StoreUnavailable

Cli = Any
Start = Callable[..., "subprocess.Popen[str]"]


def read_until(process: subprocess.Popen[str], event: str) -> dict[str, Any]:
    """The first log line of this event."""
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        entry = json.loads(line)
        if event in entry["event"]:
            return dict(entry)
    raise AssertionError("".join(seen))


def test_it_says_once_what_it_works_on_and_ends_when_idle(start: Start, app: Headway, folder: Path) -> None:
    done = app.enqueue("welcome", {"user_id": 7}, queue="mail")
    options = ("--until-idle", "--json", "--metrics", "127.0.0.1:0", "--log-fields", "jobforge")
    process = start("--log-format", "json", "worker", "shopapp:app", *options)
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    metrics, first, *rest = map(json.loads, err.splitlines())
    assert re.fullmatch(r"http://127.0.0.1:[1-9]\d+/metrics", metrics["url"])
    (ended,) = (line for line in rest if line["message"] == "job succeeded")
    assert (ended["job_type"], ended["attempt_no"], ended["trace_id"]) == ("welcome", 1, done.id.replace("-", ""))
    assert first["database"] == str(folder / "headway.db")
    assert first["queues"] == "default=20, mail=20"
    assert first["kinds"] == "forever, stuck, welcome"
    assert first["pid"] == process.pid
    assert json.loads(out)["succeeded"] == 1
    assert app.get(done.id).result == "hello 7"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order_and_a_second_at_once(
    start: Start, app: Headway, number: signal.Signals
) -> None:
    job = app.enqueue("forever", {})
    process = start("worker", "shopapp:app", "--log-format", "json", "--grace", "10m")
    read_until(process, "worker started")
    deadline = time.monotonic() + 180
    while app.get(job.id).status != "running":
        assert time.monotonic() < deadline
    process.send_signal(number)
    read_until(process, "waits for running jobs")
    process.send_signal(number)
    _, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert app.get(job.id).status == "queued"
    assert app.get(job.id).tries == 0
    assert app.workers() == []


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_plain_function_that_goes_on_has_its_job_freed_when_the_process_has_ended(
    start: Start, either: Headway, processes: str
) -> None:
    """At once, and not at the end of the lease."""
    app = either
    job = app.enqueue("stuck", {})
    process = start(
        "--url", app.url, "worker", "shopapp:app", "--log-format", "json", "--grace", "10m", "--processes", processes
    )
    deadline = time.monotonic() + 180
    while app.get(job.id).status != "running":
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGTERM)
    read_until(process, "waits for running jobs")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=180)
    assert "Traceback" not in err
    while app.get(job.id).status == "running":
        assert time.monotonic() < deadline
    assert (app.get(job.id).losses, [each.status for each in app.attempts(job.id)]) == (0, ["lost"])
    assert app.workers() == []


def test_several_processes_share_the_work(start: Start, app: Headway) -> None:
    for number in range(20):
        app.enqueue("welcome", {"user_id": number + 100}, queue="mail")
    process = start("worker", "shopapp:app", "--processes", "2", "--until-idle", "--log-format", "json")
    _, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    started = [entry for entry in map(json.loads, err.splitlines()) if entry["event"] == "worker started"]
    assert len(started) == 2
    assert app.counts() == {"succeeded": 20}


def test_flags_go_before_variables_and_variables_before_the_file(start: Start, folder: Path) -> None:
    (folder / "headway.toml").write_text(
        'app = "shopapp:app"\nqueues = ["mail"]\nurl = "sqlite:///file.db"\nlease = "31s"\n'
    )
    for name, url in (("file", None), ("variable", "sqlite:///variable.db"), ("flag", "sqlite:///variable.db")):
        flags = ["--url", "sqlite:///flag.db"] if name == "flag" else []
        env = {**os.environ, **({"HEADWAY_URL": url} if url else {})}
        process = start(*flags, "worker", "--until-idle", "--log-format", "json", env=env)
        _, err = process.communicate(timeout=180)
        *said, first, _ = map(json.loads, err.splitlines())
        assert len(said) == (name == "variable")  # that the file names another
        assert first["database"] == str(folder / f"{name}.db")
        assert first["queues"] == "mail=20"


def test_a_flag_goes_before_what_the_code_says(start: Start, folder: Path) -> None:
    (folder / "fixed.py").write_text(
        "from headway import Headway\napp = Headway('sqlite:///code.db', lease='31s')\n@app.job\ndef f(): pass\n"
    )
    process = start("--url", "sqlite:///flag.db", "worker", "fixed", "--until-idle", "--log-format", "json")
    _, err = process.communicate(timeout=180)
    said, first = map(json.loads, err.splitlines()[:2])
    assert said["event"] == "this acts on the database that --url names, not on the one of fixed"
    assert first["database"] == str(folder / "flag.db")
    assert not (folder / "code.db").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mail=", "gives mail '' slots, not a whole number"),
        ("mail=x", "gives mail 'x' slots, not a whole number"),
        ("mail=0", "gives mail 0 slots: give a whole number from 1"),
        ("", "has an empty name"),
        ("mail,", "has an empty name"),
        ("mail,mail", "names mail twice"),
        ("mail=5,default", "gives slots to some queues only"),
        ("ma il", "is not a valid name"),
    ],
)
def test_queues_that_cannot_be_read_are_refused_with_an_example(cli: Cli, text: str, message: str) -> None:
    assert message in cli.refused("worker", "shopapp:app", "--queues", text, code=2)


def test_queues_come_as_text_or_from_the_file() -> None:
    assert parse_queues("mail, default") == ["mail", "default"]
    assert parse_queues("mail=5,default=20") == {"mail": 5, "default": 20}
    assert parse_queues(["mail"]) == ["mail"]
    assert parse_queues({"mail": 5}) == {"mail": 5}
    assert parse_queues(None) is None
    with pytest.raises(ConfigError, match="gives mail True slots"):
        parse_queues({"mail": True})


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--lease", "5x"), "'5x' is not a duration"),
        (("--lease", "5s", "--heartbeat", "4s"), "too slow for a lease"),
        (("--concurrency", "0"), "0 is not in the range"),
        (("--app-dir", "/nowhere/at/all"), "is not a folder"),
    ],
)
def test_settings_that_cannot_work_are_refused(cli: Cli, flags: tuple[str, ...], message: str) -> None:
    assert message in cli.refused("worker", "shopapp:app", *flags, code=2)


@pytest.mark.parametrize(
    ("url", "code", "message"),
    [
        ("work.db", 2, "is not a database URL"),
        ("mysql://host/db", 2, "is not a database that Headway knows"),
        ("sqlite:////nowhere/at/all/work.db", 1, "Make it with: mkdir -p /nowhere/at/all"),
        ("postgresql://me:pa55word@127.0.0.1:1/work", 1, "Connection refused: no server listens there: start it"),
        ("postgresql://me:pa55word@no-such-host.invalid/work", 1, "that host name does not exist"),
    ],
)
def test_a_database_that_is_not_there_is_said_once(cli: Cli, url: str, code: int, message: str) -> None:
    said = cli.refused("--url", url, "worker", "shopapp:app", code=code)
    assert message in said
    assert "pa55word" not in said


def test_a_database_that_does_not_exist_comes_with_the_command_that_makes_it(cli: Cli, postgres_url: str) -> None:
    from urllib.parse import urlsplit, urlunsplit

    url = urlunsplit(urlsplit(postgres_url)._replace(path="/not_there"))
    assert 'database "not_there" does not exist: create it with: createdb not_there' in cli.refused(
        "--url", url, "worker", "shopapp:app", code=1
    )


def test_a_database_without_schema_comes_with_the_command_that_makes_it(cli: Cli, postgres_url: str) -> None:
    said = cli.refused("--url", postgres_url, "worker", "shopapp:app", code=1)
    assert "has no Headway schema: run headway" in said
    assert said.rstrip().endswith("migrate")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('password authentication failed for user "me"', "the user name or the password of the URL is wrong"),
        ("sorry, too many clients already", "raise max_connections"),
        ("the database system is starting up", "try again in a moment"),
    ],
)
def test_what_a_server_answers_is_translated(said: str, words: str) -> None:
    error = StoreUnavailable("PostgreSQL at postgresql://db/work cannot be used right now: …")
    error.__cause__ = psycopg.OperationalError(
        f'connection failed: connection to server at "10.0.0.7", port 5432 failed: FATAL:  {said}'
    )
    message = describe(error)
    assert message.startswith(f"PostgreSQL at postgresql://db/work cannot be reached: {said}: ")
    assert words in message


def test_a_wrong_setting_in_the_file_is_named(cli: Cli, folder: Path) -> None:
    (folder / "headway.toml").write_text("leese = 5\n")
    assert "unknown setting 'leese': did you mean 'lease'?" in cli.refused("worker", "shopapp:app", code=2)
    (folder / "headway.toml").write_text('log_level = "loud"\n')
    assert "log_level='loud' does not exist" in cli.refused("worker", "shopapp:app", code=2)
