"""`headway jobs logs`, on both stores."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from headway import Headway
from headway.cli.jobs import logs
from headway.model.job import Report, Settlement

Cli = Any


class Runner:
    """Runs one job by hand: what it logs, and how it ends, is said here."""

    def __init__(self, app: Headway, worker: Any) -> None:
        self._app, self._worker = app, worker
        self._text = ""
        self._fence = 0
        self.id = app.enqueue("welcome", {}, backoff="0s").id

    def begin(self) -> None:
        ops = self._app.store.ops
        self._app.store.run(ops.promote(limit=10))
        assert self._worker.claim() == [self.id]
        self._text, self._fence = "", self._app.get(self.id).fence

    def log(self, text: str, kept: int = 10_000) -> None:
        self._text += text
        report = Report(self.id, self._fence, None, None, self._text[-kept:], len(self._text))
        self._app.store.run(self._app.store.ops.report(self._worker.id, [report]))

    def end(self, to: Any, **values: Any) -> None:
        how = "succeeded" if to == "succeeded" else "failed"
        settlement = Settlement(id=self.id, fence=self._fence, status=how, to=to, charge=how == "failed", **values)
        assert self._app.store.run(self._app.store.ops.settle(self._worker.id, [settlement])).lost == []


@pytest.fixture
def runner(either: Headway, hand: Callable[..., Any]) -> Runner:
    return Runner(either, hand())


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What happens between one look at the job and the next, instead of waiting."""

    def between(*happenings: Callable[[], Any]) -> None:
        rest = iter(happenings)
        monkeypatch.setattr(logs.time, "sleep", lambda _: next(rest)())

    return between


def test_the_log_is_all_that_goes_to_stdout(cli: Cli, runner: Runner) -> None:
    result = cli("jobs", "logs", runner.id)
    assert (result.stdout, result.stderr) == ("", f"job {runner.id} is queued, and has not run yet\n")
    runner.begin()
    assert "is running, and logged nothing" in cli("jobs", "logs", runner.id).stderr
    runner.log("one\ntwo")
    result = cli("jobs", "logs", runner.id)
    assert result.stdout == "one\ntwo\n"
    assert f"to follow it: headway jobs logs -f {runner.id}" in result.stderr
    runner.end("succeeded")
    result = cli("jobs", "logs", runner.id)
    assert (result.stdout, result.stderr) == ("one\ntwo\n", "")


def test_executions_come_one_after_another_with_both_streams(cli: Cli, runner: Runner) -> None:
    runner.begin()
    runner.log("mixed 1\n")
    runner.end("queued", exit_code=3, pid=77, stdout_tail="out 1\n", stderr_tail="err 1\n", error="exited\nmore")
    runner.begin()
    runner.log("mixed 2\n")
    runner.end("succeeded", exit_code=0, pid=78, stdout_tail="out 2\n", stderr_tail="")
    result = cli("jobs", "logs", runner.id)
    assert result.stdout == "out 1\nerr 1\nmixed 2\n"
    lines = result.stderr.splitlines()
    assert lines[0].startswith("execution 1, failed after ")
    assert lines[0].endswith(", exit code 3: exited")
    assert lines[1] == "stderr:"
    assert lines[2].endswith(", exit code 0")
    assert cli.ok("jobs", "logs", runner.id, "--attempt", "1") == "out 1\nerr 1\n"
    assert "has no execution 9" in cli.refused("jobs", "logs", runner.id, "--attempt", "9", code=1)
    found = cli.json("jobs", "logs", runner.id)
    assert (found["log_tail"], found["log_end"], found["status"]) == ("mixed 2\n", 8, "succeeded")
    assert [(each["exit_code"], each["pid"]) for each in found["attempts"]] == [(3, 77), (0, 78)]
    assert [each["stderr_tail"] or "" for each in found["attempts"]] == ["err 1\n", ""]
    page = cli.ok("jobs", "show", runner.id)
    heading, *rows = page[page.index("FENCE") :].splitlines()[:3]
    assert heading.split() == ["FENCE", "STATUS", "STARTED", "TOOK", "EXIT", "PID", "WORKER", "ERROR"]
    took = [row.split(" ago)  ")[1].split() for row in rows]
    assert [row[1:3] for row in took] == [["3", "77"], ["0", "78"]]


def test_what_was_not_kept_is_said(cli: Cli, runner: Runner) -> None:
    runner.begin()
    runner.log("x" * 1_500 + "end", kept=3)
    result = cli("jobs", "logs", runner.id)
    assert result.stdout == "end\n"
    assert "1,500 characters before this were not kept" in result.stderr


