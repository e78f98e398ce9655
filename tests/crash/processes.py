"""Real processes: workers, enqueuers and supervisors in groups of their own, all of them ended with the test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.crash.forked_programs import ForkedProgram
from tests.crash.ledger import Ledger

ROOT = Path(__file__).parents[2]
BRISK = {
    "lease": "2s",
    "heartbeat": "500ms",
    "reap_every": "500ms",
    "promote_every": "100ms",
    "pace": "10ms",
    "grace": "20s",
}


def until(condition: Callable[[], Any], what: str, within: float = 180.0) -> Any:
    """Wait for it and give what it gives; the limit is only for a test that fails."""
    limit = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < limit, f"not within {within:g} s: {what}"
        time.sleep(0.01)
    return found


class Process:
    """One process that a test started; its log is what it wrote to stderr, a JSON object a line."""

    def __init__(self, program: ForkedProgram, log: Path) -> None:
        self._program = program
        self.log = log
        self.pid = self._program.pid
        self.killed_at: float | None = None

    @property
    def code(self) -> int | None:
        return self._program.poll()

    def signal(self, number: signal.Signals) -> None:
        self._program.send_signal(number)

    def kill(self) -> None:
        """SIGKILL; gone when this returns."""
        self.killed_at = time.time()
        self._program.kill()
        self._program.wait()

    def ended(self, within: float = 180.0) -> int:
        """Its exit code, once it has ended."""
        try:
            return self._program.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {within:g} s:\n{self.tail()}") from None

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """The log lines whose text has this in it."""
        found = []
        for line in self.log.read_text(errors="replace").splitlines():
            try:
                fields = json.loads(line)
            except ValueError:
                fields = {"event": line}
            if event in fields.get("event", ""):
                found.append(fields)
        return found

    def says(self, event: str, *, times: int = 1, within: float = 180.0) -> dict[str, Any]:
        """Wait for such a line and give the newest."""
        until(lambda: len(self.lines(event)) >= times or self.code is not None, f"log line {event!r}", within)
        found = self.lines(event)
        assert len(found) >= times, f"it ended with {self.code} before it said {event!r}:\n{self.tail()}"
        return found[-1]

    def started(self) -> Process:
        self.says("worker started")
        return self

    @property
    def worker_ids(self) -> list[str]:
        """Every id it was registered under, newest last."""
        return [
            fields["worker_id"]
            for fields in (*self.lines("worker started"), *self.lines("starting over under a new id"))
        ]

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3_000:]


class Fleet:
    """Starts processes on one database, and ends those that are left."""

    def __init__(self, folder: Path, url: str, **env: str) -> None:
        self.processes: list[Process] = []
        self._folder = folder
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
        self._env |= {"HEADWAY_URL": url, "CRASH_FOLDER": str(folder), "PYTHONPATH": _path(self._env), **env}

    def worker(
        self,
        *,
        app: str = "crash_jobs",
        queues: str = "main",
        concurrency: int = 8,
        processes: int = 1,
        **settings: str,
    ) -> Process:
        """`headway worker` with the app of a module of this folder, brisk unless the settings say otherwise."""
        arguments = ["worker", f"tests.crash.{app}:app", "--queues", queues, "--concurrency", str(concurrency)]
        if processes > 1:
            arguments += ["--processes", str(processes)]
        return self._start("headway", arguments, {**BRISK, **settings})

    def script(self, *arguments: str, program: str = "crash_jobs", **settings: str) -> Process:
        """A module of this folder as a program."""
        return self._start(f"tests.crash.{program}", list(arguments), {**BRISK, **settings})

    def server(self, port: int) -> Process:
        """`headway serve` on this port."""
        return self._start("headway", ["serve", "--port", str(port)], BRISK)

    def worker_pids(self) -> list[int]:
        """Every process that ever began as a worker, in that order."""
        return [int(pid) for pid in Ledger(self._folder / "workers").subjects("worker")]

    def open_gate(self, name: str) -> None:
        (self._folder / name).touch()

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            with suppress(ProcessLookupError):  # of those that it started itself
                os.killpg(process.pid, signal.SIGKILL)
        for pid in self.worker_pids():
            if self._is_ours(pid):
                os.kill(pid, signal.SIGKILL)

    def _start(self, module: str, arguments: list[str], settings: dict[str, str]) -> Process:
        env = self._env | {f"HEADWAY_{name.upper()}": value for name, value in settings.items()}
        log = self._folder / f"{len(self.processes)}.log"
        log.touch()
        process = Process(ForkedProgram(module, arguments, env, log), log)
        self.processes.append(process)
        return process

    def _is_ours(self, pid: int) -> bool:
        """Whether this pid still is a process of this test, and not a stranger's that got the number."""
        try:
            return f"CRASH_FOLDER={self._folder}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False


def state_of(pid: int) -> str | None:
    """The process's state as /proc has it (R, S, T, Z, …); None once it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def is_running(pid: int) -> bool:
    """Whether the process has not ended; one that nobody waited for has."""
    return state_of(pid) not in (None, "Z", "X")


def _path(env: dict[str, str]) -> str:
    return os.pathsep.join(filter(None, (env.get("PYTHONPATH"), str(ROOT))))
