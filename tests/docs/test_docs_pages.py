"""Every code block of the README and the docs runs, or is checked as far as it can be."""

from __future__ import annotations

import configparser
import dataclasses
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import click
import pytest

from headway import secrets
from headway.app.settings import settings_from
from headway.cli.root import main as headway
from headway.commands import load
from headway.config import read
from tests.docs import docs_pages
from tests.docs.docs_runner import commands
from tests.docs.warm_process import HEADWAY, NOT_FORKED, WarmProcess
from tests.forked_processes import PROCESS

_LANGUAGES = {"python", "console", "sql", "toml", "systemd", "output", "text", "json", "signature", "help", "mermaid"}
_LANGUAGES |= {"ts"}  # which tests/clients runs
_SIDE_BY_SIDE = max(2, os.cpu_count() or 1)
_RUNNER = Path(__file__).with_name("docs_runner.py")

Flavour = tuple[Path, bool]  # a page, and whether with its PostgreSQL blocks


def _flavours() -> list[Flavour]:
    found: list[Flavour] = []
    for page in docs_pages.PAGES:
        for on_postgres in (False, True):
            if any(block.runs and block.on_postgres is on_postgres for block in docs_pages.blocks_of(page)):
                found.append((page, on_postgres))
    return found


def _steps(page: Path, on_postgres: bool) -> list[docs_pages.Block]:
    """The blocks of one flavour; an `output` belongs to the block before it."""
    steps: list[docs_pages.Block] = []
    taken = False
    for block in docs_pages.blocks_of(page):
        if block.language != "output":
            named = block.file is not None and not block.on_postgres and not on_postgres
            taken = (block.runs and block.on_postgres is on_postgres) or named
        if taken:
            steps.append(block)
    return steps


def _free_port() -> int:
    """Where this page's server listens: several pages, and a server of the machine's user, may run now."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])


def _run(page: Path, on_postgres: bool, folder: Path, url: str | None, programs: Programs) -> str:
    """Run the blocks in a process of their own; gives what went wrong, or nothing."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    env |= {
        **programs.environment(page),
        "COLUMNS": "160",
        "NO_COLOR": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTEST_ADDOPTS": "-p no:schemathesis -p no:hypothesispytest",  # which take seconds to import
        "HEADWAY_SERVER_PORT": str(_free_port()),
    }
    if url is not None:
        env["HEADWAY_URL"] = url
    steps = [
        {"page": docs_pages.name_of(page), "file": block.file, **dataclasses.asdict(block)}
        for block in _steps(page, on_postgres)
    ]
    runner = subprocess.Popen(
        [programs.runner],
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that all of it can be ended together
    )
    try:
        printed, errors = runner.communicate(json.dumps(steps), timeout=300)  # only ends what hangs
    finally:
        with suppress(ProcessLookupError):
            os.killpg(runner.pid, signal.SIGKILL)  # a shell that still waits in a loop would do so forever
    return "" if runner.returncode == 0 else errors[-6000:] + printed[-2000:] or f"ended with {runner.returncode}"


class Programs:
    """What runs a page, and the `headway` that its commands find."""

    def __init__(self, warm: WarmProcess) -> None:
        self.runner = warm.program("runner", str(_RUNNER))
        self._headway = warm.program("headway", HEADWAY)

    def environment(self, page: Path) -> dict[str, str]:
        """Where a page's commands find programs. The README runs the `headway` that pip installs, and pages that kill
        workers start them by it: another process would stand between them and a forked worker."""
        folders = [str(Path(sys.executable).parent), os.environ["PATH"]]
        if page.name != "README.md":
            folders.insert(0, str(self._headway.parent))
        kills = "kill -9" in page.read_text("utf-8")
        return {"PATH": os.pathsep.join(folders), NOT_FORKED: "worker" if kills else "none"}


class Pages:
    """Runs each page that was asked for once, several side by side: most of the time a page waits.

    A test begins the pages of the tests after its own too. Of several processes, each runs those that it was first to
    begin, and reads the others' ends from their files.
    """

    def __init__(self, asked_for: list[Flavour], folder: Path, database: Callable[[], str], programs: Programs) -> None:
        self._waiting = asked_for
        self._folder = folder
        self._database = database
        self._programs = programs
        self._threads = ThreadPoolExecutor(max_workers=_SIDE_BY_SIDE)

    def fault(self, flavour: Flavour) -> str:
        """What went wrong, or nothing."""
        at = self._waiting.index(flavour) if flavour in self._waiting else 0
        ahead = self._waiting[at : at + _SIDE_BY_SIDE]
        self._waiting = [other for other in self._waiting if other not in ahead]
        for each in ahead:
            self._begin(each)
        end = time.monotonic() + 120
        while not (path := self._path(flavour, "end")).exists():
            assert time.monotonic() < end, f"{flavour} did not end"
            time.sleep(0.02)
        return path.read_text("utf-8")

    def _begin(self, flavour: Flavour) -> None:
        folder = self._path(flavour, "page")
        try:
            folder.mkdir()
        except FileExistsError:
            return
        url = self._database() if flavour[1] else None

        def run() -> None:
            try:
                fault = _run(*flavour, folder, url, self._programs)
            except BaseException as error:
                fault = repr(error)
            part = self._path(flavour, "part")
            part.write_text(fault, "utf-8")
            part.rename(self._path(flavour, "end"))

        self._threads.submit(run)

    def _path(self, flavour: Flavour, what: str) -> Path:
        name = docs_pages.name_of(flavour[0]).replace("/", "-")
        return self._folder / f"{name}{'-postgres' * flavour[1]}.{what}"

    def close(self) -> None:
        self._threads.shutdown()


