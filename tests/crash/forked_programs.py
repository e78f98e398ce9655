"""Python programs in processes of their own, forked from one that has imported Headway already: a start takes
milliseconds, and not half a second of CPU. Once started they are killed, stopped and waited for as any other."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.imported_ahead"])


class ForkedProgram:
    """`python -m module arguments`, with what the tests use of subprocess.Popen."""

    def __init__(self, module: str, arguments: list[str], env: dict[str, str], log: Path) -> None:
        self._process = _context.Process(target=_run, args=(module, arguments, env, log))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()


def _run(module: str, arguments: list[str], env: dict[str, str], log: Path) -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), 2)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()  # multiprocessing leaves them out
