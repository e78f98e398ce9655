"""Notices what holds an event loop up, and says whose code it is: a callback that takes long, or one that blocks."""

from __future__ import annotations

import asyncio
import gc
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from headway.logs import Seldom, get_logger

if TYPE_CHECKING:
    from headway.telemetry.metrics import ProcessMetrics

log = get_logger("headway.worker")

TICK_S = 0.25
"""How often it looks at a loop that has nothing to do."""
SAMPLE_S = 0.1
"""The same for one that is busy; each look costs the loop up to a millisecond, since the interpreter changes threads. A
callback of a quarter of a second is never missed, of shorter ones some are seen."""
HELD_S = 0.02
"""The most of its thread's own CPU time that a callback of ours may take; how busy the machine is plays no part."""
BLOCKED_S = 1.0
_BUSY_S = 0.002  # of CPU time since the last look
_FRAMES = 12  # of a stack that are shown
_LOOKING = threading.Lock()  # for all watchdogs of the process: the collector is one for all
_OURS = str(Path(__file__).parent.parent)
_LIBRARIES = tuple({sysconfig.get_path(each) for each in ("stdlib", "platstdlib", "purelib", "platlib")})

Held = Callable[[float, str, str], None]
"""What is told of a callback that held the loop: the seconds of CPU time, `engine` or `code` (somebody else's), and the
stack."""


