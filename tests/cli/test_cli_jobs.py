"""`headway enqueue` and `headway jobs`, on a SQLite file."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click
import pytest

from headway import Headway
from headway.cli.jobs.enqueue import enqueue
from headway.define.option_types import UsingOptions
from headway.model.ids import new_id
from headway.model.job import Delivery, Job, OnConflict, OnEnd, OnFailure, Source
from headway.testing import drain

Cli = Any
Start = Callable[..., "subprocess.Popen[str]"]


def test_enqueue_prints_the_id_and_says_that_it_made_a_file(cli: Cli, app: Headway, folder: Path) -> None:
    (folder / "headway.db").unlink()
    result = cli("enqueue", "welcome", '{"user_id": 7}')
    assert result.exit_code == 0
    job = app.get(result.stdout.strip())
    assert job.payload == {"user_id": 7}
    assert job.queue == "default"
    assert f"made a new database, {folder / 'headway.db'}" in result.stderr
    assert cli("enqueue", "welcome", '{"user_id": 8}').stderr == ""


def test_enqueue_has_the_options_of_using() -> None:
    flags = {option.name: option for option in enqueue.params if isinstance(option, click.Option)}
    of_the_command = {"app_spec", "app_dir", "url", "config", "log_level", "log_format", "json"}
    # a connection cannot be typed
    assert set(flags) - of_the_command == set(get_type_hints(UsingOptions)) - {"conn"}
    for name, literal in {
        "on_canceled": OnEnd,
        "on_dead": OnEnd,
        "on_failure": OnFailure,
        "on_conflict": OnConflict,
        "delivery": Delivery,
        "source": Source,
    }.items():
        choice = flags[name].type
        assert isinstance(choice, click.Choice)
        assert tuple(choice.choices) == get_args(literal)


def test_enqueue_takes_what_orders_and_limits(cli: Cli, app: Headway) -> None:
    first, second = cli.ok("enqueue", "bill").strip(), cli.ok("enqueue", "bill").strip()
    flags = {
        "--train": "dest_42",
        "--on-canceled": "hold",
        "--on-dead": "hold",
        "--partition": "order:42",
        "--concurrency": "3",
        "--concurrency-key": "c42",
        "--rate": "100/min",
        "--burst": "10",
        "--rate-key": "r42",
        "--on-failure": "continue",
        "--source": "system",
        "--created-by": "grace",
    }
    made = cli.json(
        "enqueue", "bill", *[part for pair in flags.items() for part in pair], "--after", first, "--after", second
    )
    assert made["status"] == "held"
    job = app.get(made["id"])
    assert (job.train, job.on_canceled, job.on_dead, job.partition) == ("dest_42", "hold", "hold", "order:42")
    assert (job.concurrency, job.concurrency_key) == (3, "c42")
    assert (job.rate_count, job.rate_period_ms, job.rate_burst, job.rate_key) == (100, 60_000, 10, "r42")
    assert (job.source, job.created_by, job.pending) == ("system", "grace", True)
    app.cancel(first)
    app.cancel(second)
    assert app.get(made["id"]).status == "queued"  # on_failure says that it runs all the same


def test_enqueue_adds_to_a_group(cli: Cli, app: Headway) -> None:
    @app.job
    def bill(order: int) -> None: ...

    group = app.group([bill.build(order=1)])
    made = cli.ok("enqueue", "bill", '{"order": 2}', "--group", group.id).strip()
    assert app.get(made).group_id == group.id
    assert [job["id"] for job in cli.json("jobs", "list", "--group", group.id)] == [made, group.jobs[0].id]
    assert cli.ok("jobs", "cancel", "--group", group.id, "--dry-run") == "would cancel 2 jobs\n"
    next_page = cli("jobs", "list", "--group", group.id, "--limit", "1").stderr
    assert f"jobs list --group {group.id} --limit 1 --before {made}" in next_page


def test_enqueue_takes_every_option_of_a_job(cli: Cli, app: Headway) -> None:
    scheduled = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    expires = scheduled + timedelta(hours=1)
    flags = {
        "--queue": "slow",
        "--tenant": "acme",
        "--priority": "7",
        "--scheduled-for": scheduled.isoformat(),
        "--expires-at": expires.isoformat(),
        "--max-attempts": "4",
        "--max-losses": "2",
        "--backoff": "3s",
        "--timeout": "1m30s",
        "--delivery": "at_most_once",
        "--idempotency-key": "i1",
        "--unique-key": "u1",
        "--unique-scope": "queued,scheduled",
        "--on-conflict": "raise",
        "--correlation-id": "c1",
        "--trace-id": "t1",
        "--source-ref": "r1",
    }
    made = cli.json(
        "enqueue", "bill", "-", *[part for pair in flags.items() for part in pair],
        "--meta", "a=1", "--meta", '{"b": 2}', stdin='{"order": 1}',
    )  # fmt: skip
    assert made["created"] is True
    assert made["status"] == "scheduled"
    job = app.get(made["id"])
    assert job.payload == {"order": 1}
    assert (job.queue, job.tenant, job.priority) == ("slow", "acme", 7)
    assert (job.scheduled_for, job.expires_at) == (scheduled, expires)
    assert (job.max_attempts, job.max_losses, job.backoff_base_ms, job.timeout_ms) == (4, 2, 3_000, 90_000)
    assert (job.delivery, job.idempotency_key, job.unique_key) == ("at_most_once", "i1", "u1")
    assert set(job.unique_scope) == {"queued", "scheduled"}
    assert (job.correlation_id, job.trace_id, job.source_ref) == ("c1", "t1", "r1")
    assert job.meta == {"a": "1", "b": 2}
    assert job.created_by is not None
    assert job.created_by.startswith("ada@")


def test_enqueue_with_an_app_uses_its_options_and_checks_the_arguments(cli: Cli, app: Headway) -> None:
    job = app.get(cli.ok("enqueue", "welcome", '{"user_id": 7}', "--app", "shopapp:app").strip())
    assert (job.queue, job.max_attempts) == ("mail", 3)
    assert "user_id" in cli.refused("enqueue", "welcome", '{"user_id": "x"}', "--app", "shopapp", code=2)
    said = cli.refused("enqueue", "welcom", "--app", "shopapp", code=2)
    assert "did you mean welcome?" in said
    assert "--app none" in said


def test_a_repeated_enqueue_says_that_the_job_was_there(cli: Cli) -> None:
    first = cli("enqueue", "welcome", "--idempotency-key", "k")
    second = cli("enqueue", "welcome", "--idempotency-key", "k")
    assert first.stdout == second.stdout
    assert "exists already, and is queued" in second.stderr
    cli.ok("enqueue", "welcome", "--unique-key", "u")
    said = cli.refused("enqueue", "welcome", "--unique-key", "u", "--on-conflict", "raise", code=1)
    assert "u" in said


def test_an_enqueue_may_replace_or_debounce_the_job_that_has_its_key(cli: Cli, app: Headway) -> None:
    by = ("enqueue", "report", '{"user": 7, "n": 1}', "--unique-by", "user", "--unique-group", "g")
    first = cli.ok(*by).strip()
    again = cli(*by[:2], '{"n": 2, "user": 7}', *by[3:], "--on-conflict", "replace", "--replace", "payload,queue")
    assert again.stdout.strip() == first
    assert "this job existed already, and is queued: it was replaced" in again.stderr
    made = cli.json(*by[:2], '{"n": 3, "user": 7}', *by[3:], "--debounce", "5s", "--debounce-max", "1m")
    assert made == {"id": first, "status": "scheduled", "created": False, "replaced": True}
    assert (app.get(first).payload, app.get(first).unique_group) == ({"user": 7, "n": 3}, "g")
    assert "unique group" in cli.ok("jobs", "show", first)
    timed = ("enqueue", "report", "--unique-key", "u", "--unique-for", "10m")
    made = cli.ok(*timed).strip()
    app.cancel(made)
    assert cli.json(*timed) == {"id": made, "status": "canceled", "created": False, "replaced": False}
    assert "cannot be replaced" in cli.refused(*by, "--on-conflict", "replace", "--replace", "id", code=2)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("welcome", '{"user_id": 7'), "invalid value for the payload: this is not JSON"),
        (("welcome", "[1]"), "an object is needed"),
        (("welcome", "--meta", "x"), "'x' is neither KEY=VALUE nor a JSON object"),
        (("welcome", "--unique-key", "u", "--unique-scope", "lost"), "'lost' is no status"),
        (("welcome", "--scheduled-for", "2031-01-01T00:00:00"), "carries no zone: write 2031-01-01T00:00:00Z"),
        (("welcome", "--scheduled-for", "soon"), "'soon' is not a time"),
        (("welcome", "--delay", "5 bananas"), "is not a duration"),
        (("welcome", "--rate", "5/fortnight"), "'5/fortnight' is not a rate: write 100/min"),
        (("welcome", "--burst", "5"), "burst=5 means nothing without rate"),
        (("welcome", "--after", "nope"), "after has 'nope', which is not a job"),
        (("welcome", "--train", ""), "train"),
        (("welcome", "--delay", "5m", "--scheduled-for", "2031-01-01T00:00:00Z"), "exclude each other"),
        (("wel come",), "is not a valid name"),
    ],
)
def test_enqueue_refuses_what_cannot_be(cli: Cli, args: tuple[str, ...], message: str) -> None:
    assert message in cli.refused("enqueue", *args, code=2)


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


@pytest.mark.parametrize("verb", ["show", "why", "cancel", "retry"])
def test_an_id_must_be_long_enough_and_known(cli: Cli, app: Headway, verb: str) -> None:
    made = app.enqueue("bill", {})
    assert "give at least 6 digits" in cli.refused("jobs", verb, made.id[:5], code=2)
    assert "there is no job" in cli.refused("jobs", verb, new_id(), code=1)


def test_several_ids_get_an_answer_each(cli: Cli, app: Headway) -> None:
    one, other = app.enqueue("bill", {}), app.enqueue("bill", {})
    result = cli("jobs", "cancel", one.id, new_id(), other.id, "--reason", "by hand", "--json")
    assert result.exit_code == 1
    answers = json.loads(result.stdout)
    assert [answer.get("status", "error") for answer in answers] == ["canceled", "error", "canceled"]
    assert app.get(one.id).error == "by hand"


def test_bulk_counts_asks_and_does(cli: Cli, app: Headway) -> None:
    for number in range(7):
        app.enqueue("bill", {"order": number})
    app.enqueue("welcome", {"user_id": 7})
    assert cli.ok("jobs", "cancel", "--kind", "bill", "--dry-run") == "would cancel 7 jobs\n"
    assert app.counts() == {"queued": 8}
    assert "there is no terminal to ask: add --yes" in cli.refused("jobs", "cancel", "--kind", "bill", code=2)
    assert cli.ok("jobs", "cancel", "--kind", "bill", "--yes") == "7 jobs canceled or asked to stop\n"
    assert app.counts() == {"queued": 1, "canceled": 7}
    assert cli.json("jobs", "retry", "--status", "canceled", "--dry-run") == {"dry_run": True, "jobs": 7}
    assert cli.json("jobs", "retry", "--status", "canceled", "--yes") == {"dry_run": False, "jobs": 7, "refused": []}
    assert app.counts() == {"queued": 8}
    cli.ok("jobs", "cancel", "--kind", "bill", "--yes")
    assert cli.ok("jobs", "retry", "--status", "canceled", "--yes") == "7 jobs will run again\n"


def test_one_job_is_retried_later_with_other_arguments(cli: Cli, app: Headway) -> None:
    made = app.enqueue("bill", {"order": 1})
    app.cancel(made.id)
    options = ("--delay", "1h", "--max-attempts", "2")
    (again,) = cli.json("jobs", "retry", made.id, *options, "--payload", '{"order": 2}')
    job = app.get(made.id)
    assert (again["status"], job.status, job.max_attempts, job.payload) == ("scheduled", "scheduled", 2, {"order": 2})
    assert "is for one job" in cli.refused("jobs", "retry", "--status", "canceled", *options, code=2)


def test_bulk_needs_to_know_which(cli: Cli, app: Headway) -> None:
    made = app.enqueue("bill", {})
    assert "which jobs?" in cli.refused("jobs", "retry", code=2)
    assert "exclude each other" in cli.refused("jobs", "cancel", made.id, "--kind", "bill", code=2)


def test_one_taken_key_does_not_keep_the_others_from_being_retried(cli: Cli, app: Headway) -> None:
    ended = [app.enqueue("bill", {"order": number}, unique_key=f"o{number}") for number in range(5)]
    for each in ended:
        app.cancel(each.id)
    app.enqueue("bill", {"order": 3}, unique_key="o3")
    result = cli("jobs", "retry", "--status", "canceled", "--yes", "--json")
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert answer["jobs"] == 4
    assert [each["id"] for each in answer["refused"]] == [ended[3].id]
    assert app.counts() == {"queued": 5, "canceled": 1}


@pytest.mark.parametrize(("answer", "code", "counts"), [("n", 1, {"queued": 3}), ("y", 0, {"canceled": 3})])
def test_on_a_terminal_bulk_asks_first(
    start: Start, app: Headway, answer: str, code: int, counts: dict[str, int]
) -> None:
    for number in range(3):
        app.enqueue("bill", {"order": number})
    controller, terminal = pty.openpty()
    try:
        process = start("jobs", "cancel", "--kind", "bill", stdin=terminal)
        os.write(controller, f"{answer}\n".encode())
        out, err = process.communicate(timeout=180)
    finally:
        os.close(controller)
        os.close(terminal)
    assert process.returncode == code
    assert "cancel 3 jobs? [y/N]" in err
    assert out == ("" if code else "3 jobs canceled or asked to stop\n")
    assert app.counts() == counts


def test_retry_of_several_ids_keeps_what_waits_for_others_behind_them(cli: Cli, app: Headway) -> None:
    first = app.enqueue("welcome", {"user_id": 1})
    second = app.enqueue("welcome", {"user_id": 2}, after=[first.id])
    app.cancel(first.id)
    said = cli.ok("jobs", "retry", second.id, first.id)
    assert said == f"{second.id}  held until its turn comes\n{first.id}  queued\n"
    app.cancel(first.id)
    live = app.enqueue("welcome", {"user_id": 3})
    missing = new_id()
    done = cli("--json", "jobs", "retry", second.id, first.id, live.id, missing)
    assert done.exit_code == 1
    answers = json.loads(done.stdout)
    assert [(each["id"], each.get("status")) for each in answers] == [
        (second.id, "held"),
        (first.id, "queued"),
        (live.id, None),
        (missing, None),
    ]
    assert "only a finished job can be retried" in answers[2]["error"]
    positions = [app.get(job.id).position for job in (live, first)]
    assert positions == sorted(positions)
    app.cancel(first.id)
    cli.ok("jobs", "retry", second.id, first.id, "--keep-place")
    assert app.get(second.id).status == "held"


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
