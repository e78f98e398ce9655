"""`headway groups`, on both stores."""

from __future__ import annotations

from typing import Any

from headway import Headway
from headway.app.groups import GroupHandle
from headway.model.group import Group
from headway.model.ids import new_id

Cli = Any
Hand = Any


def group(app: Headway, count: int, **options: Any) -> GroupHandle:
    @app.job
    def resize(n: int) -> None: ...

    @app.job
    def publish() -> None: ...

    return app.group([resize.build(n=number) for number in range(count)], callback=publish.build(), **options)


def test_show_says_how_far_it_is(cli: Cli, either: Headway, hand: Hand) -> None:
    made = group(either, 4, on_failure="continue")
    worker = hand()
    first, second, *_ = worker.claim(3)
    worker.end(first)
    worker.end(second, "dead", "ValueError: two")
    result = cli("groups", "show", made.id)
    lines = result.stdout.splitlines()
    assert lines[0] == f"group  running  {made.id}"
    assert lines[1] == "  ███████████████░░░░░░░░░░░░░░░ 50%  2 of 4 jobs over, 1 without success"
    assert lines[2] == "  members   1 queued, 1 running, 1 succeeded, 1 dead"
    assert lines[3] == "  mode      parallel, on failure continue"
    assert made.callback is not None
    assert lines[4] == f"  callback  {made.callback.id} held"
    assert f"headway jobs list --group {made.id}" in result.stderr
    assert f"headway groups retry {made.id}" in result.stderr
    found = cli.json("groups", "show", made.id)
    computed = {"status", "total", "done", "failed", "progress", "callback_status"}
    assert set(found) == {*Group.__struct_fields__, *computed}
    assert (found["status"], found["total"], found["done"], found["failed"]) == ("running", 4, 2, 1)
    assert (found["progress"], found["callback_status"]) == (0.5, "held")


def test_retry_runs_again_what_did_not_succeed(cli: Cli, either: Headway, hand: Hand) -> None:
    made = group(either, 2, on_failure="skip")
    worker = hand()
    first, second = worker.claim(2)
    worker.end(first)
    assert cli.ok("groups", "retry", made.id) == "nothing to retry: none of its jobs ended without success\n"
    worker.end(second, "dead", "ValueError: two")
    assert worker.claim() == []  # the latest moment at which the callback hears of it
    assert cli.json("groups", "show", made.id)["callback_status"] == "canceled"
    assert cli.ok("groups", "retry", made.id) == "1 job will run again\n"
    assert worker.claim() == [second]
    worker.end(second)
    assert cli.json("groups", "show", made.id)["status"] == "succeeded"
    assert cli.json("groups", "retry", made.id) == []


def test_cancel_says_how_many(cli: Cli, either: Headway, hand: Hand) -> None:
    made = group(either, 3)
    (running,) = hand().claim(1)
    assert cli.ok("groups", "cancel", made.id, "--reason", "wrong album") == (
        "3 jobs canceled, 1 running asked to stop\n"
    )
    assert either.get(made.jobs[2].id).error == "wrong album"
    assert either.get(running).cancel_requested_at is not None
    assert "  stopped   2" in cli.ok("groups", "show", made.id)
    other = group(either, 2)
    assert {each["status"] for each in cli.json("groups", "cancel", other.id)} == {"canceled"}
    assert cli.ok("groups", "cancel", other.id) == "nothing to cancel: all its jobs have ended\n"


def test_a_group_must_be_known(cli: Cli, app: Headway) -> None:
    app.counts()
    for verb in ("show", "cancel", "retry"):
        assert "there is no group" in cli.refused("groups", verb, new_id(), code=1)
        assert "is not a group" in cli.refused("groups", verb, "x", code=2)


def test_list_has_the_newest_first(cli: Cli, either: Headway, hand: Hand) -> None:
    first, second = group(either, 2), either.tenant("acme").group([either.build_job("resize", {"n": 1})])
    either.fair("default", False)
    worker = hand()
    worker.end(next(job_id for job_id in worker.claim() if either.get(job_id).group_id == first.id))
    found = cli.json("groups", "list")
    assert [each["id"] for each in found] == [second.id, first.id]
    assert [(each["status"], each["done"], each["total"]) for each in found] == [("running", 0, 1), ("running", 1, 2)]
    assert [each["id"] for each in cli.json("groups", "list", "--tenant", "acme")] == [second.id]
    page = cli("groups", "list", "--limit", "1")
    assert second.id in page.stdout
    assert first.id not in page.stdout
    assert f"headway groups list --limit 1 --after {second.id}" in page.stderr
    assert [each.id for each in either.groups(after=second.id)] == [first.id]
    assert [each.id for each in either.tenant("acme").groups()] == [second.id]
    assert "1 of 2" in cli("groups").stdout
    assert "no group after" in cli("groups", "list", "--after", first.id).stderr
