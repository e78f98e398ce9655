"""A bench for programs: runs one under its supervisor, and finds every process that came of it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway.commands.process import Ended, Order, Process

READY = "import sys; print('ready', flush=True); "
SLEEP = READY + "import time; time.sleep(600)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        time.sleep(600)
    os._exit(0)
os.wait()
print("ready", flush=True)
"""


def python(script: str, *arguments: str) -> tuple[str, ...]:
    """The argv of a Python script: no shell, no site."""
    return (sys.executable, "-I", "-S", "-c", script, *arguments)


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self.output: list[tuple[str, int, bytes]] = []
        self.pids: list[int] = []
        self.ready = asyncio.Event()

    def process(self, *argv: str, **changes: Any) -> Process:
        order: dict[str, Any] = {
            "program": argv[0],
            "argv": argv,
            "env": {"PATH": "/usr/bin:/bin", "HEADWAY_JOB_ID": self.mark, "HEADWAY_ATTEMPT": "1"},
            "cwd": "/",
            "stdin": None,
            "limits": {},
            "keep_out": 65_536,
            "keep_err": 65_536,
            "grace_s": 0.5,
            "max_output": None,
        }
        return Process(Order(**{**order, **changes}), on_start=self.pids.append, on_output=self._heard)

    def run(self, *argv: str, **changes: Any) -> Ended:
        return asyncio.run(asyncio.wait_for(self.process(*argv, **changes).run(), 120))

    def script(self, script: str, *arguments: str, **changes: Any) -> Ended:
        return self.run(*python(script, *arguments), **changes)

    def cancel(self, *argv: str, when: Callable[[], bool] | None = None, **changes: Any) -> tuple[Process, float]:
        """Cancel it once it said that it is ready; gives it and how long it took to end, which must not be a minute."""

        async def story() -> tuple[Process, float]:
            self.ready = asyncio.Event()
            process = self.process(*argv, **changes)
            task = asyncio.ensure_future(process.run())
            async with asyncio.timeout(60):
                await self.ready.wait()
                while when is not None and not when():
                    await asyncio.sleep(0.01)
            began = time.monotonic()
            task.cancel()
            await asyncio.wait({task}, timeout=60)
            assert task.cancelled()
            return process, time.monotonic() - began

        return asyncio.run(story())

    def _heard(self, stream: str, skipped: int, data: bytes) -> None:
        self.output.append((stream, skipped, data))
        if b"ready" in data:
            self.ready.set()

    def heard(self, stream: str = "stdout") -> bytes:
        return b"".join(data for name, _, data in self.output if name == stream)

    def alive(self) -> list[int]:
        """Every living process with this bench's mark in its environment, and every supervisor of this process."""
        return marked(self.mark) + [pid for pid in children_of(os.getpid()) if b"supervisor.py" in command_line(pid)]

    def kill_all(self) -> None:
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    return [pid for pid in pids() if mark.encode() in _read(pid, "environ") and state_of(pid) != "Z"]


def supervisors_of(parent: int) -> list[int]:
    return [pid for pid in children_of(parent) if b"supervisor.py" in command_line(pid)]


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children_of(parent: int) -> list[int]:
    return [pid for pid in pids() if _stat(pid)[1:2] == [str(parent)]]


def state_of(pid: int) -> str:
    return (_stat(pid) or ["Z"])[0]


def rss_of(pid: int) -> int:
    for line in _read(pid, "status").splitlines():
        if line.startswith(b"VmHWM"):
            return int(line.split()[1]) * 1_024
    return 0


def command_line(pid: int) -> bytes:
    return _read(pid, "cmdline")


def _stat(pid: int) -> list[str]:
    return _read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()


def _read(pid: int, name: str) -> bytes:
    try:
        return Path("/proc", str(pid), name).read_bytes()
    except OSError:
        return b""