@pytest.fixture(scope="module")
def pages(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, warm_process: WarmProcess
) -> Iterator[Pages]:
    asked_for = [
        (item.callspec.params["page"], item.callspec.params["on_postgres"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == "test_what_a_page_shows_happens"
    ]
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if PROCESS in os.environ else base) / "pages"
    folder.mkdir(exist_ok=True)
    made: list[str] = []

    def database() -> str:
        server = request.getfixturevalue("databases")
        made.append(server.create(request.getfixturevalue("postgres_template")))
        return str(server.url(made[-1]))

    pages = Pages(asked_for, folder, database, Programs(warm_process))
    yield pages
    pages.close()
    for name in made:
        request.getfixturevalue("databases").drop(name)


@pytest.mark.parametrize(
    ("page", "on_postgres"),
    [
        pytest.param(*flavour, id=docs_pages.name_of(flavour[0]) + ("-postgres" if flavour[1] else ""))
        for flavour in _flavours()
    ],
)
def test_what_a_page_shows_happens(page: Path, on_postgres: bool, pages: Pages) -> None:
    fault = pages.fault((page, on_postgres))
    assert not fault, fault


@pytest.mark.parametrize("page", docs_pages.PAGES, ids=docs_pages.name_of)
def test_blocks_that_do_not_run_are_right_as_far_as_one_can_see(page: Path, tmp_path: Path) -> None:
    for block in docs_pages.blocks_of(page):
        where = f"{docs_pages.name_of(page)}:{block.line}"
        assert block.language in _LANGUAGES, f"{where} has a block of the language {block.language!r}"
        match block.language:
            case "python":
                compile(block.text, where, "exec")
            case "json":
                json.loads(block.text)
            case "toml" if block.file in (None, "headway.toml"):
                _check_toml(block.text, tmp_path)
            case "toml":
                tomllib.loads(block.text)  # what a check of it says stands beside it, and is run
            case "systemd":
                _check_unit(block.text, where)
            case "console":
                for command, _ in commands(block.text):
                    _check_command(command, where)


def _check_toml(text: str, folder: Path) -> None:
    if "[project]" in text or "[tool." in text:
        tomllib.loads(text)
        return
    file = folder / "headway.toml"
    file.write_text(text, "utf-8")
    values = read({"HEADWAY_CONFIG": str(file)})
    settings_from(values)
    secrets.read(values.get("secrets", {}), str(file))
    load(values.get("commands", {}), str(file))


def _check_unit(text: str, where: str) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    assert set(unit.sections()) <= {"Unit", "Service", "Install"}, where
    for name in ("ExecStart", "ExecStartPre"):
        if unit.has_option("Service", name):
            _check_command(unit["Service"][name], where)


def _check_command(command: str, where: str) -> None:
    """A `headway` command has only flags that exist; `make` has that target; `pip install` has those extras."""
    for part in re.split(r"\s(?:\||&&|;|>)\s?|[;&]|2>&1", command.replace("\\\n", " ")):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:
            continue
        while words and ("=" in words[0] or words[0] in ("sudo", "(", "{")):
            words.pop(0)
        if not words:
            continue
        if Path(words[0]).name == "headway":
            _check_headway(words[1:], f"{where}: {command}")
        elif words[0] == "make":
            makefile = (docs_pages.ROOT / "Makefile").read_text("utf-8")
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), f"{where}: there is no `{part}`"
        elif "pip" in words:
            for extra in re.findall(r"\[([\w,]+)\]", part):
                project = tomllib.loads((docs_pages.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
                assert set(extra.split(",")) <= set(project["optional-dependencies"]), f"{where}: {part}"


def _check_headway(words: list[str], where: str) -> None:
    command: click.Command = headway
    context = click.Context(headway, info_name="headway")
    flags = _flags(headway)
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        name, equals, _ = word.partition("=")
        if name.startswith("-") and name != "-":
            assert name in flags, f"{where}: {command.name} has no flag {name}"
            if flags[name] and not equals:
                index += 1
        elif isinstance(command, click.Group):
            found = command.get_command(context, word)
            assert found is not None, f"{where}: there is no command {word}"
            command = found
            flags |= _flags(command)


def _flags(command: click.Command) -> dict[str, bool]:
    """The flags of a command, and whether they take a value."""
    options = [param for param in command.params if isinstance(param, click.Option)]
    found = {flag: not option.is_flag for option in options for flag in (*option.opts, *option.secondary_opts)}
    return found | {"--help": False}
