"""Commands as jobs: what a worker makes of how a program ended, on both stores where it is stored."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace as replace_in

from headway.commands import CommandKind
from headway.errors import CommandFailed
from tests import sizes_and_seeds
from tests.commands.command_scripts import ARGV, run, script
from tests.commands.supervised_programs import DAEMON, DEAF, SLEEP, marked, supervisors_of
from tests.tenant_ids import tenant_id
from tests.worker_harness import WorkerHarness

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a subreaper and /proc")

Declare = Callable[..., CommandKind]


def test_a_command_succeeds_and_its_attempt_has_everything(harness: WorkerHarness, declare: Declare) -> None:
    text = "import os, sys; print(os.getpid()); print('väl', sys.argv[1], file=sys.stderr)"
    kind = declare(harness, argv=script(text, "{who}"))
    job, attempt = run(harness, kind, who="you & me")
    assert (job.status, job.result, job.error) == ("succeeded", {"exit_code": 0}, None)
    assert (attempt.exit_code, attempt.pid, attempt.stderr_tail) == (0, int(attempt.stdout_tail), "väl you & me\n")
    assert sorted(job.log_tail.splitlines()) == sorted([str(attempt.pid), "väl you & me"])
    assert job.log_end == len(job.log_tail)


def test_a_failure_says_its_code_and_its_last_line_and_is_tried_again(harness: WorkerHarness, declare: Declare) -> None:
    kind = declare(harness, argv=script("import sys; print('x'); sys.exit('no such host')"), max_attempts=2)
    job, attempt = run(harness, kind)
    assert (job.status, job.error, job.tries) == ("scheduled", "exited with code 1: no such host", 1)
    assert (attempt.status, attempt.exit_code, attempt.stdout_tail, attempt.stderr_tail) == (
        "failed",
        1,
        "x\n",
        "no such host\n",
    )
    harness.make_due(job.id)
    harness.drain()
    assert harness.get(job.id).status == "dead"


def test_placeholders_fill_one_argument_each_whatever_is_in_them(lite: WorkerHarness, declare: Declare) -> None:
    items = (
        "{a}",
        "--b={b}",
        "{n}",
        "{f}",
        "{flag}",
        "{day}",
        "{{literal}}",
        "{tenant}",
        "{job_id}",
        "{kind}",
        "{attempt}",
    )
    params = {
        "n": {"type": "int"},
        "f": {"type": "float"},
        "flag": {"type": "bool", "default": True},
        "day": {"type": "date", "default": "2026-01-02"},
        "b": {"allow_dash": True},
    }
    kind = declare(lite, argv=script(ARGV, *items), params=params, result="json")
    hostile = " $(touch /tmp/pwned) `id` 'x' \"y\"\n;&|<>*?~ ünï→漢 {a} %s \\ "
    job, attempt = run(lite, kind, a=hostile, b="-rf", n=1e3, f=2.5)
    assert job.result == {
        "exit_code": 0,
        "value": [
            *(hostile, "--b=-rf", "1000", "2.5", "true", "2026-01-02", "{literal}"),
            *("default", job.id, "cmd", "1"),
        ],
    }
    assert attempt.exit_code == 0


def test_rows_that_came_by_another_way_are_checked_before_they_run(lite: WorkerHarness, declare: Declare) -> None:
    kind = declare(lite, argv=script(ARGV, "{a}"))
    good = kind.build(a="x")
    for payload in ('{"a":"-rf"}', '{"a":7}', "{}", '{"a":"x","b":1}', '{"a":{"$secret":"HOME"}}', "[]", '"a"'):
        (job_id,) = lite.enqueue(msgspec.structs.replace(good, id=kind.build(a="x").id, payload=payload))
        lite.drain()
        job = lite.get(job_id)
        assert (job.status, job.tries) == ("dead", 1), payload
        assert lite.last(job_id).exit_code is None


def test_success_and_retry_codes_decide(lite: WorkerHarness, declare: Declare) -> None:
    text = "import os, sys; code = int(sys.argv[1]); code < 0 and os.kill(os.getpid(), -code); sys.exit(code)"
    kind = declare(
        lite,
        argv=script(text, "{code}"),
        params={"code": {"allow_dash": True}},
        success_codes=[0, 24],
        retry_codes=[75, -9],
    )
    for code, status in (
        (0, "succeeded"),
        (24, "succeeded"),
        (75, "scheduled"),
        (-9, "scheduled"),
        (1, "dead"),
        (-11, "dead"),
    ):
        job, attempt = run(lite, kind, code=str(code))
        assert (job.status, attempt.exit_code) == (status, code)
        if status == "succeeded":
            assert job.result == {"exit_code": code}
    assert job.error == "killed by SIGSEGV"


def test_binary_output_is_kept_as_text_by_both_stores(harness: WorkerHarness, declare: Declare) -> None:
    text = """