def test_output_cannot_drive_the_terminal(cli: Cli, runner: Runner) -> None:
    runner.begin()
    runner.log("\x1b[31mred\x1b[0m\r10%\r20%\r\n\x1b]0;gotcha\x07\x07end")
    assert cli.ok("jobs", "logs", runner.id) == "red\n10%\n20%\n\\x07end\n"
    assert "  red\n  10%\n  20%\n  \\x07end\n" in cli.ok("jobs", "show", runner.id)


def test_following_prints_what_is_new_until_the_end(cli: Cli, runner: Runner, between: Callable[..., None]) -> None:
    between(
        runner.begin,
        lambda: runner.log("one\ntw"),
        lambda: None,
        lambda: runner.log("o"),
        lambda: runner.log("\nthree"),
        lambda: runner.end("succeeded"),
    )
    result = cli("jobs", "logs", "-f", runner.id)
    assert result.exit_code == 0
    assert result.stdout == "one\ntwo\nthree\n"
    assert result.stderr == f"it is queued: waiting for it to run\njob {runner.id} succeeded\n"


def test_following_says_what_it_missed(cli: Cli, runner: Runner, between: Callable[..., None]) -> None:
    def flood() -> None:
        runner.log("x" * 100 + "end", kept=3)

    runner.begin()
    runner.log("begin ")
    between(flood, lambda: runner.end("succeeded"))
    result = cli("jobs", "logs", "--follow", runner.id)
    assert result.stdout == "begin \nend\n"
    assert "100 characters before this were not kept" in result.stderr


def test_following_goes_on_with_the_next_execution(cli: Cli, runner: Runner, between: Callable[..., None]) -> None:
    def twice() -> None:
        runner.log("two\n")
        runner.end("queued", error="ValueError: first")
        runner.begin()
        runner.log("again\n")
        runner.end("queued", error="ValueError: second")
        runner.begin()
        runner.log("at last\n")

    runner.begin()
    runner.log("one\n")
    between(twice, lambda: runner.end("succeeded"))
    result = cli("jobs", "logs", "-f", runner.id)
    assert result.stdout == "one\ntwo\nagain\nat last\n"
    told = [line.partition(" after ")[0] for line in result.stderr.splitlines()]
    assert told == [
        "execution 1, failed",
        "execution 2",
        "execution 2, failed",
        "execution 3",
        f"job {runner.id} succeeded",
    ]


def test_following_finds_the_end_of_a_program_in_its_streams(
    cli: Cli, runner: Runner, between: Callable[..., None]
) -> None:
    def fail() -> None:
        streams = {"stdout_tail": "out 1\nout 2\nout 3", "stderr_tail": "err 1\nerr 2\n"}
        runner.end("queued", exit_code=1, pid=7, error="exited with code 1", **streams)
        runner.begin()

    runner.begin()
    runner.log("out 1\nerr 1\nout 2\n")
    between(fail, lambda: runner.end("succeeded"))
    result = cli("jobs", "logs", "-f", runner.id)
    assert result.stdout == "out 1\nerr 1\nout 2\nout 3\nerr 2\n"
    assert "exit code 1: exited with code 1" in result.stderr


def test_following_tells_how_an_execution_ended_while_the_next_waits(
    cli: Cli, runner: Runner, between: Callable[..., None]
) -> None:
    runner.begin()
    between(
        lambda: runner.end("queued", error="ValueError: no"),
        lambda: None,
        runner.begin,
        lambda: runner.end("dead", error="ValueError: never"),
    )
    result = cli("jobs", "logs", "-f", runner.id)
    lines = result.stderr.splitlines()
    assert lines[0].startswith("execution 1, failed after ")
    assert lines[1:] == [
        "it is queued: waiting for it to run", "execution 2", f"job {runner.id} dead: ValueError: never",
    ]  # fmt: skip


def test_following_for_programs_is_a_line_of_json_each(cli: Cli, runner: Runner, between: Callable[..., None]) -> None:
    runner.begin()
    runner.log("one\n")
    between(lambda: runner.log("two\n"), lambda: runner.end("succeeded"))
    lines = [json.loads(line) for line in cli.ok("jobs", "logs", "-f", runner.id, "--json").splitlines()]
    assert lines == [
        {"fence": 1, "text": "one\n"}, {"fence": 1, "text": "two\n"}, {"status": "succeeded", "error": None},
    ]  # fmt: skip
    assert "leave --attempt out" in cli.refused("jobs", "logs", "-f", runner.id, "--attempt", "1", code=2)
