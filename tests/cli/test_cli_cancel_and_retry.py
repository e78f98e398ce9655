"""`headway jobs cancel` and `retry`, of one job or of many, on a SQLite file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway import Headway
from headway.model.ids import new_id

Cli = Any


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
    answered: Any, app: Headway, answer: str, code: int, counts: dict[str, int]
) -> None:
    for number in range(3):
        app.enqueue("bill", {"order": number})
    found, out, err = answered("jobs", "cancel", "--kind", "bill", answer=answer)
    assert found == code
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
