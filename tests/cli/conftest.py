"""Runs the command line: in this process where nothing but the answer matters, as a process where it does."""

from __future__ import annotations

import json
import logging
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headway import Headway
from headway.cli import main
from headway.logs import _Lines
from headway.model.fleet import NewWorker
from headway.model.ids import new_id
from headway.model.job import Settlement

APP = """
import asyncio
from headway import Context, Headway, Registry

app = Headway()
empty = Headway()
shop = Registry()
number = 5


@app.job(queue="mail", max_attempts=3, timeout="30s")
async def welcome(user_id: int) -> str:
    if user_id == 13:
        raise ValueError("unlucky")
    return f"hello {user_id}"


@app.job
def stuck(ctx: Context) -> None:
    import time

    time.sleep(600)


@app.job
async def forever(ctx: Context) -> None:
    ctx.progress(0.5, "half way")
    await asyncio.sleep(3600)


@shop.job
def sell(article: str) -> str:
    return article


def make():
    return app


def broken():
    raise RuntimeError("no settings here")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own to be in, with an app, and no settings from outside."""
    for name in [name for name in os.environ if name.startswith("HEADWAY_")]:
        monkeypatch.delenv(name)
    for name in ("HEADWAY_CONFIG", "HEADWAY_URL"):
        # so that what a command sets is taken back
        monkeypatch.setenv(name, "x")
        monkeypatch.delenv(name)
    monkeypatch.setenv("USER", "ada")
    monkeypatch.setenv("LOGNAME", "ada")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", ["headway"])  # what the commands that we print begin with
    (tmp_path / "shopapp.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    root = logging.getLogger()
    level = root.level
    yield tmp_path
    # a worker in this process configures its logging, which is that of the tests to come
    root.setLevel(level)
    root.handlers[:] = [each for each in root.handlers if not isinstance(each, _Lines)]
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


class Cli:
    """Calls `headway` in this process."""

    def __call__(self, *args: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(main, list(args), input=stdin)

    def ok(self, *args: str, stdin: str | None = None) -> str:
        """Its stdout; it must have ended well."""
        result = self(*args, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *args: str, stdin: str | None = None) -> Any:
        return json.loads(self.ok(*args, "--json", stdin=stdin))

    def refused(self, *args: str, code: int, stdin: str | None = None) -> str:
        """Its one message; it must have ended with that code, without a stack trace and without an answer."""
        result = self(*args, stdin=stdin)
        assert result.exit_code == code, result.output
        assert result.stdout == ""
        assert result.stderr.startswith("error: ")
        assert "Traceback" not in result.stderr
        return result.stderr


@pytest.fixture
def cli() -> Cli:
    return Cli()


@pytest.fixture
def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'headway.db'}"


@pytest.fixture
def app(url: str, sqlite_migrated_path: Path) -> Iterator[Headway]:
    """An app on the same file, to look at what a command did."""
    app = Headway(url)
    yield app
    app.close()


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An app on each store in turn, which is also the one that commands mean."""
    of_store = "sqlite_migrated_path" if request.param == "sqlite" else "postgres_migrated_url"
    made = request.getfixturevalue(of_store)
    chosen = url if request.param == "sqlite" else made
    monkeypatch.setenv("HEADWAY_URL", chosen)
    app = Headway(chosen, strict_kinds=False)
    app.counts()
    yield app
    app.close()


class Hand:
    """A worker by hand: it claims, and ends jobs as it is told to."""

    def __init__(self, app: Headway, queue: str) -> None:
        self._app, self._queue = app, queue
        self.id = new_id()
        worker = NewWorker(
            id=self.id, hostname="elsewhere", pid=77, machine=None, process_started=None, version="1",
            queues={queue: 50}, kinds=("welcome",), concurrency=50, lease_ms=60_000,
        )  # fmt: skip
        app.store.run(app.store.ops.register(worker))

    def claim(self, limit: int = 50) -> list[str]:
        """The ids of what it got."""
        self._claims = {
            claim.id: claim for claim in self._app.store.run(self._app.store.ops.claim(self.id, self._queue, limit))
        }
        return list(self._claims)

    def end(self, job_id: str, to: Any = "succeeded", error: str | None = None) -> None:
        """End one of those that it claimed last."""
        ended = "succeeded" if to == "succeeded" else "failed"
        claim = self._claims[job_id]
        how = Settlement(id=job_id, fence=claim.fence, status=ended, to=to, charge=to != "succeeded", error=error)
        assert self._app.store.run(self._app.store.ops.settle(self.id, [how])).lost == []


@pytest.fixture
def hand(either: Headway) -> Callable[..., Hand]:
    """Makes workers on the store of `either`, which do nothing by themselves."""
    return lambda queue="default": Hand(either, queue)


@pytest.fixture
def on_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Calls `headway` as on a terminal of some width; gives the lines of stdout, without their colours."""

    def call(width: int, *args: str) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setenv("COLUMNS", str(width))
            patch.setenv("FORCE_COLOR", "1")
            patch.setenv("TERM", "xterm")
            return re.sub(r"\x1b\[[0-9;]*m", "", cli.ok(*args)).splitlines()

    return call


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `headway` as a process of its own; whatever still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*args: str, **options: Any) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen([sys.executable, "-m", "headway", *args], text=True, **(pipes | options))
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def answered(start: Callable[..., subprocess.Popen[str]]) -> Callable[..., tuple[int, str, str]]:
    """Runs `headway` on a terminal where a person types an answer; gives its exit code, output and errors."""

    def call(*args: str, answer: str) -> tuple[int, str, str]:
        controller, terminal = pty.openpty()
        try:
            process = start(*args, stdin=terminal)
            os.write(controller, f"{answer}\n".encode())
            out, err = process.communicate(timeout=180)
        finally:
            os.close(controller)
            os.close(terminal)
        return process.returncode, out, err

    return call
