"""`check`: what it finds in a file of commands."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from headway.commands import check


def found(env: dict[str, str] | None = None, /, **keys: Any) -> list[tuple[str, str, str]]:
    values = {"x": {"timeout": "5s", "argv": ["/usr/bin/env"], **keys}}
    return [(each.level, each.key, each.message) for each in check(values, "/etc/headway.toml", env=env or {"A": "1"})]


def only(level: str, findings: list[tuple[str, str, str]]) -> list[str]:
    return [f"{key}: {message}" for each, key, message in findings if each == level]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "folder" / "program"
    path.parent.mkdir(mode=0o755)
    path.write_text("#!/bin/true\n")
    path.chmod(0o755)
    return path


def test_a_good_command_gives_nothing(program: Path) -> None:
    assert [each for each in found(argv=[str(program), "{a}"]) if each[0] != "info"] == []


def test_a_program_that_cannot_be_run(program: Path, tmp_path: Path) -> None:
    assert "cannot be found on this host" in only("error", found(argv=["/no/such/program"]))[0]
    assert "is not a file" in only("error", found(argv=["/usr"]))[0]
    program.chmod(0o644)
    if os.geteuid() or not os.access(program, os.X_OK):
        assert "is not executable: chmod +x" in only("error", found(argv=[str(program)]))[0]


def test_a_program_that_everybody_can_change(program: Path) -> None:
    program.chmod(0o757)
    assert only("error", found(argv=[str(program)])) == [
        f"argv: {program} can be changed by everybody, and so can what runs: chmod o-w {program}"
    ]
    program.chmod(0o755)
    program.parent.chmod(0o777)
    assert f"argv: {program.parent} can be changed by everybody" in only("error", found(argv=[str(program)]))[0]
    program.parent.chmod(0o1777)
    assert only("error", found(argv=[str(program)])) == []


def test_a_symlink_is_told(program: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(program)
    (told,) = only("info", found(argv=[str(link)]))
    assert f"{link} leads to {program}: a worker refuses to run it once that changes" in told


@pytest.mark.parametrize(
    "argv",
    [
        ["/bin/sh", "-c", "echo {a}"],
        ["/bin/bash", "-ec", "{a}"],
        [sys.executable, "-c", "print('{a}')"],
        ["/usr/bin/perl", "-e", "{a}"],
        ["/usr/bin/env", "python3", "-c", "{a}"],
        ["/usr/bin/nice", "-n", "5", "/bin/sh", "-c", "ls {a}"],
    ],
)
def test_a_payload_that_becomes_code_is_an_error(argv: list[str]) -> None:
    assert any("the payload would be run as code" in each for each in only("error", found(argv=argv)))


@pytest.mark.parametrize(
    "argv",
    [
        [sys.executable, "-c", "import sys; print(sys.argv[1])", "{a}"],
        [sys.executable, "/srv/script.py", "{a}"],
        ["/usr/bin/env", "LANG=C", "{a}"],
    ],
)
def test_a_payload_beside_the_code_is_none(argv: list[str]) -> None:
    assert not any("as code" in each for each in only("error", found(argv=argv)))


def test_shells_and_ssh_are_worth_a_warning() -> None:
    assert any(
        "runs the shell sh" in each for each in only("warning", found(argv=["/bin/sh", "-c", "echo $1", "_", "{a}"]))
    )
    assert any("ssh joins its arguments" in each for each in only("warning", found(argv=["/usr/bin/ssh", "h", "{a}"])))


def test_what_is_not_there() -> None:
    warnings = only(
        "warning", found(env=["A", "B"], set_env={"T": {"$secret": "S"}, "MY_PASSWORD": "x"}, argv=["/usr/bin/env"])
    )
    assert warnings == [
        "env: B is not set here: the program will not have it",
        "set_env: the secret S is not set here: a worker without it fails the job",
        "set_env: MY_PASSWORD looks like a secret: write { '$secret' = 'NAME' } and set NAME",
    ]
    assert only("error", found(cwd="/no/such/folder")) == ["cwd: /no/such/folder is not a folder on this host"]
    (finding,) = [each for each in check({"x": {"argv": ["/usr/bin/env"]}}, "f") if each.level == "warning"]
    assert str(finding) == (
        "warning: [commands.x] timeout: is not given: a program that hangs is killed after the default of 3600s"
    )


def test_placeholders_that_may_be_meant_otherwise() -> None:
    (one,) = only("warning", found(argv=["/usr/bin/env", "{tennant}"]))
    assert one == "argv: {tennant} is not in params, and so a required text: did you mean {tenant}?"
    (two,) = only("warning", found(argv=["/usr/bin/env", "{a}"], params={"a": {"allow_dash": True}}))
    assert "allow_dash lets a value be an option" in two
    assert only("warning", found(argv=["/usr/bin/env", "--", "{a}"], params={"a": {"allow_dash": True}})) == []
    (three,) = only("warning", found(argv=["/usr/bin/env", "{p}"], params={"p": {"type": "path"}}))
    assert "may be any path" in three
    (four,) = only("warning", found(argv=["/usr/bin/env", "{k}"], params={"k": {"secret": True}}))
    assert "is a secret among the arguments" in four


def test_a_broken_command_does_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "headway.toml"
    path.write_text("")
    path.chmod(0o666)
    values = {
        "a": {"argv": ["/bin/x"], "oops": 1},
        "b": {"argv": ["/no/such"]},
        "c": {"argv": ["/bin/x"], "queue": "?"},
    }
    errors = [each for each in check(values, str(path)) if each.level == "error"]
    assert [each.command for each in errors] == ["*", "a", "b", "c"]
    assert errors[1].message.startswith("has an unknown key 'oops'")
