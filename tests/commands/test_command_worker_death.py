"""Workers that end, in every way, and what they leave of their commands: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.commands.supervised_programs import DAEMON, DEAF, children_of, marked, supervisors_of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a subreaper and /proc")

WORKER = """
import os, sys
from headway import commands
from headway.config import Settings
from headway.store.sqlite.store import SqliteStore
from headway.worker import Worker, run_worker

path, script, mark = sys.argv[1:4]
argv = [sys.executable, "-I", "-S", "-c", script.replace("{", "{{").replace("}", "}}")]
values = {"argv": argv, "set_env": {"MARK": mark}, "kill_grace": "500ms"}
kinds = commands.load({"cmd": values}, "headway.toml")
store = SqliteStore(path)
store.run(store.ops.enqueue([kinds[0].build() for _ in range(3)]))
if sys.argv[4] == "fork":
    # a child of a handler's own may hold every pipe of the worker open
    import threading, time
    def fork():
        while not os.path.exists(path + ".fork"):
            time.sleep(0.02)
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
    threading.Thread(target=fork, daemon=True).start()
run_worker(Worker(store, {"cmd": kinds[0]}, settings=Settings(grace_ms=100), queues={"default": 3}))
"""


@pytest.fixture
def mark() -> str:
    return f"mark-{uuid.uuid4().hex}"


@pytest.fixture
def start(tmp_path: Path, mark: str) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a worker and waits until its three commands run."""
    started: list[subprocess.Popen[bytes]] = []

    def start(script: str, processes: int, how: str = "") -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-c", WORKER, str(tmp_path / "headway.db"), script, mark, how]
        started.append(subprocess.Popen(argv, stderr=subprocess.DEVNULL))
        until(lambda: len(marked(mark)) == processes)
        return started[-1]

    yield start
    for worker in started:
        worker.kill()
        worker.wait()
    for pid in marked(mark):
        os.kill(pid, signal.SIGKILL)


def until(condition: Callable[[], bool], limit_s: float = 60) -> None:
    limit = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("script", "number"),
    [
        (DEAF, signal.SIGKILL),
        (DAEMON + "time.sleep(600)", signal.SIGKILL),
        (DAEMON + "time.sleep(600)", signal.SIGTERM),
    ],
    ids=["deaf, killed", "daemon, killed", "daemon, terminated"],
)
def test_a_worker_that_ends_leaves_nothing_behind(
    start: Callable[..., subprocess.Popen[bytes]], mark: str, script: str, number: int
) -> None:
    worker = start(script, 3 if script is DEAF else 6)
    supervisors = supervisors_of(worker.pid)
    assert len(supervisors) == 3
    worker.send_signal(number)
    worker.wait(60)
    until(lambda: not marked(mark) and not any(os.path.exists(f"/proc/{pid}") for pid in supervisors))


def test_a_killed_worker_is_noticed_even_if_its_pipes_stay_open(
    start: Callable[..., subprocess.Popen[bytes]], mark: str, tmp_path: Path
) -> None:
    worker = start(DEAF, 3, "fork")
    supervisors = supervisors_of(worker.pid)
    (tmp_path / "headway.db.fork").touch()
    until(lambda: len(children_of(worker.pid)) == 4)
    (child,) = set(children_of(worker.pid)) - set(supervisors)
    try:
        worker.kill()
        worker.wait(60)
        until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in supervisors))
        assert marked(mark) == []
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_worker_told_twice_does_not_wait_for_the_grace(
    start: Callable[..., subprocess.Popen[bytes]], mark: str
) -> None:
    worker = start(DEAF, 3)
    worker.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    worker.send_signal(signal.SIGTERM)
    worker.wait(60)
    until(lambda: not marked(mark))
