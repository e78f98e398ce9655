"""One job's life: from its claim through its handler to its outcome."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from headway import logs
from headway.define.claimed_step import ClaimedStep
from headway.define.context import Context
from headway.define.step_context import StepContext
from headway.errors import CommandFailed, InvalidPayload, PayloadMismatch, StoreFailed, StoreUnavailable
from headway.model.duration import show_ms
from headway.model.job import Claim, Report, Settlement
from headway.model.machine import Child
from headway.model.outcome import Cancel, Retry, Snooze
from headway.model.retry import canceled, dead, failed, released
from headway.secrets import Vault
from headway.worker.error_text import error_text, first_line, handler_exc_info, storable
from headway.worker.execution import Execution, Handler
from headway.worker.failures import settlement_for_error, settlement_for_failure
from headway.worker.hooks import Event, Hooks
from headway.worker.outcome_secrets import check_exposure, redacted
from headway.worker.settle import Settler
from headway.worker.slots import Slots
from headway.worker.threads import Threads

log = logs.get_logger("headway.worker")

Next = Callable[..., Awaitable[Any]]
Middleware = Callable[[Context, Next], Awaitable[Any]]

INLINE_STEPS = 100
"""How many steps of a machine may follow each other in one slot, before it lets others go first."""
INLINE_S = 1.0
"""And for how long."""
STUBBORN_S = 5.0
"""How long an async handler may take to end after it was cancelled, before its job is settled without it."""
_LOOK_AGAIN_S = 0.25


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
        state_limit: int,
        vault: Vault,
        children: Callable[[str], Awaitable[Sequence[Child]]],
        on_free: Callable[[], None],
        on_mismatch: Callable[[Claim, str], None],
    ) -> None:
        self.running: dict[tuple[str, int], Execution] = {}  # until settled; oldest first
        self.threads = Threads(slots.total)
        self._slots = slots
        self._settler = settler
        self._hooks = hooks
        self._middleware = tuple(middleware)
        self._result_limit = result_limit
        self._state_limit = state_limit
        self._vault = vault
        self._children = children
        self._on_free = on_free
        self._on_mismatch = on_mismatch
        self._between: dict[tuple[str, int], Execution] = {}  # machines whose next step waits for the last one's commit
        self._closing = False
        self._loop = asyncio.get_running_loop()

    def start(self, claim: Claim, handler: Handler, worker_id: str, tenant: str | None, since: float) -> None:
        """Take a slot and begin."""
        self._slots.take(claim.queue)
        self._begin(Execution(claim, handler, worker_id, tenant, since, self._vault))

    def _begin(self, run: Execution) -> None:
        self.running[run.claim.id, run.claim.fence] = run
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
            outcome = await self._ended_by(run, error)
        self._settle(run, outcome)
        self._leave(run)
        run.task = None  # whose context has the run: a cycle of every job else, for the garbage collector

    async def _outcome(self, run: Execution) -> Settlement | None:
        if run.asked is not None:
            return self._as_asked(run)
        handler = run.handler
        parked = handler.parked()
        if parked is not None:
            return parked
        ctx = run.ctx = handler.context(run.claim, tenant=run.tenant, worker_id=run.worker_id, vault=self._vault)
        if self._closing:
            ctx.stop()
        try:
            if handler.joins:
                await self._bring_children(ctx)
            fn, args, kwargs = handler.invocation(ctx)
        except PayloadMismatch as error:
            self._on_mismatch(run.claim, str(error))
            return None
        except InvalidPayload as error:
            return self._doomed(run.claim, str(error))
        if handler.is_async and not self._middleware:
            value = await fn(*args, **kwargs)  # as most are: with nothing in between
        else:
            value = await self._call(run, fn, args, kwargs)
        return self._concluded(run, value)

    def _concluded(self, run: Execution, value: Any, failure: str | None = None) -> Settlement:
        assert run.ctx is not None
        try:
            outcome = run.handler.settlement_of(
                run.ctx,
                value,
                result_limit=self._result_limit,
                state_limit=self._state_limit,
                continues=self._may_continue(run),
                failure=failure,
            )
            if run.ctx.given:
                check_exposure(outcome, run.ctx.given)
            return outcome
        except InvalidPayload as error:
            return self._doomed(run.claim, str(error))

    async def _bring_children(self, ctx: Context) -> None:
        assert isinstance(ctx, StepContext)
        while True:
            try:
                ctx.bring_children(await self._children(ctx.job_id))
                return
            except (StoreUnavailable, StoreFailed):
                # no fault of the step's: the lease holds on, and so does this
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def _call(
        self, run: Execution, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """The handler, inside the middleware."""
        assert run.ctx is not None
        call: Next = partial(self._handle, run, fn, args, kwargs)
        for wrap in reversed(self._middleware):
            call = partial(wrap, run.ctx, _next(call))
        return await call()

    async def _handle(
        self, run: Execution, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if run.handler.is_async:
            return await fn(*args, **kwargs)
        run.in_thread = True
        inside = partial(contextvars.copy_context().run, run.call, partial(fn, *args, **kwargs))
        value = await self.threads.call(inside, partial(self._thread_ended, run))
        if run.asked == "timeout":
            raise TimeoutError  # it ended, too late: that is what is recorded
        return value

    # a machine's next step, in the same slot

    def _may_continue(self, run: Execution) -> bool:
        """Whether the next step may follow at once: not for ever, and not while this worker ends."""
        return (
            run.asked is None
            and not self._closing
            and not run.in_thread
            and run.steps < INLINE_STEPS
            and time.monotonic() - run.slot_since < INLINE_S
        )

    def go_on(self, claim: Claim, settlement: Settlement, signals: str | None) -> None:
        """A step was committed and the next one is this worker's: begin it."""
        run = self._between.pop((claim.id, claim.fence), None)
        if run is None:
            return
        assert isinstance(run.handler, ClaimedStep)
        try:
            claimed = run.handler.following(settlement, signals)
        except Exception as error:
            self._free(run)
            self.condemn(msgspec.structs.replace(claim, fence=claim.fence + 1), error)
            return
        if self._closing or claimed is None:
            self._free(run)  # what is running without anybody who runs it is given back when this worker signs off
            return
        following = Execution(claimed.claim, claimed, run.worker_id, run.tenant, time.monotonic(), self._vault)
        following.slot_since, following.steps = run.slot_since, run.steps + 1
        self._begin(following)

    def condemn(self, claim: Claim, error: Exception) -> None:
        """A claim that cannot be begun, for a reason of its own: the job is dead."""
        text = storable(first_line(str(error)))
        log.error("a job cannot be begun and is dead", job_id=claim.id, kind=claim.kind, error=text)
        self._settler.put(claim, dead(claim, text))

    def go_no_further(self, claim: Claim) -> None:
        """It was not committed, or the job has ended: the slot is free."""
        run = self._between.pop((claim.id, claim.fence), None)
        if run is not None:
            self._free(run)

    def close(self) -> None:
        """Begin no further steps, and let the running ones see that this worker stops."""
        self._closing = True
        for run in self.running.values():
            if run.ctx is not None:
                run.ctx.stop()

    # how it ends

    async def _ended_by(self, run: Execution, error: BaseException) -> Settlement | None:
        try:
            return await self._recovered(run, error) if _recovers(run, error) else self._judged(run, error)
        except BaseException as second:
            # whatever failed there, the job must not stay running
            return failed(
                run.claim, storable(f"{error_text(error)}\n\nand then, in the worker:\n\n{error_text(second)}")
            )

    async def _recovered(self, run: Execution, error: BaseException) -> Settlement | None:
        """What the machine's own `handle` makes of an error."""
        assert isinstance(run.handler, ClaimedStep)
        assert run.ctx is not None
        failure = error_text(error)
        try:
            fn, args = run.handler.recovery(run.ctx, error)
            answer = fn(*args) if inspect.iscoroutinefunction(fn) else asyncio.to_thread(fn, *args)
            outcome = self._concluded(run, await answer, failure)
        except BaseException as second:
            if run.asked is not None or isinstance(second, Retry | Snooze | Cancel):
                return self._judged(run, second)
            log.error("its handle failed too: the job is dead", exc_info=handler_exc_info(second))
            return dead(run.claim, storable(f"{failure}\n\nand its handle raised:\n\n{error_text(second)}"))
        log.warning(f"attempt failed: {_where_to(outcome)}", exc_info=handler_exc_info(error))
        return outcome

    def _judged(self, run: Execution, error: BaseException) -> Settlement | None:
        if run.asked is not None:
            # whatever it raises once it was asked to end, that is why it ends
            return self._as_asked(run, error)
        if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
            error = error.__cause__  # what a coroutine makes of it
        if isinstance(error, CommandFailed):
            return self._failed_command(run, error)
        outcome = settlement_for_error(run.claim, run.handler.options, error)
        if outcome.charge:
            shown = {"error": str(error)} if isinstance(error, Retry) else {"exc_info": handler_exc_info(error)}
            log.warning(f"attempt failed: {_where_to(outcome)}", **shown)
        return outcome

    def _failed_command(self, run: Execution, error: CommandFailed) -> Settlement:
        """By its own words: where its program ended, no traceback tells."""
        reason = storable(str(error))
        outcome = (
            settlement_for_failure(run.claim, run.handler.options, reason) if error.retry else dead(run.claim, reason)
        )
        log.warning(f"attempt failed: {_where_to(outcome)}", error=reason)
        return outcome

    def _doomed(self, claim: Claim, reason: str) -> Settlement:
        """Another try could not help."""
        log.error("the job is dead: another try could not help", error=reason)
        return dead(claim, storable(reason))

    def _as_asked(self, run: Execution, error: BaseException | None = None) -> Settlement | None:
        claim, options = run.claim, run.handler.options
        match run.asked:
            case "timeout":
                reason = f"timed out after {show_ms(claim.timeout_ms or 0)}"
                if options.retries(TimeoutError(reason)):
                    outcome = settlement_for_failure(claim, options, reason, status="timeout")
                else:
                    outcome = dead(claim, reason, status="timeout")
                log.warning(f"attempt timed out after {show_ms(claim.timeout_ms or 0)}: {_where_to(outcome)}")
                return outcome
            case "cancel":
                told = error is not None and not isinstance(error, asyncio.CancelledError)
                return canceled(claim, error_text(error) if told and error else None)
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
            outcome = redacted(_with_program(run, outcome), run)
            if outcome.to == "running":
                self._between[claim.id, claim.fence] = run
            self._settler.put(claim, outcome, run.take_report())

    def _leave(self, run: Execution) -> None:
        """Give the slot back, unless the handler's thread goes on."""
        if run.timer is not None:
            run.timer.cancel()
        if (run.claim.id, run.claim.fence) in self._between:
            return  # its next step has the slot
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
                if run.handler.is_async:
                    run.interrupt()

    def drop(self) -> int:
        """The lease is lost: end all handlers, say nothing of their outcomes. Gives how many there were."""
        runs = list(self.running.values())
        for run in runs:
            run.ask("lost")
            self._settle(run, None)
            run.interrupt()
        for run in self._between.values():
            self._free(run)
        self._between.clear()
        return len(runs)

    def interrupt(self) -> list[asyncio.Task[None]]:
        """The grace is over: end all handlers and give their jobs back. Gives the tasks that end now.

        A thread cannot be ended: its function sees `ctx.canceled`, and its job is given back when it returned.
        """
        runs = list(self.running.values())
        for run in runs:
            run.ask(run.asked or "stop")
            if not run.begun:
                self._settle(run, None)
            if not run.in_thread:
                run.interrupt()
        return [run.task for run in runs if run.task is not None]

    def patience_s(self) -> float:
        """How long the handlers that were interrupted may take to end."""
        return max(map(_patience_s, self.running.values()), default=0.0)

    def abandon(self) -> list[Execution]:
        """Give back the jobs of handlers that would not end. Gives those that still run in a thread: others must not
        have their jobs before the thread has ended."""
        left: list[Execution] = []
        for run in list(self.running.values()):
            if run.in_thread:
                left.append(run)
                self._settle(run, None)
                run.interrupt()  # nothing here waits for it any more
            else:
                run.asked = run.asked or "stop"
                self._settle(run, self._as_asked(run))
        return left

    def _arm(self, run: Execution) -> None:
        if run.claim.timeout_ms is not None:
            run.timer = self._loop.call_later(run.claim.timeout_ms / 1_000, self._expire, run)

    def _expire(self, run: Execution) -> None:
        if not run.settled:
            run.ask(run.asked or "timeout")
            if not run.in_thread:
                run.interrupt()
            run.timer = self._loop.call_later(_patience_s(run), self._overrule, run)

    def _overrule(self, run: Execution) -> None:
        if run.settled:
            return
        if run.in_thread and run.claim.followed:
            # its train, partition or limit would let another one start beside it
            log.warning(
                "it is past its timeout, and others wait for its end: a thread cannot be killed, so they wait "
                "until it returns",
                **run.log_fields(),
            )
            return
        log.warning("its handler ignores its cancellation and keeps its slot until it ends", **run.log_fields())
        self._settle(run, self._as_asked(run))
        if run.in_thread:
            run.interrupt()

    # what is to be known of running jobs

    def reports(self) -> list[Report]:
        return [report for run in self.running.values() if (report := run.take_report()) is not None]

    def oldest_s(self) -> float:
        """For how long the oldest execution has been running; 0 if there is none."""
        oldest = next(iter(self.running.values()), None)
        return 0.0 if oldest is None else time.monotonic() - oldest.since


