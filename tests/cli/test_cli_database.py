"""Which database a command acts on: one order for all commands, said where several are named."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from headway.errors import ConfigError

Cli = Any

OWN = """
from headway import Headway

app = Headway("sqlite:///code.db")


@app.job
def work() -> None: ...
"""


@pytest.fixture
def files(folder: Path) -> dict[str, str]:
    """Four databases with one job each, of the kind that says which it is; and an app whose code names one."""
    (folder / "ownapp.py").write_text(OWN)
    made = {}
    for name in ("flag", "code", "variable", "file", "headway"):
        app = Headway(f"sqlite:///{folder / name}.db")
        app.enqueue(f"in_{name}")
        app.close()
        made[name] = app.url
    return made


def kinds(cli: Cli, *args: str) -> tuple[list[str], str]:
    """The kinds of the jobs that a command sees, and what it says beside."""
    result = cli(*args, "jobs", "list", "--json")
    assert result.exit_code == 0, result.output
    import json

    return [job["kind"] for job in json.loads(result.stdout)], result.stderr.strip()


def test_every_command_takes_the_first_database_that_is_named(
    cli: Cli, folder: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kinds(cli) == (["in_headway"], "")
    (folder / "headway.toml").write_text('url = "sqlite:///file.db"\n')
    assert kinds(cli) == (["in_file"], "")
    monkeypatch.setenv("HEADWAY_URL", "sqlite:///variable.db")
    found, said = kinds(cli)
    assert found == ["in_variable"]
    assert said == f"this acts on the database that HEADWAY_URL names, not on the one of {folder}/headway.toml"
    monkeypatch.setenv("HEADWAY_APP", "ownapp:app")
    found, said = kinds(cli)
    assert found == ["in_code"]
    assert said.splitlines() == [
        "this acts on the database that ownapp:app names, not on the one of HEADWAY_URL",
        f"this acts on the database that ownapp:app names, not on the one of {folder}/headway.toml",
    ]
    assert kinds(cli, "--url", "sqlite:///flag.db") == (["in_flag"], "")
    assert kinds(cli, "--app", "none")[0] == ["in_variable"]


def test_enqueue_and_worker_act_on_the_database_that_the_others_see(
    cli: Cli, folder: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setenv("HEADWAY_URL", "sqlite:///variable.db")
    monkeypatch.setenv("HEADWAY_APP", "ownapp:app")
    made = cli("enqueue", "work")
    assert "the database that ownapp:app names, not on the one of HEADWAY_URL" in made.stderr
    assert cli.json("jobs", "show", made.stdout.strip())["kind"] == "work"
    cli.ok("worker", "--until-idle")
    assert cli.json("jobs", "show", made.stdout.strip())["status"] == "succeeded"
    monkeypatch.delenv("HEADWAY_URL")
    other = cli("--url", "sqlite:///flag.db", "enqueue", "work")
    assert "the database that --url names, not on the one of ownapp:app" in other.stderr
    assert "work" in kinds(cli, "--url", "sqlite:///flag.db")[0]


def test_the_same_database_written_in_two_ways_is_not_worth_a_word(
    cli: Cli, folder: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_URL", f"sqlite+stdlib:///{folder}/code.db")
    assert kinds(cli, "--app", "ownapp:app") == (["in_code"], "")


def test_an_app_that_cannot_be_imported_does_not_stand_in_the_way_of_a_named_database(
    cli: Cli, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_APP", "nowhere:app")
    assert "no module named 'nowhere'" in cli.refused("jobs", "list", code=2)
    assert kinds(cli, "--url", "sqlite:///flag.db")[0] == ["in_flag"]
    assert kinds(cli, "--app", "none")[0] == ["in_headway"]


def test_an_empty_url_is_refused_wherever_it_comes_from(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given in ("", "  "):
        with pytest.raises(ConfigError, match=r"the database URL is empty: use sqlite:///file.db"):
            Headway(given)
    app = Headway("sqlite:///x.db")
    with pytest.raises(ConfigError, match="is empty"):
        app.configure("")
    assert "is empty" in cli.refused("--url", "", "jobs", "list", code=2)
    monkeypatch.setenv("HEADWAY_URL", "")
    with pytest.raises(ConfigError, match=r"the URL in HEADWAY_URL or headway\.toml is empty"):
        Headway().counts()
    assert "HEADWAY_URL or headway.toml is empty" in cli.refused("jobs", "list", code=2)
    assert app.url == "sqlite:///x.db"  # it names its own: the variable is not asked
    monkeypatch.delenv("HEADWAY_URL")
    (folder / "headway.toml").write_text('url = ""\n')
    assert "HEADWAY_URL or headway.toml is empty" in cli.refused("jobs", "list", code=2)
    assert not (folder / "headway.db").exists()


def test_every_command_minds_the_prefix_of_the_url(cli: Cli, folder: Path) -> None:
    url = f"sqlite:///{folder}/app.db?prefix=headway_"
    with closing(sqlite3.connect(folder / "app.db")) as conn:
        conn.execute("create table jobs (title text)")
    assert "?prefix=headway_" in cli.refused("--url", f"sqlite:///{folder}/app.db", "migrate", code=1)
    sql = cli.ok("--url", url, "migrate", "--sql")
    assert "create table headway_jobs (" in sql
    assert "on headway_jobs (" in sql
    assert "create table if not exists headway_schema_version" in sql
    cli.ok("--url", url, "migrate")
    made = cli.ok("--url", url, "enqueue", "work").strip()
    assert cli.json("--url", url, "jobs", "show", made)["status"] == "queued"
    cli.ok("--url", url, "jobs", "cancel", made)
    assert "all is well" in cli.ok("--url", url, "doctor")
    cli.ok("--url", url, "migrate", "--down", "--yes")
    with closing(sqlite3.connect(folder / "app.db")) as conn:
        assert conn.execute("select name from sqlite_master").fetchall() == [("jobs",)]
