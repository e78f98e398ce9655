"""Processes: signals reach a worker, and a supervisor keeps several alive."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headway import Headway
from headway.worker import os_signals

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

SUPERVISOR = """
import sys
from headway.worker import supervise_processes
sys.exit(supervise_processes(sys.argv[2:], int(sys.argv[1])))
"""

CRASHES_ONCE = """
import os, signal, sys, time
folder, index = sys.argv[1], os.environ["HEADWAY_PROCESS"]
path = os.path.join(folder, index)
first = not os.path.exists(path)
open(path, "a").write(f"{os.getpid()}\\n")
if first and index == "0":
    os._exit(7)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
time.sleep(60)
"""

WORKER = """
import sys
from headway import logs
from headway.config import Settings
from headway.define import Registry
from headway.store.sqlite.store import SqliteStore
from headway.worker import Worker, run_worker

kinds = Registry()

@kinds.job
def stuck() -> None:
    print("started", flush=True)
    import threading
    threading.Event().wait(600)

logs.configure(json=True)
store = SqliteStore(sys.argv[1])
job = stuck.build()
store.run(store.ops.enqueue([job]))
summary = run_worker(Worker(store, kinds.kinds, settings=Settings(grace_ms=int(sys.argv[2]))))
job, = store.run(store.ops.get([job.id], tenant_id=None))
print(job.status, job.tries, job.losses, summary.released, flush=True)
"""


def _until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


def _lines(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _supervise(folder: Path, script: str, processes: int) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-c", SUPERVISOR, str(processes), "-c", script, str(folder)]
    return subprocess.Popen(arguments, stderr=subprocess.DEVNULL)


def test_a_supervisor_starts_a_crashed_worker_again_and_passes_sigterm_on(tmp_path: Path) -> None:
    supervisor = _supervise(tmp_path, CRASHES_ONCE, 2)
    try:
        _until(lambda: len(_lines(tmp_path / "0")) == 2 and len(_lines(tmp_path / "1")) == 1)
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(90) == 0
    finally:
        supervisor.kill()
        supervisor.wait()


def test_a_worker_that_cannot_start_ends_the_supervisor_with_its_code(tmp_path: Path) -> None:
    supervisor = _supervise(tmp_path, "raise SystemExit(2)", 2)
    assert supervisor.wait(90) == 2


@pytest.mark.parametrize(("grace_ms", "signals"), [(0, 1), (600_000, 2)])
def test_a_signal_ends_a_worker_even_if_a_thread_never_does(tmp_path: Path, grace_ms: int, signals: int) -> None:
    arguments = [sys.executable, "-c", WORKER, str(tmp_path / "headway.db"), str(grace_ms)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stderr is not None
            assert worker.stdout.readline() == "started\n"
            worker.send_signal(signal.SIGTERM)
            if signals == 2:
                # two at once would be one
                while "waits for running jobs" not in worker.stderr.readline():
                    pass
                worker.send_signal(signal.SIGTERM)
            out, err = worker.communicate(timeout=90)
            # nobody else may have it while the thread runs
            assert (worker.returncode, out) == (0, "running 0 0 0\n"), err
        finally:
            worker.kill()
    # the process is gone, which the next worker of this machine sees without waiting for the lease
    app = Headway(f"sqlite:///{tmp_path}/headway.db")
    app.run(until_idle=True)
    (job,) = app.jobs()
    assert (job.status != "running", job.losses) == (True, 0)


def test_what_a_worker_starts_does_not_inherit_the_number_of_the_supervisors_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # a worker that a job's function starts would watch another file under that number, or fail
    given, kept = os.pipe()
    monkeypatch.setattr(os_signals, "_taken_fd", None)
    monkeypatch.setenv(os_signals.SUPERVISOR_FD, str(given))

    async def watched(again: bool) -> str | None:
        died = asyncio.Event()
        with os_signals.stopped_with_supervisor(died.set):
            found = os.environ.get(os_signals.SUPERVISOR_FD)
            if found is None and again:
                os.close(kept)
                await asyncio.wait_for(died.wait(), 10)
            return found

    for again in (False, True):  # a program may run its worker twice
        assert asyncio.run(watched(again)) is None
    os.close(given)


def test_workers_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    script = WORKER.replace("sys.argv[1]", "sys.argv[1] + '/headway.db'").replace("sys.argv[2]", "0")
    script = script.replace(
        'print("started", flush=True)', 'import os; open(sys.argv[1] + "/pid", "w").write(str(os.getpid()))'
    )
    supervisor = _supervise(tmp_path, script, 1)
    try:
        _until(lambda: len(_lines(tmp_path / "pid")) == 1)
        (pid,) = _lines(tmp_path / "pid")
        supervisor.kill()
        supervisor.wait()
        _until(lambda: not _alive(pid))
    finally:
        supervisor.kill()
        supervisor.wait()