import os
os.write(1, bytes(range(256)) + b"\\xc3")
os.write(2, b"\\xff\\xfe\\x00 \\xed\\xa0\\x80 \\xe6\\xbc")
os._exit(1)
"""
    job, attempt = run(harness, declare(harness, argv=script(text)))
    assert attempt.stdout_tail == (
        "\\x00" + "".join(map(chr, range(1, 128))) + "".join(f"\\x{code:02x}" for code in range(128, 256)) + "\\xc3"
    )
    assert attempt.stderr_tail == "\\xff\\xfe\\x00 \\xed\\xa0\\x80 \\xe6\\xbc"
    assert job.error == "exited with code 1: \\xff\\xfe\\x00 \\xed\\xa0\\x80 \\xe6\\xbc"
    assert "\\x00\x01\x02" in job.log_tail


def test_tails_are_cut_at_their_size_and_keep_the_end(lite: WorkerHarness, declare: Declare) -> None:
    text = "import sys; print('é' * 50_000 + 'end'); print('x' * 50_000 + 'fin', file=sys.stderr)"
    _, attempt = run(lite, declare(lite, argv=script(text), stdout_tail="1KB", stderr_tail=100))
    assert len(attempt.stdout_tail.encode()) in (1_023, 1_024)
    assert attempt.stdout_tail.endswith("éend\n")
    assert attempt.stderr_tail == "x" * 96 + "fin\n"


def test_more_than_max_output_kills_it(lite: WorkerHarness, declare: Declare) -> None:
    text = "import os\nwhile True: os.write(1, b'y' * 10_000)"
    job, attempt = run(lite, declare(lite, argv=script(text), max_output="1MB", max_attempts=1, stdout_tail=10))
    assert (job.status, attempt.exit_code, attempt.stdout_tail) == ("dead", -9, "y" * 10)
    assert job.error == f"killed: it wrote more than max_output, 1,048,576 bytes: {'y' * 10}"
    assert "bytes of stdout not shown]" in job.log_tail


def test_limits_of_the_file_hold(lite: WorkerHarness, declare: Declare) -> None:
    text = """
