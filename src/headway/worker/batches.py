"""Batches: gathers the calls of a batch kind, runs its function once for all of them, and gives each its answer."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any

from headway import logs
from headway.define.batch import Answer, BatchKind, Call
from headway.define.registry import AnyKind
from headway.secrets import Known
from headway.worker.execution import Execution
from headway.worker.slots import Slots
from headway.worker.threads import Threads

log = logs.get_logger("headway.worker")

Future = asyncio.Future[tuple[Answer, TracebackType | None]]


class Batch:
    """Calls that run together. It waits for more of them until it starts."""

    __slots__ = ("calls", "futures", "in_thread", "key", "kind", "runs", "task", "timer")

    def __init__(self, key: object, kind: BatchKind) -> None:
        self.key = key
        self.kind = kind
        self.runs: list[Execution] = []
        self.calls: list[Call[Any]] = []
        self.futures: list[Future] = []
        self.timer: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None  # None: it waits
        self.in_thread = False

    def add(self, run: Execution, call: Call[Any], future: Future) -> None:
        self.runs.append(run)
        self.calls.append(call)
        self.futures.append(future)
        run.batch = self

    def remove(self, run: Execution) -> None:
        """Before it starts."""
        if run in self.runs:
            at = self.runs.index(run)
            del self.runs[at], self.calls[at], self.futures[at]

    def remove_interrupted(self) -> None:
        for run, future in list(zip(self.runs, self.futures, strict=True)):
            if future.done():
                self.remove(run)

    def interrupt(self, run: Execution) -> None:
        """End the function, and with it all its calls; this call alone while the batch waits, or runs in a thread,
        which cannot be ended."""
        if self.task is not None and not self.in_thread:
            self.task.cancel()
        else:
            self.futures[self.runs.index(run)].cancel()

    def answer(self, answers: list[Answer]) -> None:
        for future, answer in zip(self.futures, answers, strict=True):
            if not future.done():
                error = answer[1]
                # calls may share an error, which gets more frames on its way through each of them
                future.set_result((answer, None if error is None else error.__traceback__))

    def give_up(self, _: asyncio.Task[None]) -> None:
        """Its task has ended, perhaps before it began."""
        self.answer([(None, asyncio.CancelledError())] * len(self.futures))

    # what a log line of the function says

    def log_fields(self) -> Mapping[str, Any]:
        fields = self.runs[0].log_fields()
        return {name: fields[name] for name in ("tenant_id", "kind", "worker_id")} | {"jobs": len(self.runs)}

    def known(self) -> Known:
        return self.runs[0].known()


class Batches:
    """The batches of one worker. `start_timers` starts the timeouts of a batch's calls, all to end at one moment;
    `thread_ended` is told when the thread of a call's batch has ended."""

    def __init__(
        self,
        slots: Slots,
        threads: Threads,
        running: Mapping[tuple[str, int], Execution],
        *,
        start_timers: Callable[[list[Execution]], None],
        thread_ended: Callable[[Execution], None],
    ) -> None:
        self._slots = slots
        self._threads = threads
        self._running = running
        self._start_timers = start_timers
        self._thread_ended = thread_ended
        self._gathering: dict[object, Batch] = {}
        self._closing = False
        self._loop = asyncio.get_running_loop()
        # not the context of the call that happens to start a batch: its middleware's variables belong to it alone
        self._context = contextvars.copy_context()

    @property
    def waiting(self) -> int:
        """How many calls wait for their batch to start."""
        return sum(len(batch.runs) for batch in self._gathering.values())

    def close(self) -> None:
        """The worker stops and brings no more calls: start what waits."""
        self._closing = True
        self.start_all()

    def start_all(self) -> None:
        for batch in list(self._gathering.values()):
            self._start(batch)

    async def join(self, run: Execution, call: Call[Any]) -> Any:
        """Run this call with others; gives what the function returned for it, or raises the error."""
        if run.stop_reason is not None:
            raise asyncio.CancelledError  # while its middleware ran
        if run.timer is not None:
            run.timer.cancel()  # its timeout starts with the batch
        batch = self._batch_for(run)
        future: Future = self._loop.create_future()
        batch.add(run, call, future)
        if len(batch.runs) >= batch.kind.size or batch.key is run or self._closing:
            self._start(batch)
        elif self._slots.free(run.claim.queue) <= 0:
            self._loop.call_soon(self._start_if_none_can_come, batch, run.claim.queue)
        try:
            (value, error), trace = await future
        finally:
            self._leave(batch, run)
        if run.stop_reason == "timeout" and batch.in_thread:
            raise TimeoutError  # it returned, but too late: the timeout is what is recorded
        if error is not None:
            raise error.with_traceback(trace)
        return value

    def _batch_for(self, run: Execution) -> Batch:
        """The batch that gathers such calls: of one kind, queue and timeout, and of one tenant, so that an error that
        they share shows nothing of another tenant's. A call that took its worker down before runs alone."""
        claim, kind = run.claim, run.handler
        assert isinstance(kind, BatchKind)
        if claim.losses:
            return Batch(run, kind)
        key = (claim.kind, claim.queue, claim.tenant_id, claim.timeout_ms)
        batch = self._gathering.get(key)
        if batch is None:
            batch = self._gathering[key] = Batch(key, kind)
            batch.timer = self._loop.call_later(kind.wait_ms / 1_000, self._start, batch)
        return batch

    def _start_if_none_can_come(self, batch: Batch, queue: str) -> None:
        """Start it if no slot is free for another call, and none is on its way through the middleware."""
        if batch.task is not None or self._slots.free(queue) > 0 or self._gathering.get(batch.key) is not batch:
            return
        coming = (run for run in self._running.values() if run.handler is batch.kind and run.batch is None)
        if not any(True for _ in coming):
            self._start(batch)

    def _start(self, batch: Batch) -> None:
        if batch.timer is not None:
            batch.timer.cancel()
        if self._gathering.get(batch.key) is batch:
            del self._gathering[batch.key]
        batch.remove_interrupted()
        if batch.runs:
            self._start_timers(batch.runs)
            batch.task = self._loop.create_task(self._run(batch), context=self._context.copy())
            batch.task.add_done_callback(batch.give_up)

    def _leave(self, batch: Batch, run: Execution) -> None:
        run.batch = None
        if batch.task is None:
            batch.remove(run)
            if not batch.runs and self._gathering.get(batch.key) is batch:
                del self._gathering[batch.key]
                assert batch.timer is not None
                batch.timer.cancel()
        elif batch.in_thread and all(future.done() for future in batch.futures):
            batch.task.cancel()  # nobody waits for the thread any more

    async def _run(self, batch: Batch) -> None:
        """Whatever the function raises goes to its calls, SystemExit included."""
        logs.job.set(batch)
        try:
            first = batch.calls[0].ctx
            for call in batch.calls[1:]:
                call.ctx.share_keyring(first)
            answers = batch.kind.answers(await self._call(batch), len(batch.calls))
        except BaseException as error:
            answers = [(None, error)] * len(batch.calls)
        batch.answer(answers)

    async def _call(self, batch: Batch) -> Any:
        function = partial(batch.kind.fn, list(batch.calls))
        if batch.kind.calls_async:
            return await function()
        batch.in_thread = True
        for run in batch.runs:
            run.in_thread = True
        inside = partial(contextvars.copy_context().run, _call_in_thread, function, batch.runs)
        return await self._threads.call(inside, partial(self._all_threads_ended, batch))

    def _all_threads_ended(self, batch: Batch) -> None:
        for run in batch.runs:
            self._thread_ended(run)


def tell_of_few_slots(kinds: Mapping[str, AnyKind], slots: Slots) -> None:
    """Warn of kinds whose batches this worker has too few slots to fill."""
    for kind in kinds.values():
        if isinstance(kind, BatchKind) and slots.caps.get(kind.options.queue, kind.size) < kind.size:
            log.warning(
                f"{kind.name} takes batches of up to {kind.size} calls, and this worker has "
                f"{slots.caps[kind.options.queue]} slots for their queue: give it more, --concurrency {kind.size}",
                kind=kind.name,
                queue=kind.options.queue,
            )


def _call_in_thread(function: Callable[[], Any], runs: list[Execution]) -> Any:
    try:
        return function()
    finally:
        for run in runs:
            run.note_thread_end()
