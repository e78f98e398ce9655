"""What a shell expects of a program: beginnings of ids, filters that repeat, help, colours, signals."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from headway import Headway
from headway.errors import InvalidJob
from headway.model.ids import new_id

Cli = Any


def test_the_beginning_of_an_id_will_do(cli: Cli, either: Headway) -> None:
    job = either.enqueue("welcome", {"user_id": 7}).id
    other = job[:-1] + ("0" if job[-1] != "0" else "1")
    either.enqueue_many([either_build(either, other)])
    alone = either.enqueue_many([either_build(either, "ffffffff" + new_id()[8:])])[0].id
    for short in ("ffffff", "FFFFFFFF", alone[:9], alone[:20], alone.replace("-", "")[:31]):
        assert cli.json("jobs", "show", short)["id"] == alone
    assert alone in cli.ok("jobs", "why", "ffffff")
    assert cli.json("jobs", "change", "ffffff", "--priority", "7")["priority"] == 7
    assert cli.json("jobs", "cancel", "ffffff")[0] == {"id": alone, "status": "canceled"}
    assert cli.json("jobs", "retry", "ffffff")[0]["id"] == alone
    said = cli.refused("jobs", "show", job[:-1], code=2)
    assert f"the ids of several jobs begin with {job[:-1]}, so give more of it:" in said
    assert job in said
    assert other in said
    assert "there is no job whose id begins with 000000" in cli.refused("jobs", "show", "000000", code=1)
    assert "give at least 6 digits" in cli.refused("jobs", "show", "fffff", code=2)
    assert "is not a job id" in cli.refused("jobs", "show", "nonsense", code=1)


def either_build(app: Headway, job_id: str) -> Any:
    from headway.model.job import NewJob

    return NewJob(id=job_id, kind="welcome", tenant="default")


def test_filters_repeat(cli: Cli, either: Headway, hand: Any) -> None:
    worker = hand()
    ids = {to: either.enqueue("welcome").id for to in ("succeeded", "dead", "canceled")}
    either.cancel(ids["canceled"])
    worker.claim()
    worker.end(ids["succeeded"])
    worker.end(ids["dead"], "dead", "no")
    ids["queued"] = either.enqueue("other", queue="mail").id

    def found(**filters: Any) -> set[str]:
        return {job.id for job in either.jobs(**filters)}

    some = ("dead", "canceled", "queued")
    assert found(status=some) == {ids[status] for status in some}
    assert found(status=["dead"], kind=("welcome", "other")) == {ids["dead"]}
    assert found(status=some, queue=("mail", "default")) == found(status=some)
    assert [job.id for job in either.jobs(status=some)] == sorted((ids[status] for status in some), reverse=True)
    newest, *rest = either.jobs(status=some)
    assert either.jobs(status=some, limit=1) == [newest]
    assert either.jobs(status=some, limit=2, before=newest.id) == rest
    assert either.count_jobs(status=some) == 3
    with pytest.raises(InvalidJob, match="status has no value"):
        either.jobs(status=())
    with pytest.raises(InvalidJob, match="tenant takes one value"):
        either.jobs(tenant=("a", "b"))
    with pytest.raises(InvalidJob, match="'bogus' does not exist"):
        either.jobs(status=("dead", "bogus"))
    with pytest.raises(InvalidJob, match="100 combinations of values: give 64 at most"):
        either.jobs(kind=list(map(str, range(100))), queue=list(map(str, range(100))))

    flags = ("--status", "dead", "--status", "canceled")
    assert {job["id"] for job in cli.json("jobs", "list", *flags)} == {ids["dead"], ids["canceled"]}
    assert "--status dead --status canceled --limit 1" in cli("jobs", "list", *flags, "--limit", "1").stderr
    assert cli.ok("jobs", "retry", *flags, "--dry-run") == "would retry 2 jobs\n"
    assert either.cancel_jobs(status=("queued", "scheduled"), kind=("other",)) == 1


def test_help_goes_to_stdout(cli: Cli) -> None:
    assert cli.ok("help") == cli.ok("--help")
    assert cli.ok("help", "jobs", "list") == cli.ok("jobs", "list", "--help")
    assert cli.ok("help", "enqueue").startswith("Usage: headway enqueue ")
    assert "headway jobs has no command 'lst': did you mean list?" in cli.refused("help", "jobs", "lst", code=2)
    for bare in ((), ("jobs",)):
        result = cli(*bare)
        assert (result.exit_code, result.stderr) == (2, "")
        assert result.stdout.startswith("Usage: headway ")


def test_no_color_means_no_escapes(cli: Cli, app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    app.enqueue("welcome")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" in cli.ok("jobs", "list")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in cli.ok("jobs", "list")
    monkeypatch.setenv("NO_COLOR", "")  # empty is as if it were not set
    assert "\x1b[" in cli.ok("jobs", "list")


def test_ctrl_c_ends_it_with_130_and_without_a_trace(app: Headway, start: Callable[..., subprocess.Popen[str]]) -> None:
    job = app.enqueue("welcome").id
    process = start("jobs", "logs", "-f", job)
    assert process.stderr is not None
    assert "waiting for it to run" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=180)
    assert (process.returncode, err.strip()) == (130, "")


def test_ctrl_c_while_it_is_being_imported_leaves_no_trace_either(tmp_path: Any) -> None:
    (tmp_path / "click.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(60)\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from headway.__main__ import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=180)
    assert (process.returncode, out, err) == (130, "", "")