def _recovers(run: Execution, error: BaseException) -> bool:
    """Whether the machine's own `handle` decides: of what its step raised, unless that says so itself."""
    return (
        run.handler.recovers
        and run.ctx is not None
        and run.asked is None
        and isinstance(error, Exception)
        and not isinstance(error, Retry | Snooze | Cancel)
    )


def _patience_s(run: Execution) -> float:
    own = None if run.ctx is None else run.ctx.patience_s
    return STUBBORN_S if own is None else max(own, STUBBORN_S)


def _with_program(run: Execution, outcome: Settlement) -> Settlement:
    """With what is known of the program that it ran, if it ran one, and the last lines of its output."""
    ctx = run.ctx
    if ctx is None:
        return outcome
    ctx.close_outputs()
    if ctx.program is None:
        return outcome
    return msgspec.structs.replace(outcome, **msgspec.structs.asdict(ctx.program))


def _next(call: Next) -> Next:
    """What a middleware calls, with its context or without."""

    async def call_next(*_: Any) -> Any:
        return await call()

    return call_next


def _where_to(outcome: Settlement) -> str:
    match outcome.to:
        case "scheduled":
            return f"it is tried again in {show_ms(outcome.delay_ms)}"
        case "running" | "queued" | "waiting":
            return "it goes on as its handle says"
        case "failed" if outcome.turn is not None and outcome.turn.outcome == "stop":
            return "the machine stops: the job has failed"
        case "failed":
            return f"a new job tries it again in {show_ms(outcome.delay_ms)}"
        case to:
            return f"the job is {to}"
