"""One job's life: from its claim through its handler to its outcome."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from headway import logs
from headway.define.context import Context
from headway.define.registry import AnyKind
from headway.errors import InvalidPayload
from headway.model.codec import encode
from headway.model.duration import show_ms
from headway.model.job import Claim, Report, Settlement
from headway.model.outcome import Retry
from headway.model.retry import canceled, dead, released, succeeded
from headway.worker.execution import Execution
from headway.worker.hooks import Event, Hooks
from headway.worker.settle import Settler
from headway.worker.slots import Slots
from headway.worker.threads import Threads
from headway.worker.verdict import clean, describe, fail, handlers_own, judge

log = logs.get_logger("headway.worker")

Next = Callable[..., Awaitable[Any]]
Middleware = Callable[[Context, Next], Awaitable[Any]]

STUBBORN_S = 5.0
"""How long an async handler may take to end after it was cancelled, before its job is settled without it."""


class Runner:
    """Runs claims: async handlers as tasks on the event loop, sync ones in threads."""

    def __init__(
        self,
        slots: Slots,
        settler: Settler,
        hooks: Hooks,
        *,
        middleware: Sequence[Middleware],
        result_limit: int,
        on_free: Callable[[], None],
    ) -> None:
        self.running: dict[tuple[str, int], Execution] = {}  # until settled; oldest first
        self.threads = Threads(slots.total)
        self._slots = slots
        self._settler = settler
        self._hooks = hooks
        self._middleware = tuple(middleware)
        self._result_limit = result_limit
        self._on_free = on_free
        self._loop = asyncio.get_running_loop()

    def start(self, claim: Claim, kind: AnyKind, worker_id: str, tenant: str | None, since: float) -> None:
        """Take a slot and begin."""
        run = Execution(claim, kind, worker_id, tenant, since)
        self.running[claim.id, claim.fence] = run
        self._slots.take(claim.queue)
        run.task = self._loop.create_task(self._live(run))

    async def _live(self, run: Execution) -> None:
        """The life of one execution; nothing that a handler raises leaves it, SystemExit included."""
        run.begun = True
        logs.job.set(run)
        if self._hooks.listens("job.started"):
            self._hooks.emit(Event("job.started", run.worker_id, run.claim))
        try:
            self._arm(run)
            outcome = await self._outcome(run)
        except BaseException as error:
            outcome = self._judged(run, error)
        self._settle(run, outcome)
        self._leave(run)

    async def _outcome(self, run: Execution) -> Settlement | None:
        claim = run.claim
        if run.asked is not None:
            return self._as_asked(run)
        try:
            args, kwargs = run.kind.decode(claim.payload)
        except InvalidPayload as error:
            return self._doomed(claim, str(error))
        run.ctx = Context(claim, tenant=run.tenant, worker_id=run.worker_id)
        value = await self._call(run, args, kwargs)
        if value is None:
            return succeeded(claim, None)
        try:
            return succeeded(claim, encode(value, limit=self._result_limit, what="result"))
        except InvalidPayload as error:
            return self._doomed(claim, str(error))

    async def _call(self, run: Execution, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The handler, inside the middleware."""
        assert run.ctx is not None
        if run.kind.context_param is not None:
            kwargs[run.kind.context_param] = run.ctx
        if not self._middleware:
            return await self._handle(run, args, kwargs)
        call: Next = partial(self._handle, run, args, kwargs)
        for wrap in reversed(self._middleware):
            call = partial(wrap, run.ctx, _next(call))
        return await call()

    async def _handle(self, run: Execution, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if run.kind.is_async:
            return await run.kind.fn(*args, **kwargs)
        run.in_thread = True
        inside = partial(contextvars.copy_context().run, partial(run.kind.fn, *args, **kwargs))
        return await self.threads.call(inside, partial(self._thread_ended, run))

    # how it ends

    def _judged(self, run: Execution, error: BaseException) -> Settlement | None:
        if run.asked is not None:
            # whatever it raises once it was asked to end, that is why it ends
            return self._as_asked(run, error)
        if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
            error = error.__cause__  # what a coroutine makes of it
        outcome = judge(run.claim, run.kind.options, error)
        if outcome.charge:
            shown = {"error": str(error)} if isinstance(error, Retry) else {"exc_info": handlers_own(error)}
            log.warning(f"attempt failed: {_where_to(outcome)}", **shown)
        return outcome

    def _doomed(self, claim: Claim, reason: str) -> Settlement:
        """Another try could not help."""
        log.error("the job is dead: another try could not help", error=reason)
        return dead(claim, clean(reason))

    def _as_asked(self, run: Execution, error: BaseException | None = None) -> Settlement | None:
        claim, options = run.claim, run.kind.options
        match run.asked:
            case "timeout":
                reason = f"timed out after {show_ms(claim.timeout_ms or 0)}"
                if options.retries(TimeoutError(reason)):
                    outcome = fail(claim, options, reason, status="timeout")
                else:
                    outcome = dead(claim, reason, status="timeout")
                log.warning(f"attempt timed out after {show_ms(claim.timeout_ms or 0)}: {_where_to(outcome)}")
                return outcome
            case "cancel":
                told = error is not None and not isinstance(error, asyncio.CancelledError)
                return canceled(claim, describe(error) if told and error else None)
            case "stop" if run.begun:
                return released(claim, "the worker stopped before it ended")
            case _:
                return None

    def _settle(self, run: Execution, outcome: Settlement | None) -> None:
        """Hand the outcome on, once; None drops it: the claim is not ours any more, or was never begun."""
        if run.settled:
            return
        run.settled = True
        claim = run.claim
        del self.running[claim.id, claim.fence]
        if outcome is not None:
            self._settler.put(claim, outcome, run.take_report())

    def _leave(self, run: Execution) -> None:
        """Give the slot back, unless the handler's thread goes on."""
        if run.timer is not None:
            run.timer.cancel()
        if run.in_thread:
            log.warning("its thread is still running and keeps its slot: a thread cannot be killed")
        else:
            self._free(run)

    def _thread_ended(self, run: Execution) -> None:
        run.in_thread = False
        if run.settled:
            log.warning("a thread that outlived its execution has ended", **run.log_fields())
            self._free(run)

    def _free(self, run: Execution) -> None:
        if not run.freed:
            run.freed = True
            self._slots.give(run.claim.queue)
            self._on_free()

    # what others ask of running jobs

    def cancel(self, claims: Iterable[tuple[str, int]]) -> None:
        """People asked these to end: async handlers get CancelledError, sync ones see `ctx.canceled`."""
        for key in claims:
            run = self.running.get(key)
            if run is not None and run.asked is None:
                log.info("asked to cancel", **run.log_fields())
                run.ask("cancel")
                if run.kind.is_async and run.begun:
                    run.task.cancel()

    def drop(self) -> int:
        """The lease is lost: end all handlers, say nothing of their outcomes. Gives how many there were."""
        runs = list(self.running.values())
        for run in runs:
            run.ask("lost")
            self._settle(run, None)
            if run.begun:
                run.task.cancel()
        return len(runs)

    def interrupt(self) -> list[asyncio.Task[None]]:
        """The grace is over: end all handlers and give their jobs back. Gives the tasks that end now."""
        runs = list(self.running.values())
        for run in runs:
            run.ask("stop")
            if run.begun:
                run.task.cancel()
            else:
                self._settle(run, None)
        return [run.task for run in runs]

    def abandon(self) -> None:
        """Give back the jobs of handlers that would not end."""
        for run in list(self.running.values()):
            run.asked = run.asked or "stop"
            self._settle(run, self._as_asked(run))

    def _arm(self, run: Execution) -> None:
        if run.claim.timeout_ms is not None:
            run.timer = self._loop.call_later(run.claim.timeout_ms / 1_000, self._expire, run)

    def _expire(self, run: Execution) -> None:
        if not run.settled:
            run.ask(run.asked or "timeout")
            run.task.cancel()
            run.timer = self._loop.call_later(STUBBORN_S, self._overrule, run)

    def _overrule(self, run: Execution) -> None:
        if not run.settled:
            log.warning("its handler ignores its cancellation and keeps its slot until it ends", **run.log_fields())
            self._settle(run, self._as_asked(run))

    # what is to be known of running jobs

    def reports(self) -> list[Report]:
        return [report for run in self.running.values() if (report := run.take_report()) is not None]

    def oldest_s(self) -> float:
        """For how long the oldest execution has been running; 0 if there is none."""
        oldest = next(iter(self.running.values()), None)
        return 0.0 if oldest is None else time.monotonic() - oldest.since


def _next(call: Next) -> Next:
    """What a middleware calls, with its context or without."""

    async def call_next(*_: Any) -> Any:
        return await call()

    return call_next


def _where_to(outcome: Settlement) -> str:
    match outcome.to:
        case "scheduled":
            return f"it is tried again in {show_ms(outcome.delay_ms)}"
        case "failed":
            return f"a new job tries it again in {show_ms(outcome.delay_ms)}"
        case to:
            return f"the job is {to}"
