"""Runs a worker on an event loop of its own, stopped by SIGTERM and SIGINT."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress

from headway.errors import ConfigError
from headway.worker.summary import Summary
from headway.worker.worker import Worker

GC_THRESHOLD = 10_000
"""How many objects are allocated between two runs of the garbage collector."""
SUPERVISOR_FD = "HEADWAY_SUPERVISOR_FD"
"""The inherited end of a pipe whose other end the supervisor holds: it closes when the supervisor dies."""
_taken_fd: int | None = None


def run_worker(worker: Worker, *, until_idle: bool = False) -> Summary:
    """Run the worker in this thread until it ends: by a signal in the main thread, by `stop` elsewhere."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise ConfigError("this thread already runs an event loop: use `await app.arun(…)` there")
    main = threading.current_thread() is threading.main_thread()

    async def work() -> Summary:
        try:
            return await (run_with_signals if main else Worker.run)(worker, until_idle=until_idle)
        finally:
            # the event loop ends here, and with it what was opened on it
            await worker.leave_loop()

    with _rare_garbage_collection() if main else nullcontext(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(work())


async def run_with_signals(worker: Worker, *, until_idle: bool = False) -> Summary:
    """Run the worker; the first signal stops it in good order, a second one at once. Main thread only."""
    with stopped_by_signals(worker.stop), stopped_with_supervisor(worker.stop):
        return await worker.run(until_idle=until_idle)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


@contextmanager
def _rare_garbage_collection() -> Iterator[None]:
    """Collect garbage less often. A claim allocates thousands of objects, which reference counts free; looking for
    cycles after every 700 of them costs a tenth of a busy worker's time. Skipped if the application set its own
    threshold.
    """
    before = gc.get_threshold()
    # the frozen objects last: they are counted one by one, which may take milliseconds
    if not gc.isenabled() or not 0 < before[0] < GC_THRESHOLD or gc.get_freeze_count():
        yield
        return
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at SIGTERM and SIGINT. Main thread only."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda _number, _frame: stop())
    try:
        yield
    finally:
        for number, handler in before.items():
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            if handler is not None:
                signal.signal(number, handler)


@contextmanager
def stopped_with_supervisor(stop: Callable[[], None]) -> Iterator[None]:
    """Stop when the supervisor, if there is one, dies without stopping us."""
    fd = _supervisor_fd()
    if fd is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def died() -> None:
        loop.remove_reader(fd)
        stop()

    loop.add_reader(fd, died)
    try:
        yield
    finally:
        loop.remove_reader(fd)


def _supervisor_fd() -> int | None:
    """Taken out of the environment: to a worker that a job's function starts, this number is another file, or none."""
    global _taken_fd
    if (given := os.environ.pop(SUPERVISOR_FD, None)) is not None:
        _taken_fd = int(given)
    return _taken_fd
