"""`headway audit`: what was done, exported as JSON lines, checked, erased."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway import Headway

Cli = Any


def test_export_writes_json_lines_oldest_first(cli: Cli, either: Headway) -> None:
    assert cli.ok("audit", "export") == ""
    for number in range(3):
        either.pause(f"q{number}", actor="ann")
    either.resume("q0", actor="bob")
    lines = [json.loads(line) for line in cli.ok("audit", "export").splitlines()]
    assert [(each["actor"], each["action"], each["detail"]) for each in lines] == [
        ("ann", "pause", "q0"), ("ann", "pause", "q1"), ("ann", "pause", "q2"), ("bob", "resume", "q0"),
    ]  # fmt: skip
    assert [each["id"] for each in lines] == sorted(each["id"] for each in lines)
    after = cli.ok("audit", "export", "--after", str(lines[1]["id"]), "--actor", "ann")
    assert [json.loads(line)["detail"] for line in after.splitlines()] == ["q2"]


def test_an_export_goes_through_all_pages(cli: Cli, app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.cli.care.audit._PAGE", 2)
    for number in range(5):
        app.pause(f"q{number}", actor="ann")
    assert len(cli.ok("audit", "export").splitlines()) == 5


def test_verify_says_whether_the_chain_is_whole(cli: Cli, either: Headway) -> None:
    assert cli.ok("audit", "verify") == "whole: 0 entries in 0 seals\n"
    either.pause("mail", actor="ann")
    assert "not sealed yet: 1" in cli("audit", "verify").stderr
    assert either.seal_audit() == 1
    said = cli.ok("audit", "verify").splitlines()
    assert said[0] == "whole: 1 entry in 1 seal"
    seal = said[1].removeprefix("seal ")
    assert cli.json("audit", "verify", "--seal", seal)["newest"] == seal
    assert [each["status"] for each in cli.json("doctor")["checks"] if each["name"] == "audit"] == ["ok"]
    assert "is no seal" in cli.refused("audit", "verify", "--seal", "17", code=2)
    forged = cli("audit", "verify", "--seal", f"1:{'0' * 64}")
    assert (forged.exit_code, "not the one that you kept" in forged.stdout) == (1, True)


def test_doctor_says_when_the_chain_is_broken(cli: Cli, either: Headway) -> None:
    either.pause("mail", actor="ann")
    either.seal_audit()
    _forge(either)
    result = cli("audit", "verify")
    assert (result.exit_code, result.stdout.startswith("broken: entry ")) == (1, True)
    (found,) = [each for each in json.loads(cli("doctor", "--json").stdout)["checks"] if each["name"] == "audit"]
    assert (found["status"], found["fix"].startswith("headway audit verify")) == ("problem", True)


def test_erase_takes_the_words_out(cli: Cli, either: Headway) -> None:
    either.pause("mail", actor="ann")
    either.seal_audit()
    (entry,) = either.audit_log()
    assert "add --yes" in cli.refused("audit", "erase", str(entry.id), code=2)
    assert cli.ok("audit", "erase", str(entry.id), "--yes") == "erased: 1\n"
    assert cli.json("audit", "erase", str(entry.id), "--yes") == {"erased": 0}
    assert "erased  pause" in cli.ok("audit")
    assert cli.ok("audit", "verify").startswith("whole: 1 entry in 1 seal, 1 of them erased")


def _forge(app: Headway) -> None:
    if app.store.dialect == "postgres":
        import psycopg

        with psycopg.connect(app.url) as conn:
            conn.execute("update headway.audit set actor = 'bob'")
    else:
        import sqlite3
        from contextlib import closing

        with closing(sqlite3.connect(app.url.removeprefix("sqlite:///"))) as conn, conn:
            conn.execute("update audit set actor = 'bob'")
