"""Several processes under one supervisor: spawns them, restarts those that crash, passes signals on."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from headway.logs import get_logger
from headway.worker.intervals import jittered
from headway.worker.os_signals import SUPERVISOR_FD

log = get_logger("headway.worker")

CANNOT_START = 2
"""The exit code of a wrong command line: starting it again would not help."""
_HEALTHY_S = 60.0
_LONGEST_PAUSE_S = 30.0


def supervise_processes(arguments: Sequence[str], processes: int, *, fds: Mapping[str, int] | None = None) -> int:
    """Run `python arguments…` in this many processes until they are done; gives the exit code.

    They inherit `fds`, and find the number of each in the environment under its name.

    A process that ends with 0 is done; one that crashes is started again after a growing pause. The first SIGTERM or
    SIGINT asks them to stop, the second to end at once, the third kills them.
    """
    with asyncio.Runner() as runner:
        return runner.run(ProcessSupervisor(arguments, processes, fds or {}).run())


class ProcessSupervisor:
    """Spawns, never forks: a child gets nothing from this process but its arguments and environment."""

    def __init__(self, arguments: Sequence[str], processes: int, fds: Mapping[str, int]) -> None:
        self._arguments = arguments
        self._fds = dict(fds)
        self._processes = processes
        self._children: set[asyncio.subprocess.Process] = set()
        self._signals = 0
        self._stopping = asyncio.Event()
        self._code = 0
        self._kept_fd, self._given_fd = -1, -1

    async def run(self) -> int:
        # when this pipe closes, a child knows that its supervisor died
        self._given_fd, self._kept_fd = os.pipe()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        try:
            await asyncio.gather(*(self._keep_running(index) for index in range(self._processes)))
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            os.close(self._given_fd)
            os.close(self._kept_fd)
        return self._code

    async def _keep_running(self, index: int) -> None:
        """Keep one of the processes running until its worker is done or all are asked to stop."""
        pause_s = 1.0
        while not self._stopping.is_set():
            began = time.monotonic()
            pid, code = await self._run_once(index)
            if code == 0 or self._stopping.is_set():
                # as a shell would say it
                self._code = self._code or (code if code >= 0 else 128 - code)
                return
            if code == CANNOT_START:
                self._code = code
                self._stop()
                return
            if time.monotonic() - began > _HEALTHY_S:
                pause_s = 1.0
            log.error(f"a process {_how(code)}; it is started again", pid=pid, index=index, pause=f"{pause_s:.0f}s")
            await self._pause(jittered(pause_s, random.random()))
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _run_once(self, index: int) -> tuple[int, int]:
        """The id of a process that has ended, and its exit code."""
        fds = {**self._fds, SUPERVISOR_FD: self._given_fd}
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *self._arguments,
            env={**os.environ, "HEADWAY_PROCESS": str(index), **{name: str(fd) for name, fd in fds.items()}},
            pass_fds=tuple(fds.values()),
            # its own process group: a terminal's Ctrl-C reaches it once, through us
            start_new_session=True,
        )
        self._children.add(child)
        if self._signals:
            _send(child, signal.SIGTERM)
        try:
            return child.pid, await child.wait()
        finally:
            self._children.discard(child)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    def _on_signal(self) -> None:
        self._signals += 1
        self._stop()

    def _stop(self) -> None:
        self._stopping.set()
        number = signal.SIGKILL if self._signals > 2 else signal.SIGTERM
        for child in self._children:
            _send(child, number)


def _send(child: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has just ended
        child.send_signal(number)


def _how(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
