"""The worker and the server of `headway dev`: two processes, started again together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from headway.cli.dev.watched_files import WatchedFiles
from headway.cli.program.output import say
from headway.worker.os_signals import SUPERVISOR_FD

_LOOK_EVERY_S = 0.3
_END_WITHIN_S = 5.0


class Processes:
    """Runs both until Ctrl-C or SIGTERM. One that fails waits for the next change: the code has a fault."""

    def __init__(
        self,
        *,
        worker: Sequence[str],
        server: Sequence[str],
        server_env: Callable[[], Mapping[str, str]],
        server_fds: tuple[int, ...],
    ) -> None:
        self._commands = (worker, server)
        self._server_env, self._server_fds = server_env, server_fds  # another environment for each start
        self._running: list[subprocess.Popen[bytes]] = []
        self._asked = False
        self._given_fd = -1

    def run(self, watched: WatchedFiles | None) -> int:
        # when this pipe closes, the processes know that this one died
        given, kept = os.pipe()
        self._given_fd = given
        with self._asked_to_end():
            try:
                self._start()
                while not self._asked:
                    time.sleep(_LOOK_EVERY_S)
                    if (name := watched and watched.changed()) is not None:
                        say(f"changed    {name}: starting again")
                        self._end()
                        self._start()
                    elif all(each.poll() is not None for each in self._running):
                        if watched is None:
                            return max(each.returncode for each in self._running)
                        if self._running:
                            say("waiting    for the next change: neither worker nor server runs")
                            self._running = []
            finally:
                self._end()
                os.close(given)
                os.close(kept)
        return 0

    def _start(self) -> None:
        worker, server = self._commands
        program = [sys.executable, "-m", "headway"]
        env = {**os.environ, SUPERVISOR_FD: str(self._given_fd)}
        server_env = {**env, **self._server_env()}
        fds = (self._given_fd, *self._server_fds)
        self._running = [
            subprocess.Popen([*program, *worker], env=env, pass_fds=fds[:1], start_new_session=True),
            subprocess.Popen([*program, *server], env=server_env, pass_fds=fds, start_new_session=True),
        ]

    def _end(self) -> None:
        for each in self._running:
            with contextlib.suppress(ProcessLookupError):
                each.terminate()
        deadline = time.monotonic() + _END_WITHIN_S
        for each in self._running:
            try:
                each.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()
        self._running = []

    @contextlib.contextmanager
    def _asked_to_end(self) -> Iterator[None]:
        def end(*_: Any) -> None:
            self._asked = True

        before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
