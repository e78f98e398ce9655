"""One job's life: from its claim through its handler to its outcome."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from headway import logs
from headway.artifacts import Places
from headway.define.batch import BatchKind
from headway.define.claimed_step import ClaimedStep
from headway.define.context import Context
from headway.define.flow_kind import ClaimedFlow, FlowContext
from headway.define.step_context import StepContext
from headway.errors import (
    ArtifactElsewhere,
    ArtifactsUnavailable,
    InvalidPayload,
    PayloadMismatch,
)
from headway.model.job import Claim, Report, Settlement
from headway.model.outcome import Cancel, Done, Retry, Snooze
from headway.model.retry import dead, failed
from headway.model.spill import may_refer
from headway.secrets import Vault
from headway.worker.artifacts import ArtifactWriter, patiently
from headway.worker.batches import Batches
from headway.worker.database import Database
from headway.worker.error_text import error_text, first_line, handler_exc_info, storable
from headway.worker.execution import Execution, Handler
from headway.worker.failures import (
    consequence,
    settlement_for_bad_payload,
    settlement_for_raised,
    settlement_for_stop,
)
from headway.worker.flow_desk import FlowDesk
from headway.worker.hooks import Event, Hooks
from headway.worker.outcome_secrets import check_exposure, redacted
from headway.worker.own_transactions import OwnTransactions
from headway.worker.settle import Settler
from headway.worker.slots import Slots
from headway.worker.spans import begin_span, end_span
from headway.worker.spill import ResultSpill, SpilledValues
from headway.worker.threads import Threads

if TYPE_CHECKING:
    from headway.telemetry.tracing import Tracing

log = logs.get_logger("headway.worker")

Next = Callable[..., Awaitable[Any]]
Middleware = Callable[[Context, Next], Awaitable[Any]]

INLINE_STEPS = 100
"""How many steps of a machine may run in a row before it goes back to the queue, so that others get the slot."""
INLINE_S = 1.0
"""The same limit in time."""
STUBBORN_S = 5.0
"""How long a handler may take to end after it was interrupted, before its job is settled without it."""


class Runner:
    """Runs claims: async handlers as tasks on the event loop, sync ones in threads."""

    def __init__(
        self,
        database: Database,
        slots: Slots,
        settler: Settler,
        hooks: Hooks,
        *,
        middleware: Sequence[Middleware],
        result_limit: int,
        spill_limit: int,
        state_limit: int,
        vault: Vault,
        places: Places | None,
        tracing: Tracing | None,
        worker_id: Callable[[], str],
        slot_freed: Callable[[], None],
        mismatched: Callable[[Claim, str], None],
        out_of_reach: Callable[[Claim, str], None],
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
        self._tracing = tracing
        self._slot_freed = slot_freed
        self._mismatched = mismatched
        self._out_of_reach = out_of_reach
        self._own = OwnTransactions(database, self.running, result_limit=result_limit, state_limit=state_limit)
        patient = patiently(database)
        self._artifacts = None if places is None else ArtifactWriter(database.ops, places, patient)
        self._spill = ResultSpill(self._artifacts, result_limit=result_limit, spill_limit=spill_limit)
        self._spilled = SpilledValues(database.ops, places, patient)
        self.flows = FlowDesk(
            database,
            self.threads,
            self._spilled,
            patient,
            worker_id=worker_id,
            result_limit=result_limit,
            payload_limit=state_limit,
            tracing=tracing,
        )
        self._committing: dict[tuple[str, int], Execution] = {}  # steps whose next step starts once they are committed
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self.batches = Batches(
            slots, self.threads, self.running, start_timers=self._start_timers, thread_ended=self._thread_ended
        )

    def start(self, claim: Claim, handler: Handler, worker_id: str, tenant: str | None, since: float) -> None:
        """Take a slot and begin."""
        self._slots.take(claim.queue)
        self._begin(Execution(claim, handler, worker_id, tenant, since, self._vault))

    def _begin(self, run: Execution) -> None:
        self.running[run.claim.id, run.claim.fence] = run
        run.task = self._loop.create_task(self._run(run))

    async def _run(self, run: Execution) -> None:
        """The life of one execution; whatever its handler raises ends here, SystemExit included."""
        run.begun = True
        logs.job.set(run)
        try:
            if self._tracing is not None:
                begin_span(self._tracing, run)
            self._start_timer(run)
            outcome = await self._outcome(run)
        except BaseException as error:
            if run.span is not None:
                run.span.error = error
            outcome = await self._ended_by(run, error)
        self._settle(run, outcome)
        self._free_slot(run)
        run.task = None  # the task's context refers to the run: break the cycle, so that no job needs the collector

    async def _outcome(self, run: Execution) -> Settlement | None:
        if run.stop_reason is not None:
            return settlement_for_stop(run)
        handler = run.handler
        claim = run.claim
        try:
            if may_refer(claim.payload):
                claim = await self._spilled.with_payload(claim)
            ctx = run.ctx = handler.context(claim, tenant=run.tenant, worker_id=run.worker_id, vault=self._vault)
            ctx.own_transactions = self._own
            ctx.artifact_writer = self._artifacts
            if isinstance(ctx, FlowContext):
                ctx.desk = self.flows
            if self._closing:
                ctx.stop()
            if handler.joins:
                assert isinstance(ctx, StepContext)
                ctx.bring_children(await self._spilled.children_of(ctx.job_id))
            fn, args, kwargs = handler.invocation(ctx)
        except PayloadMismatch as error:
            self._mismatched(run.claim, str(error))
            return None
        except (ArtifactElsewhere, ArtifactsUnavailable) as error:
            self._out_of_reach(run.claim, str(error))
            return None
        except InvalidPayload as error:
            return settlement_for_bad_payload(run.claim, str(error))
        self._tell_started(run)
        if handler.is_async and not self._middleware:
            value = await fn(*args, **kwargs)  # fast path
        else:
            value = await self._call(run, fn, args, kwargs)
        if self._own.offered and (committed := await self._own.committed(run, value)) is not None:
            return committed
        if _ended_for_cancel(run, value):
            return settlement_for_stop(run)
        outcome = self._settlement(run, value)
        return await self._spill.spilled(run, outcome) if handler.options.spill else outcome

    def _tell_started(self, run: Execution) -> None:
        """Emit job.started, once; not for a job whose payload cannot be read, which is given back and emits no end."""
        if not run.told_started:
            run.told_started = True
            if self._hooks.listens("job.started"):
                self._hooks.emit(Event("job.started", run.worker_id, run.claim))

    def _settlement(self, run: Execution, value: Any, failure: str | None = None) -> Settlement:
        assert run.ctx is not None
        try:
            outcome = run.handler.settlement_of(
                run.ctx,
                value,
                result_limit=self._spill.limit if run.handler.options.spill else self._result_limit,
                state_limit=self._state_limit,
                continues=self._may_continue(run),
                failure=failure,
                may_spill=not run.handler.options.spill,
            )
            if run.ctx.given:
                check_exposure(outcome, run.ctx.given)
            return outcome
        except InvalidPayload as error:
            return settlement_for_bad_payload(run.claim, str(error))

    async def _call(
        self, run: Execution, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call the handler inside the middleware."""
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
        if isinstance(run.handler, BatchKind):
            return await self.batches.join(run, args[0])
        run.in_thread = True
        inside = partial(contextvars.copy_context().run, run.call, partial(fn, *args, **kwargs))
        value = await self.threads.call(inside, partial(self._thread_ended, run))
        if run.stop_reason == "timeout":
            raise TimeoutError  # it returned, but too late: the timeout is what is recorded
        return value

    # a machine's next step, in the same slot

    def _may_continue(self, run: Execution) -> bool:
        """Whether the next step may follow at once: within limits, and not while this worker stops."""
        return (
            run.stop_reason is None
            and not self._closing
            and not run.in_thread
            and run.steps < INLINE_STEPS
            and time.monotonic() - run.slot_since < INLINE_S
        )

    def start_next_step(self, claim: Claim, settlement: Settlement, signals: str | None) -> None:
        """The step of this claim was committed, and the next one is this worker's to run."""
        run = self._committing.pop((claim.id, claim.fence), None)
        if run is None:
            return
        assert isinstance(run.handler, ClaimedStep)
        try:
            claimed = run.handler.following(settlement, signals)
        except Exception as error:
            self._free(run)
            self.settle_as_dead(msgspec.structs.replace(claim, fence=claim.fence + 1), error)
            return
        if self._closing or claimed is None:
            self._free(run)  # the claim is given back when this worker signs off
            return
        following = Execution(claimed.claim, claimed, run.worker_id, run.tenant, time.monotonic(), self._vault)
        following.slot_since, following.steps = run.slot_since, run.steps + 1
        self._begin(following)

    def settle_as_dead(self, claim: Claim, error: Exception) -> None:
        """The claim cannot be run at all: end its job."""
        text = storable(first_line(str(error)))
        log.error("a job cannot be started and is dead", job_id=claim.id, kind=claim.kind, error=text)
        self._settler.put(claim, dead(claim, text))

    def drop_next_step(self, claim: Claim) -> None:
        """The step of this claim was not committed, or the job has ended: free the slot."""
        run = self._committing.pop((claim.id, claim.fence), None)
        if run is not None:
            self._free(run)

    def close(self) -> None:
        """Start no further steps, and let running handlers see that this worker stops."""
        self._closing = True
        for run in self.running.values():
            if run.ctx is not None:
                run.ctx.stop()
        self.batches.close()

    # how it ends

    async def _ended_by(self, run: Execution, error: BaseException) -> Settlement | None:
        try:
            if self._own.offered and (committed := await self._own.committed(run, error)) is not None:
                return committed
            return await self._recovered(run, error) if _recovers(run, error) else settlement_for_raised(run, error)
        except BaseException as second:
            # our own failure: the job must not stay running
            text = f"{error_text(error)}\n\nand then, in the worker:\n\n{error_text(second)}"
            return failed(run.claim, storable(text))

    async def _recovered(self, run: Execution, error: BaseException) -> Settlement | None:
        """What the machine's own `handle` decides after an error."""
        assert isinstance(run.handler, ClaimedStep)
        assert run.ctx is not None
        failure = error_text(error)
        try:
            fn, args = run.handler.recovery(run.ctx, error)
            answer = fn(*args) if inspect.iscoroutinefunction(fn) else asyncio.to_thread(fn, *args)
            outcome = self._settlement(run, await answer, failure)
            if run.handler.options.spill and (spilled := await self._spill.spilled(run, outcome)) is not outcome:
                return spilled
        except BaseException as second:
            if run.stop_reason is not None or isinstance(second, Retry | Snooze | Cancel):
                return settlement_for_raised(run, second)
            log.error("its handle failed too: the job is dead", exc_info=handler_exc_info(second))
            return dead(run.claim, storable(f"{failure}\n\nand its handle raised:\n\n{error_text(second)}"))
        text = f"attempt failed: {consequence(outcome)}"
        log.warning(text, duration_ms=run.duration_ms, exc_info=handler_exc_info(error))
        return outcome

    def _settle(self, run: Execution, outcome: Settlement | None) -> None:
        """Hand the outcome on, once; None: nothing is written, since the claim is not ours any more or never began."""
        if run.settled:
            return
        run.settled = True
        claim = run.claim
        del self.running[claim.id, claim.fence]
        if self._own.offered:
            self._own.forget(claim)
        if outcome is not None:
            if run.begun:
                self._tell_started(run)
            outcome = redacted(_with_program(run, outcome), run)
        if run.span is not None:
            end_span(run.span, outcome)
        if outcome is not None:
            if outcome.to == "running":
                self._committing[claim.id, claim.fence] = run
            self._settler.put(claim, outcome, run.take_report(), time.monotonic() - run.since)

    def _free_slot(self, run: Execution) -> None:
        """Free the slot, unless the handler's thread still runs."""
        if run.timer is not None:
            run.timer.cancel()
        if (run.claim.id, run.claim.fence) in self._committing:
            return  # its next step keeps the slot
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
            self._slot_freed()

    # how running jobs are stopped

    def cancel(self, claims: Iterable[tuple[str, int]]) -> None:
        """Somebody canceled these jobs: async handlers get CancelledError, sync ones see `ctx.canceled`."""
        for key in claims:
            run = self.running.get(key)
            if run is not None and run.stop_reason is None:
                log.info("asked to cancel", **run.log_fields())
                run.ask_to_stop("cancel")
                if run.can_end_alone:
                    run.interrupt()

    def drop(self) -> int:
        """The lease is lost: end all handlers and write no outcomes. Gives how many there were."""
        runs = list(self.running.values())
        for run in runs:
            run.ask_to_stop("lost")
            self._settle(run, None)
            run.interrupt()
        for run in self._committing.values():
            self._free(run)
        self._committing.clear()
        return len(runs)

    def interrupt(self) -> list[asyncio.Task[None]]:
        """The grace period is over: end all handlers and give their jobs back. Gives their tasks, to wait for.

        A thread cannot be ended: its function sees `ctx.canceled`, and its job is given back once it returns.
        """
        runs = list(self.running.values())
        for run in runs:
            run.ask_to_stop(run.stop_reason or "stop")
            if not run.begun:
                self._settle(run, None)
            if not run.in_thread:
                run.interrupt()
        return [run.task for run in runs if run.task is not None]

    def patience_s(self) -> float:
        """How long to wait for the handlers that were interrupted."""
        return max(map(_patience_s, self.running.values()), default=0.0)

    def abandon(self) -> list[Execution]:
        """Give back the jobs of handlers that did not end. Gives those that still run in a thread: nobody else may run
        these jobs before the thread has ended."""
        left: list[Execution] = []
        for run in list(self.running.values()):
            if run.in_thread:
                left.append(run)
                self._settle(run, None)
                run.interrupt()  # its task only waits for the thread
            else:
                run.stop_reason = run.stop_reason or "stop"
                self._settle(run, settlement_for_stop(run))
        return left

    def _start_timer(self, run: Execution) -> None:
        if run.claim.timeout_ms is not None:
            run.timer = self._loop.call_later(run.claim.timeout_ms / 1_000, self._time_out, run)

    def _start_timers(self, runs: list[Execution]) -> None:
        """Of a batch: its calls have one timeout, and all time out in one round of the event loop."""
        timeout_ms = runs[0].claim.timeout_ms
        if timeout_ms is not None:
            at = self._loop.time() + timeout_ms / 1_000
            for run in runs:
                run.timer = self._loop.call_at(at, self._time_out, run)

    def _time_out(self, run: Execution) -> None:
        if not run.settled:
            run.ask_to_stop(run.stop_reason or "timeout")
            if not run.in_thread:
                run.interrupt()
            run.timer = self._loop.call_later(_patience_s(run), self._give_up_on, run)

    def _give_up_on(self, run: Execution) -> None:
        if run.settled:
            return
        if run.in_thread and run.claim.followed:
            # settled now, its train, partition or limit would let another job start beside it
            log.warning(
                "past its timeout, and other jobs wait for its end: a thread cannot be killed, so they wait until it "
                "returns",
                **run.log_fields(),
            )
            return
        log.warning("its handler ignores its cancellation and keeps its slot until it ends", **run.log_fields())
        self._settle(run, settlement_for_stop(run))
        if run.in_thread:
            run.interrupt()

    # what is reported of running jobs

    def reports(self) -> list[Report]:
        return [report for run in self.running.values() if (report := run.take_report()) is not None]

    def oldest_s(self) -> float:
        """For how long the oldest execution has been running; 0 if there is none."""
        oldest = next(iter(self.running.values()), None)
        return 0.0 if oldest is None else time.monotonic() - oldest.since