import resource as r
print([r.getrlimit(each)[0] for each in (r.RLIMIT_CPU, r.RLIMIT_AS, r.RLIMIT_NOFILE, r.RLIMIT_FSIZE)])
"""
    keys = {"cpu_seconds": 7, "memory": "300MB", "files": 33, "file_size": "1MB"}
    _, attempt = run(lite, declare(lite, argv=script(text), **keys))
    assert json.loads(attempt.stdout_tail) == [7, 300 << 20, 33, 1 << 20]


def test_the_environment_is_what_was_listed_and_nothing_else(
    lite: WorkerHarness, declare: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANTED", "yes")
    monkeypatch.setenv("UNWANTED", "no")
    monkeypatch.setenv("PATH", "/evil:" + os.environ["PATH"])
    text = "import json, os; print(json.dumps(dict(os.environ)))"
    kind = declare(
        lite, argv=script(text), env=["WANTED", "NOT_SET"], set_env={"MODE": "a b", "LANG": "C"}, result="json"
    )
    job, _ = run(lite, kind)
    env = job.result["value"]
    env.pop("LC_CTYPE", None)
    assert env == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C",
        "WANTED": "yes",
        "MODE": "a b",
        "HEADWAY_JOB_ID": job.id,
        "HEADWAY_ATTEMPT": "1",
        "HEADWAY_TRACE_ID": job.trace,
        "TRACEPARENT": f"00-{job.trace}-{job.trace[16:]}-01",
    }
    job, _ = run(lite, declare(lite, name="other", argv=script(text), env=["PATH"], result="json"))
    assert job.result["value"]["PATH"].startswith("/evil:")


def test_the_payload_on_stdin_has_its_defaults_and_whole_values(lite: WorkerHarness, declare: Declare) -> None:
    params = {"rows": {"type": "json"}, "mode": {"default": "fast"}, "name": {}, "maybe": {"required": False}}
    kind = declare(
        lite, argv=script("import sys; print(sys.stdin.read())"), params=params, stdin="payload", result="json"
    )
    rows = [{"a": [1, None, "ü"]}] * 3
    job, _ = run(lite, kind, rows=rows, name="-x")
    assert job.result == {"exit_code": 0, "value": {"mode": "fast", "rows": rows, "name": "-x"}}


@pytest.mark.parametrize(
    "printed", ["not json", "1 2", "", "[1", '{"a": "\\u0000"}', "1" * 30, '"' + "x" * 70_000 + '"']
)
def test_output_that_is_no_result_fails(lite: WorkerHarness, declare: Declare, printed: str) -> None:
    text = "import os, sys; sys.stdout.write(os.environ['PRINTED'])"
    job, attempt = run(lite, declare(lite, argv=script(text), set_env={"PRINTED": printed}, result="json"))
    assert (job.status, job.result, attempt.exit_code) == ("scheduled", None, 0)
    assert "its output is not a JSON value" in job.error


def test_a_missing_program_is_tried_again_and_runs_when_it_is_there(
    harness: WorkerHarness, declare: Declare, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    kind = declare(harness, argv=[str(program)])
    job, attempt = run(harness, kind)
    assert (job.status, attempt.exit_code, attempt.pid) == ("scheduled", None, None)
    assert job.error == f"the program {program} is missing on this host: install it, or correct argv"
    program.write_text(f"#!{sys.executable} -IS\nprint('here')\n")
    harness.make_due(job.id)
    harness.drain()
    if os.geteuid():
        assert "is not executable by this worker: chmod +x" in harness.get(job.id).error
    program.chmod(0o755)
    harness.make_due(job.id)
    harness.drain()
    assert (harness.get(job.id).status, harness.last(job.id).stdout_tail) == ("succeeded", "here\n")


def test_a_program_that_became_a_link_to_another_is_never_run(
    lite: WorkerHarness, declare: Declare, tmp_path: Path
) -> None:
    program, other = tmp_path / "program", tmp_path / "other"
    for path in (program, other):
        path.write_text(f"#!{sys.executable} -IS\nimport sys; open(sys.argv[0] + '.ran', 'w')\n")
        path.chmod(0o755)
    kind = declare(lite, argv=[str(program)])
    assert run(lite, kind)[0].status == "succeeded"
    # another file in its place is a deploy, and fine
    program.unlink()
    other.rename(program)
    assert run(lite, kind)[0].status == "succeeded"
    program.rename(other)
    program.symlink_to(other)
    (tmp_path / "program.ran").unlink()
    job, attempt = run(lite, kind)
    assert (job.status, attempt.exit_code) == ("dead", None)
    assert f"was {program} when this worker started, and now leads to {other}" in job.error
    assert not (tmp_path / "program.ran").exists()


def test_a_program_by_a_link_is_run_under_its_own_name(lite: WorkerHarness, declare: Declare, tmp_path: Path) -> None:
    link = tmp_path / "hello"
    link.symlink_to("/bin/cat")
    _, attempt = run(lite, declare(lite, argv=[str(link), "/proc/self/cmdline"]))
    assert attempt.stdout_tail == f"{link}\\x00/proc/self/cmdline\\x00"


def test_a_working_directory_that_is_gone_is_tried_again(lite: WorkerHarness, declare: Declare, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    kind = declare(lite, argv=["/bin/pwd"], cwd=str(folder))
    job, _ = run(lite, kind)
    assert (job.status, job.error) == (
        "scheduled",
        f"its working directory {folder} cannot be entered: No such file or directory",
    )
    folder.mkdir()
    assert run(lite, kind)[1].stdout_tail == f"{folder}\n"


def test_a_cancel_ends_the_whole_tree_and_keeps_what_it_wrote(harness: WorkerHarness, declare: Declare) -> None:
    kind = declare(harness, argv=script(DAEMON + "time.sleep(600)"), kill_grace="300ms")
    (job_id,) = harness.enqueue(kind.build())

    async def story() -> None:
        # seen live, while it runs
        await harness.until(lambda: harness.get(job_id).log_tail == "ready\n")
        assert len(marked(job_id)) == 2
        harness.cancel(job_id)
        await harness.until_status(job_id, "canceled")

    harness.while_working(harness.worker(), story)
    attempt = harness.last(job_id)
    assert (attempt.status, attempt.exit_code, attempt.stdout_tail) == ("canceled", -signal.SIGTERM, "ready\n")
    assert attempt.pid is not None
    assert marked(job_id) == []


def test_a_timeout_waits_for_the_kill_grace_and_then_is_the_outcome(
    lite: WorkerHarness, declare: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.worker.run.STUBBORN_S", 0.1)
    kind = declare(lite, argv=script(DEAF), timeout="3s", kill_grace="500ms", max_attempts=1)
    began = time.monotonic()
    job, attempt = run(lite, kind)
    assert time.monotonic() - began >= 3.5
    assert (job.status, job.error) == ("dead", "timed out after 3.0s")
    assert (attempt.status, attempt.exit_code, attempt.stdout_tail) == ("timeout", -signal.SIGKILL, "ready\n")
    assert marked(job.id) == []


def test_a_worker_that_stops_gives_the_job_back_without_its_program(
    lite: WorkerHarness, declare: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.worker.run.STUBBORN_S", 0.1)
    kind = declare(lite, argv=script(DEAF), kill_grace="700ms")
    (job_id,) = lite.enqueue(kind.build())

    async def story() -> None:
        await lite.until(lambda: lite.get(job_id).log_tail == "ready\n")

    lite.while_working(lite.worker(settings={"grace_ms": 50}), story)
    job, attempt = lite.get(job_id), lite.last(job_id)
    assert (job.status, attempt.status, attempt.exit_code) == ("queued", "released", -signal.SIGKILL)
    assert marked(job_id) == []


def test_a_lost_supervisor_is_a_failure_that_is_tried_again(lite: WorkerHarness, declare: Declare) -> None:
    kind = declare(lite, argv=script(SLEEP))
    (job_id,) = lite.enqueue(kind.build())

    async def story() -> None:
        await lite.until(lambda: lite.get(job_id).log_tail == "ready\n")
        for pid in supervisors_of(os.getpid()):
            os.kill(pid, signal.SIGKILL)
        await lite.until_status(job_id, "scheduled")

    lite.while_working(lite.worker(), story)
    assert lite.get(job_id).error == "its supervisor was killed, and the program with it"
    assert lite.last(job_id).pid is not None
    assert marked(job_id) == []


def test_many_canceled_jobs_leave_no_process(lite: WorkerHarness, declare: Declare) -> None:
    kind = declare(lite, argv=script(SLEEP), kill_grace="300ms", set_env={"MARK": "of-the-many"})
    count, at_once = (200, 10) if sizes_and_seeds.full else (30, 5)
    ids = lite.enqueue(*(kind.build() for _ in range(count)))

    async def story() -> None:
        for start in range(0, count, at_once):
            batch = ids[start : start + at_once]
            await lite.until(lambda batch=batch: all(lite.get(each).status == "running" for each in batch))
            await asyncio.sleep(0.1 * (start / count))  # while they start, and later
            lite.cancel(*batch)
        await lite.until(lambda: all(lite.get(each).status == "canceled" for each in ids))

    lite.while_working(lite.worker(queues={"default": 10}), story)
    assert marked("of-the-many") == []
    assert supervisors_of(os.getpid()) == []


def test_middleware_sees_a_failed_command_as_an_error(lite: WorkerHarness, declare: Declare) -> None:
    kind = declare(lite, argv=script("raise SystemExit(3)"))
    seen: list[Any] = []

    async def watch(ctx: Any, call: Any) -> Any:
        try:
            return await call()
        except CommandFailed as error:
            seen.append((error.exit_code, error.retry, str(error)))
            raise

    (job_id,) = lite.enqueue(kind.build())
    lite.drain(middleware=[watch])
    assert seen == [(3, True, "exited with code 3")]
    assert lite.get(job_id).status == "scheduled"


def test_a_line_of_output_is_shown_before_the_program_ends(lite: WorkerHarness, declare: Declare) -> None:
    text = "import sys, time\nfor n in range(9_999): print('line', n, flush=True); time.sleep(0.05)"
    kind = declare(lite, argv=script(text), kill_grace="200ms")
    (job_id,) = lite.enqueue(kind.build())
    read = ""

    async def story() -> None:
        nonlocal read
        # as `jobs logs -f` does: by what log_end says is new
        while read.count("\n") < 30:
            job = lite.get(job_id)
            new = (job.log_end or 0) - len(read)
            if new:
                read += job.log_tail[-new:]
            await asyncio.sleep(0.02)
        lite.cancel(job_id)
        await lite.until_status(job_id, "canceled")

    lite.while_working(lite.worker(), story)
    assert read == "".join(f"line {n}\n" for n in range(read.count("\n")))


def test_a_tenant_that_the_file_does_not_list_runs_nothing(harness: WorkerHarness, declare: Declare) -> None:
    """Whatever stands in the database, where an operator may have let more tenants enqueue it."""
    kind = declare(harness, argv=script("print('ran')"), tenants=["acme", tenant_id("initech")], max_attempts=3)
    ids = harness.enqueue(
        *(replace_in(kind.build(), tenant=name, tenant_id=tenant_id(name)) for name in ("acme", "globex", "initech"))
    )
    harness.drain()
    acme, globex, initech = map(harness.get, ids)
    assert (acme.error, initech.error) == (None, None)
    assert (acme.status, initech.status) == ("succeeded", "succeeded")
    assert (globex.status, globex.tries, harness.last(globex.id).stdout_tail) == ("dead", 1, None)
    assert globex.error == "cmd was not run: its tenants in headway.toml of this worker do not list globex"