class Watchdog:
    """A thread that looks at the event loop in which it was started. It needs no part in the loop's callbacks: it asks
    the loop to call a mark, which comes after all that is waiting now. Until then, what was seen running and still is
    is the same callback, and the CPU time of the loop's thread says how much of it that took."""

    def __init__(
        self,
        *,
        job_of: Callable[[asyncio.Task[Any] | None], Mapping[str, object]] = lambda _: {},
        metrics: ProcessMetrics | None = None,
        on_held: Held | None = None,
        sample_s: float | None = None,
    ) -> None:
        """`job_of` gives the log's fields for the job that a task runs, none for other tasks."""
        self._job_of = job_of
        self._metrics = metrics
        self._on_held = on_held
        self._sample_s = sample_s
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._clock = _cpu_clock(self._thread_id)
        self._longest: dict[tuple[str, ...], float] = {("engine",): 0.0, ("code",): 0.0}
        self._says = Seldom(600)
        self._stopped = threading.Event()
        self._depth = 0  # of the frames below a callback
        self._mark: _Mark | None = None
        self._suspect: _Suspect | None = None

    def start(self) -> None:
        if self._metrics is not None:
            self._metrics.gauge("headway_loop_longest_seconds", lambda: dict(self._longest))
            for by in self._longest:
                self._metrics.count("headway_loop_held_total", by, 0)
        threading.Thread(target=self._watch, name="headway-watchdog", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        pause, last = 0.0, 0.0
        while not self._stopped.wait(pause):
            try:
                cpu = self._cpu_s()
            except OSError:  # the loop's thread has ended, and its clock with it
                return
            mark = self._mark
            if mark is None or mark.depth is not None:
                self._judge()
                if mark is not None and mark.depth is not None:
                    self._depth = mark.depth
                mark = self._mark = _Mark()
                try:
                    self._loop.call_soon_threadsafe(mark.ran)
                except RuntimeError:  # the loop is over
                    return
                pause = (self._sample_s or SAMPLE_S) if cpu - last > _BUSY_S else TICK_S
            else:  # only then may a callback have run all the time: the stack of a loop that turns costs it too much
                if time.monotonic() - mark.asked_at > BLOCKED_S and not mark.told:
                    mark.told = True
                    self._tell_of_block(time.monotonic() - mark.asked_at)
                with _others_frames():
                    self._look(cpu)
                pause = self._sample_s or HELD_S / 2
            last = cpu

    def _look(self, cpu: float) -> None:
        """Whether what runs now ran at the last look, too."""
        stack = _stack(sys._current_frames().get(self._thread_id))
        callback = stack[-1 - self._depth] if self._depth and len(stack) > self._depth else None
        suspect = self._suspect
        if callback is None or suspect is None or suspect.callback is not callback:
            self._judge()
            self._suspect = None if callback is None else _Suspect(callback, cpu)
            return
        suspect.held_s = cpu - suspect.since
        if suspect.held_s >= HELD_S and not suspect.stack:
            by = "engine" if self._is_ours(stack) else "code"
            frames = min(len(stack) - self._depth, _FRAMES)
            suspect.by, suspect.stack = by, "".join(traceback.format_stack(stack[0], frames))

    def _judge(self) -> None:
        """The callback that was running is over."""
        suspect, self._suspect = self._suspect, None
        if suspect is None or not suspect.stack:
            return
        held_s, by = suspect.held_s, suspect.by
        self._longest[by,] = max(self._longest[by,], held_s)
        if self._metrics is not None:
            self._metrics.count("headway_loop_held_total", (by,))
        if self._on_held is not None:
            self._on_held(held_s, by, suspect.stack)
        if by == "engine" and self._says():
            log.warning(
                f"a callback of Headway held the event loop for {held_s * 1_000:.0f} ms of CPU time, and others waited",
                stack=suspect.stack,
            )

    def _is_ours(self, stack: list[FrameType]) -> bool:
        """Whether the innermost code that belongs to no library is Headway's. In a job's own task all of it must be."""
        if self._job_of(asyncio.current_task(self._loop)):
            callback = stack[: len(stack) - self._depth]
            return all(_is_in(frame.f_code, _OURS) or _is_library(frame.f_code) for frame in callback)
        for frame in stack:
            if _is_in(frame.f_code, _OURS):
                return True
            if not _is_library(frame.f_code):
                return False
        return False

    def _tell_of_block(self, blocked_s: float) -> None:
        fields = dict(self._job_of(asyncio.current_task(self._loop)))
        with _others_frames():
            frame = sys._current_frames().get(self._thread_id)
            if frame is not None:
                at = traceback.extract_stack(frame)[-1]
                fields["at"] = f"{at.filename}:{at.lineno} in {at.name}: {at.line}"
        log.warning(
            f"the event loop has been blocked for {blocked_s:.1f}s: everything in this process waits for this code; "
            "make it a plain def, which runs in a thread, or await what it waits for",
            **fields,
        )

    def _cpu_s(self) -> float:
        return 0.0 if self._clock is None else time.clock_gettime(self._clock)


class _Mark:
    """A call that the loop was asked for, behind all that waited then."""

    def __init__(self) -> None:
        self.asked_at = time.monotonic()
        self.told = False  # that the loop is blocked
        self.depth: int | None = None  # of the frames below it, once it was called

    def ran(self) -> None:
        self.depth = len(_stack(sys._getframe(1)))


class _Suspect:
    """A callback that was seen running."""

    def __init__(self, callback: FrameType, since: float) -> None:
        self.callback = callback
        self.since = since  # by the thread's CPU clock
        self.held_s = 0.0
        self.by = ""
        self.stack = ""


@contextmanager
def _others_frames() -> Iterator[None]:
    """While a thread looks at another one's frames.

    Before Python 3.12 any allocation may collect garbage, and let other threads run: within `sys._current_frames` one
    that starts a thread then waits for ever (gh-106883), and within `f_back` the frame that it reads may be gone."""
    if sys.version_info >= (3, 12):
        yield
        return
    with _LOOKING:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()


def _stack(frame: FrameType | None) -> list[FrameType]:
    """From the innermost outwards."""
    found = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def _cpu_clock(thread_id: int) -> int | None:
    """The clock that counts the CPU time of this thread, where the system has one."""
    find = getattr(time, "pthread_getcpuclockid", None)
    return None if find is None else int(find(thread_id))


def _is_in(code: CodeType, folder: str) -> bool:
    return code.co_filename.startswith(folder)


def _is_library(code: CodeType) -> bool:
    return code.co_filename.startswith(("<", *_LIBRARIES))
