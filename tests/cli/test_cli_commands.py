"""`headway commands`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

Cli = Any

TOML = """
[commands.list]
description = "Looks into a folder"
argv = ["/bin/ls", "--width={width}", "--", "{folder}"]
queue = "slow"
timeout = "30m"
env = ["TZ"]
set_env = { PLACE = "here", API_TOKEN = "hunter22", KEY = { "$secret" = "LIST_KEY" } }
retry_codes = [2]
memory = "1GB"

[commands.list.params]
folder = { type = "path", under = "/srv", description = "which" }
width = { type = "int", min = 1, default = 80 }

[commands.count]
argv = ["/usr/bin/wc", "-c"]
timeout = "1m"
"""


@pytest.fixture
def file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("LIST_KEY", "a-planted-value")
    path = folder / "headway.toml"
    path.write_text(TOML)
    return path


def test_list_has_the_commands_of_the_file(cli: Cli, file: Path) -> None:
    lines = cli.ok("commands").splitlines()
    assert lines[0].split() == ["COMMAND", "QUEUE", "TIMEOUT", "ARGV", "FOR"]
    assert lines[1].split("  ")[0] == "list"
    assert "/bin/ls '--width={width}' -- '{folder}'  Looks into a folder" in lines[1]
    assert [command["name"] for command in cli.json("commands", "list")] == ["list", "count"]
    assert not (file.parent / "headway.db").exists()


def test_show_has_everything_but_secrets(cli: Cli, file: Path) -> None:
    page = cli.ok("commands", "show", "list")
    for words in (
        "list  /bin/ls\n",
        "queue          slow, priority 100",
        "timeout        30m, then 10s between SIGTERM and SIGKILL",
        "retried        exit code 2 only",
        "memory         1 GB for each process",
        "TZ, PLACE=here",
        "KEY from secret LIST_KEY",
        "in /srv",
        "from 1, default 80",
    ):
        assert words in page
    found = cli.json("commands", "show", "list")
    assert found["argv"] == ["/bin/ls", "--width={width}", "--", "{folder}"]
    assert found["schema"]["required"] == ["folder"]
    assert found["set_env"]["KEY"] == {"$secret": "LIST_KEY"}
    for answer in (page, json.dumps(found)):
        assert "hunter22" not in answer
        assert "a-planted-value" not in answer
    assert "declares no command nope: it has list, count" in cli.refused("commands", "show", "nope", code=1)


def test_check_ends_well_where_nothing_is_wrong(cli: Cli, file: Path) -> None:
    assert cli.ok("commands", "check").splitlines()[-1].startswith(f"2 commands in {file}: ")
    found = cli.json("commands", "check")
    assert (found["ok"], found["commands"], found["file"]) == (True, ["list", "count"], str(file))


def test_check_finds_errors_and_ends_with_one(cli: Cli, file: Path) -> None:
    file.write_text(TOML + '\n[commands.shell]\nargv = ["ls"]\n\n[commands.typo]\nargv = ["/bin/ls"]\ntimout = "5s"\n')
    result = cli("commands", "check")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("error: [commands.shell] ")
    assert "absolute path" in lines[0]
    assert "did you mean 'timeout'?" in lines[1]
    assert ": 2 errors" in lines[-1]
    result = cli("commands", "check", "--json")
    assert result.exit_code == 1
    findings = json.loads(result.stdout)["findings"]
    assert [each["command"] for each in findings if each["level"] == "error"] == ["shell", "typo"]
    assert "name the program by its absolute path" in cli.refused("commands", "list", code=2)


def test_without_a_file_there_is_nothing_to_check(cli: Cli, folder: Path) -> None:
    assert "declares no commands" in cli("commands").stderr
    assert f"there is no file {folder / 'headway.toml'}" in cli.refused("commands", "check", code=1)
    other = folder / "other.toml"
    other.write_text(TOML)
    assert str(other) in cli.ok("--config", str(other), "commands", "check")