def _recovers(run: Execution, error: BaseException) -> bool:
    """Whether the machine's own `handle` decides: for errors of its step, but not for Retry, Snooze and Cancel, which
    decide themselves."""
    return (
        run.handler.recovers
        and run.ctx is not None
        and run.stop_reason is None
        and isinstance(error, Exception)
        and not isinstance(error, Retry | Snooze | Cancel)
    )


def _ended_for_cancel(run: Execution, value: Any) -> bool:
    """Whether it returned because its job was canceled: an async handler was interrupted, a sync one has looked. One
    that did finish returns Done; a step's outcome and a batch's answers say themselves what they are."""
    return (
        run.stop_reason == "cancel"
        and not isinstance(run.handler, ClaimedStep | ClaimedFlow | BatchKind)
        and (run.handler.is_async or (run.ctx is not None and run.ctx.saw_canceled))
        and type(value) is not Done
    )


def _patience_s(run: Execution) -> float:
    own = None if run.ctx is None else run.ctx.patience_s
    return STUBBORN_S if own is None else max(own, STUBBORN_S)


def _with_program(run: Execution, outcome: Settlement) -> Settlement:
    """Add the exit code, process id and last lines of output of the program that a command ran."""
    ctx = run.ctx
    if ctx is None:
        return outcome
    ctx.close_outputs()
    if ctx.program is None:
        return outcome
    return msgspec.structs.replace(outcome, **msgspec.structs.asdict(ctx.program))


def _next(call: Next) -> Next:
    """What a middleware calls; it may pass the context or leave it out."""

    async def call_next(*_: Any) -> Any:
        return await call()

    return call_next
