"""Notices that the event loop is blocked, and logs whose code blocks it."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback

from headway.logs import get_logger
from headway.worker.run import Runner

log = get_logger("headway.worker")

TICK_S = 0.25
BLOCKED_S = 1.0


class Watchdog:
    """A thread that checks whether the event loop still ticks."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._ticked_at = time.monotonic()
        self._told_of = 0.0
        self._stopped = threading.Event()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._tick()
        threading.Thread(target=self._watch, name="headway-watchdog", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self._ticked_at = time.monotonic()
        self._timer = self._loop.call_later(TICK_S, self._tick)

    def _watch(self) -> None:
        while not self._stopped.wait(TICK_S * 2):
            ticked_at = self._ticked_at
            blocked_s = time.monotonic() - ticked_at - TICK_S
            # once for each time that it blocks
            if blocked_s > BLOCKED_S and self._told_of != ticked_at:
                self._told_of = ticked_at
                self._warn(blocked_s)

    def _warn(self, blocked_s: float) -> None:
        task = asyncio.current_task(self._loop)
        fields: dict[str, object] = {}
        for run in list(self._runner.running.values()):
            if task is not None and run.task is task:
                fields = dict(run.log_fields())
            elif task is not None and run.batch is not None and run.batch.task is task:
                fields = dict(run.batch.log_fields())
        frame = sys._current_frames().get(self._thread_id)
        if frame is not None:
            at = traceback.extract_stack(frame)[-1]
            fields["at"] = f"{at.filename}:{at.lineno} in {at.name}: {at.line}"
        log.warning(
            f"the event loop has been blocked for {blocked_s:.1f}s: everything in this worker waits for this code; "
            "make it a plain def, which runs in a thread, or await what it waits for",
            **fields,
        )
