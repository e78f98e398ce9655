"""`headway jobs`: list, show, why, change and wait, on a SQLite file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from headway.model.ids import new_id
from headway.model.job import Job
from headway.testing import drain

Cli = Any


def test_looking_makes_no_file(cli: Cli, folder: Path) -> None:
    for command in (
        ("jobs", "list"),
        ("jobs", "why", new_id()),
        ("jobs", "move", new_id(), "--first"),
        ("queues",),
        ("queues", "set", "mail", "--fair"),
        ("workers",),
        ("trains",),
        ("trains", "show", "dest_1"),
        ("trains", "hold", "dest_1"),
        ("groups", "show", new_id()),
        ("limits",),
        ("limits", "set", "--queue", "mail", "--max-running", "1"),
        ("jobs", "logs", new_id()),
        ("schedules",),
        ("triggers",),
        ("triggers", "test", "t"),
        ("templates",),
        ("templates", "run", "t"),
        ("definitions",),
        ("events",),
    ):
        assert f"there is no database file {folder / 'headway.db'}" in cli.refused(*command, code=1)
    assert not (folder / "headway.db").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("enqueue", "welcome"),
        ("events", "emit", "user.came"),
        ("schedules", "create", "s", "--every", "5m", "--kind", "a"),
        ("triggers", "create", "t", "--event", "user.came", "--kind", "a"),
        ("templates", "create", "t", "--kind", "a"),
    ],
)
def test_what_creates_something_makes_the_file(cli: Cli, folder: Path, command: tuple[str, ...]) -> None:
    result = cli(*command)
    assert result.exit_code == 0, result.output
    assert (folder / "headway.db").exists()


def test_list_is_a_table_for_people_and_the_model_for_programs(cli: Cli, app: Headway) -> None:
    app.enqueue("welcome", {"user_id": 7}, queue="mail")
    made = app.enqueue("bill", {"order": 1})
    table = cli.ok("jobs", "list")
    assert table.splitlines()[0].split()[:4] == ["ID", "STATUS", "KIND", "QUEUE"]
    assert table.splitlines()[1].split()[:4] == [made.id, "queued", "bill", "default"]
    assert "\x1b" not in table
    found = cli.json("jobs", "list", "--kind", "bill")
    assert [job["id"] for job in found] == [made.id]
    assert set(found[0]) == set(Job.__struct_fields__)
    assert found[0]["created_at"].endswith("Z")


def test_pages_follow_each_other_by_the_printed_command(cli: Cli, app: Headway) -> None:
    ids = [app.enqueue("bill", {"order": number}).id for number in range(5)]
    seen: list[str] = []
    flags: list[str] = ["--kind", "bill", "--limit", "2"]
    while True:
        result = cli("jobs", "list", *flags)
        seen += [line.split()[0] for line in result.stdout.splitlines()[1:]]
        if not result.stderr:
            break
        flags = result.stderr.split("jobs list ")[1].split()
    assert seen == ids[::-1]


def test_list_filters_by_time_and_says_when_nothing_matches(cli: Cli, app: Headway) -> None:
    made = app.enqueue("bill", {})
    assert made.id in cli.ok("jobs", "list", "--created-after", "1h")
    result = cli("jobs", "list", "--created-before", "1h", "--kind", "bill")
    assert result.stdout == ""
    assert result.stderr.startswith("no jobs for --kind bill --created-before 2")


def test_show_has_everything(cli: Cli, app: Headway) -> None:
    made = app.enqueue("welcome", {"user_id": 13}, queue="mail", max_attempts=1)
    cli.ok("worker", "shopapp:app", "--until-idle", "--log-level", "error")
    cli.ok("jobs", "retry", made.id)
    page = cli.ok("jobs", "show", made.id)
    for words in (
        "welcome  queued",
        "mail, priority 100",
        '"user_id": 13',
        "attempts (1)",
        "failed",
        "ValueError: unlucky",
        "retry",
        "ada@",
    ):
        assert words in page
    job = cli.json("jobs", "show", made.id)
    assert job["attempts"][0]["status"] == "failed"
    assert job["audit"][0]["action"] == "retry"


def test_what_a_job_said_cannot_drive_the_terminal(cli: Cli, app: Headway) -> None:
    made = app.enqueue("bill", {})
    app.cancel(made.id, reason="\x1b]0;gotcha\x07 clear \x1b[2J")
    for page in (cli.ok("jobs", "show", made.id), cli.ok("jobs", "list"), cli.ok("jobs", "why", made.id)):
        assert "gotcha" in page
        assert "\x1b" not in page
        assert "\x07" not in page


def test_why_gives_the_way_out(cli: Cli, app: Headway) -> None:
    made = app.enqueue("welcome", {"user_id": 7}, queue="mail")
    assert "headway worker module:app --queues mail" in cli.ok("jobs", "why", made.id)
    assert cli.json("jobs", "why", made.id)["status"] == "queued"


def test_change_changes_and_takes_back(cli: Cli, app: Headway) -> None:
    made = app.enqueue("bill", {}, timeout="5s", delay="1h")
    assert "it is queued" in cli.ok(
        "jobs", "change", made.id, "--priority", "1", "--scheduled-for", "now", "--timeout", "none"
    )
    job = app.get(made.id)
    assert (job.priority, job.status, job.timeout_ms) == (1, "queued", None)
    assert cli.json("jobs", "change", made.id, "--queue", "slow", "--payload", '{"order": 2}')["payload"] == {
        "order": 2
    }
    assert app.audit(made.id)[0].actor == cli.json("jobs", "show", made.id)["audit"][0]["actor"]
    assert "nothing to change" in cli.refused("jobs", "change", made.id, code=2)


def test_people_do_not_see_the_secret_fields_of_a_result(cli: Cli, app: Headway) -> None:
    @app.job
    def login() -> dict[str, str]:
        return {"user": "ann", "token": "t0k3n"}

    job = login.enqueue()
    drain(app)
    page = cli.ok("jobs", "show", job.id)
    assert '"user": "ann"' in page
    assert '"token": "[redacted]"' in page
    # programs get what is stored
    assert cli.json("jobs", "show", job.id)["result"] == {"user": "ann", "token": "t0k3n"}


def test_wait_prints_the_status_and_fails_if_it_is_another(cli: Cli, app: Headway) -> None:
    job = app.enqueue("welcome", {"user_id": 7})
    assert cli("jobs", "wait", job.id, "--status", "queued", "--status", "running").stdout == "queued\n"
    late = cli("jobs", "wait", job.id, "--timeout", "10ms")
    assert (late.exit_code, late.stdout) == (1, "queued\n")
    app.cancel(job.id, reason="not needed")
    ended = cli("jobs", "wait", job.id, "--json")
    assert ended.exit_code == 0
    assert json.loads(ended.stdout) == {"id": job.id, "status": "canceled", "result": None, "error": "not needed"}
    assert cli("jobs", "wait", job.id, "--status", "waiting").exit_code == 1


def test_tags_are_given_listed_shown_and_searched_for(cli: Cli, app: Headway) -> None:
    one = cli.ok("enqueue", "bill", "--tag", "vip", "--tag", "eu", "--meta", '{"customer": {"id": 7}}').strip()
    two = cli.ok("enqueue", "bill", "--tag", "eu", "--priority", "7").strip()
    three = cli.ok("enqueue", "bill").strip()
    assert cli.json("jobs", "show", one)["tags"] == ["eu", "vip"]
    assert "eu vip" in cli.ok("jobs", "show", one)
    assert "eu vip" in cli.ok("jobs", "list")
    assert f"job {one} is queued (tags: eu, vip)" in cli.ok("jobs", "why", one)
    assert cli.json("jobs", "why", one)["tags"] == ["eu", "vip"]

    def listed(*flags: str) -> list[str]:
        return [job["id"] for job in cli.json("jobs", "list", *flags)]

    assert listed("--tag", "eu", "--tag", "vip") == [one]
    assert listed("--any-tag", "eu", "--any-tag", "vip") == [two, one]
    assert listed("--meta", "customer.id=7") == [one]
    assert listed("--meta", 'customer.id="7"') == []
    assert listed("--order", "oldest") == [one, two, three]
    assert listed("--order", "priority") == [two, one, three]
    assert listed("--order", "run", "--queue", "default") == [two, one, three]
    first = cli("jobs", "list", "--order", "priority", "--limit", "1", "--meta", "customer.id=7", "--tag", "vip")
    assert "next page" not in first.stderr
    page = cli("jobs", "list", "--order", "priority", "--limit", "1", "--any-tag", "eu")
    cursor = app.get(two).cursor
    assert f"jobs list --any-tag eu --limit 1 --order priority --after {cursor}" in page.stderr
    assert listed("--any-tag", "eu", "--limit", "1", "--order", "priority", "--after", cursor) == [one]
    assert "would cancel 2 jobs" in cli.ok("jobs", "cancel", "--tag", "eu", "--dry-run")
    cli.ok("templates", "create", "t", "--kind", "bill", "--option", "tags=vip,eu")
    assert app.get_template("t").options == {"tags": ["vip", "eu"]}


def test_meta_and_tags_change_and_limits_take_the_oldest(cli: Cli, app: Headway) -> None:
    ids = [cli.ok("enqueue", "bill", "--tag", "old").strip() for _ in range(3)]
    assert cli.json("jobs", "change", ids[0], "--tags", "vip,eu", "--meta", '{"a": 1}')["tags"] == ["eu", "vip"]
    assert cli.json("jobs", "change", ids[0], "--tags", "none", "--meta", "none")["meta"] is None
    assert app.get(ids[0]).tags == ()
    assert "would cancel 2 jobs" in cli.ok("jobs", "cancel", "--kind", "bill", "--limit", "2", "--dry-run")
    assert cli.json("jobs", "cancel", "--kind", "bill", "--limit", "2", "--yes")["jobs"] == 2
    assert [app.get(job_id).status for job_id in ids] == ["canceled", "canceled", "queued"]
    assert cli.json("jobs", "retry", "--kind", "bill", "--limit", "1", "--yes")["jobs"] == 1
    assert [app.get(job_id).status for job_id in ids] == ["queued", "canceled", "queued"]
    assert cli.json("jobs", "delete", "--kind", "bill", "--limit", "5", "--yes")["jobs"] == 1


def test_show_says_who_waits_for_a_job(cli: Cli, app: Headway) -> None:
    first = cli.ok("enqueue", "bill", "--train", "t").strip()
    behind = cli.ok("enqueue", "bill", "--train", "t").strip()
    after = cli.ok("enqueue", "bill", "--after", first).strip()
    shown = cli.ok("jobs", "show", first)
    assert f"followed by 1 job: {after} (held)" in " ".join(shown.split())
    assert f"in its train 1 job: {behind} (held)" in " ".join(shown.split())
    assert [(each["id"], each["waits"]) for each in cli.json("jobs", "show", first)["waiters"]] == [
        (after, "after"),
        (behind, "train"),
    ]
