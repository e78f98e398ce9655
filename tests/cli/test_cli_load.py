"""`headway worker module:app`: every way in which the app cannot be found, with one clear message each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headway.cli.program.load_app import load
from headway.errors import ConfigError

Cli = Any


@pytest.mark.parametrize("spec", ["shopapp:app", "shopapp", "shopapp:make"])
def test_an_app_is_found_by_name_by_default_and_by_the_function_that_makes_it(spec: str) -> None:
    assert load(spec).kinds.names == ("forever", "stuck", "welcome")


def test_a_registry_stands_for_an_app_of_its_own() -> None:
    assert load("shopapp:shop").kinds.names == ("sell",)


def test_an_app_is_found_in_another_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = folder / "elsewhere"
    other.mkdir()
    monkeypatch.chdir(other)
    assert load("shopapp", app_dir="..").kinds.names == ("forever", "stuck", "welcome")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("shopap:app", "no module named 'shopap' in {folder}"),
        ("shopap:app", "did you mean shopapp?"),
        ("nothinglikeit:app", "--app-dir"),
        ("shopapp.inner:app", "in shopapp, which is a module and not a package"),
        ("shopapp:ap", "module shopapp ({folder}/shopapp.py) has no attribute 'ap': its app is shopapp:app"),
        ("shopapp:number", "shopapp:number is of type int, not a Headway app"),
        ("shopapp:Headway", "shopapp:Headway is the class Headway, not a Headway app"),
        ("shopapp:welcome", 'shopapp:welcome is the kind "welcome", not an app'),
        ("shopapp:broken", "shopapp:broken() was called to make the app, and failed: RuntimeError: no settings here"),
        ("./shopapp.py:app", "is a path: name the module as `import` would, shopapp:app"),
        ("shop app", "does not name an app: write module:attribute"),
    ],
)
def test_what_is_wrong_with_a_name_is_said_once(cli: Cli, folder: Path, spec: str, message: str) -> None:
    assert message.format(folder=folder) in cli.refused("worker", spec, code=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import not_installed_here\n", "No module named 'not_installed_here' ({folder}/inside.py, line 1): install"),
        ("from shopapp import nothing\n", "ImportError: cannot import name 'nothing'"),
        ("def f():\n    return {}['HOST']\nf()\n", "KeyError: 'HOST' ({folder}/inside.py, line 2)"),
        ("x = (\n", "SyntaxError: '(' was never closed ({folder}/inside.py, line 1)"),
        ("import sys\nsys.exit(3)\n", "ends the process when it is imported"),
    ],
)
def test_a_module_that_breaks_inside_is_not_called_missing(cli: Cli, folder: Path, text: str, message: str) -> None:
    (folder / "inside.py").write_text(text)
    said = cli.refused("worker", "inside:app", code=2)
    assert message.format(folder=folder) in said
    assert "there is no module" not in said


def test_a_package_tells_its_missing_module_from_itself(folder: Path) -> None:
    (folder / "pack").mkdir()
    (folder / "pack" / "__init__.py").write_text("")
    (folder / "pack" / "tasks.py").write_text("")
    with pytest.raises(ConfigError, match=r"no module named 'pack.task' in package pack: did you mean pack.tasks\?"):
        load("pack.task:app")


def test_an_app_without_kinds_is_refused(cli: Cli) -> None:
    assert "shopapp:empty defines no kinds" in cli.refused("worker", "shopapp:empty", code=2)


def test_without_an_app_the_worker_asks_which(cli: Cli) -> None:
    assert "which app?" in cli.refused("worker", code=2)


def test_commands_need_no_app(cli: Cli, folder: Path) -> None:
    (folder / "headway.toml").write_text('[commands.nothing]\nargv = ["/bin/true"]\n')
    assert cli.json("worker", "--until-idle")["succeeded"] == 0
    cli.ok("enqueue", "nothing")
    assert cli.json("worker", "--until-idle")["succeeded"] == 1


def test_debug_shows_the_stack_trace(cli: Cli) -> None:
    result = cli("--log-level", "debug", "worker", "shopapp:broken")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "no settings here" in result.stderr
