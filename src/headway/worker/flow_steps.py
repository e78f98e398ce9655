"""The steps of one execution of a flow: so many at once, each tried by its policy."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from headway import logs
from headway.define.context import Context
from headway.define.flow import StepCall
from headway.define.flow_kind import FlowContext
from headway.define.flow_run import Failed, Internal, Operation
from headway.define.flow_step import Policy
from headway.define.signals import signal_to
from headway.errors import FlowMisused, HeadwayError, InvalidPayload, LeaseLost, StepFailed, StoreError
from headway.model import codec, refusals
from headway.model.duration import show_ms, to_ms
from headway.model.job import Claim
from headway.model.journal import CANCEL, Entry
from headway.model.outcome import Cancel, Retry, Snooze
from headway.model.retry import backoff_ms
from headway.worker.error_text import TRACE_AFTER, error_text, first_line, shown_message, storable
from headway.worker.flow_desk import FlowDesk
from headway.worker.flow_times import due_text, moment
from headway.worker.outcome_secrets import check_json

if TYPE_CHECKING:
    from headway.worker.flow_execution import FlowExecution

log = logs.get_logger("headway.worker")

_ERROR_LIMIT = 4_000  # characters of a try's error: the last one is kept whole
_LOST = "it had begun when its worker was lost, and may not run twice: whether it happened is not known"


class Finished(msgspec.Struct, frozen=True):
    """How a step ended: its answer, before that has a number."""

    operation: Operation
    kind: Literal["done", "failed"]
    value: str | None
    error: str | None
    took_ms: int | None


class FlowSteps:
    """Starts steps in the order in which they were asked for, and keeps their answers until they are recorded."""

    def __init__(self, execution: FlowExecution, at_once: int) -> None:
        self._execution = execution
        self._desk: FlowDesk = execution.desk
        self._at_once = at_once
        self._waiting: deque[Operation] = deque()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._finished: deque[Finished] = deque()
        self._tries: dict[str, int] = {}

    def add(self, operation: Operation) -> None:
        """The function asks for it."""
        notes = self._execution.flow.notes_of
        settled = notes(operation.place, "settled")
        if settled:
            value = bytes(settled[-1].value or b"null").decode()
            self._finished.append(Finished(operation, "done", value, None, None))
            self._execution.news.set()
            return
        # those before a failure that a retry took back do not count
        since = self._execution.failed_before.get(operation.place, 0)
        tried = [row for row in notes(operation.place, "tried") if row.seq > since]
        self._tries[operation.place] = len(tried)
        if tried and (until := moment(tried[-1])) > self._desk.now():
            self._execution.times.set_at(operation.place, until)
        else:
            self._waiting.append(operation)

    def again(self, operation: Operation) -> None:
        """The time of its next try has come."""
        self._waiting.append(operation)
        self.begin()

    def begin(self) -> None:
        """Start what waits, as far as there is room; none once the worker stops."""
        while self._waiting and len(self._running) < self._at_once and not self._execution.ctx.is_stopping:
            operation = self._waiting.popleft()
            if self._execution.flow.asked.get(operation.place) is operation:
                task = asyncio.get_running_loop().create_task(self._run(operation))
                self._running[operation.place] = task

    @property
    def idle(self) -> bool:
        """Whether none runs or has an answer; while the worker stops, those that wait do not count."""
        waits = bool(self._waiting) and not self._execution.ctx.is_stopping
        return not self._running and not self._finished and not waits

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    def take_finished(self) -> list[Finished]:
        taken = list(self._finished)
        self._finished.clear()
        return taken

    def drop(self, place: str) -> None:
        """The function does not wait for it any more."""
        task = self._running.get(place)
        if task is not None:
            task.cancel()

    def cancel_all(self) -> None:
        for task in self._running.values():
            task.cancel()

    async def _run(self, operation: Operation) -> None:
        """Try a step once: then it has an answer, or a time for its next try. Whatever it raises ends here, SystemExit
        included."""
        place = operation.place
        began = time.monotonic()
        spans = self._execution.spans
        span = spans.begin_step(operation)
        raised: BaseException | None = None
        try:
            try:
                value = await self._attempt(operation)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                raised = RuntimeError("it raised CancelledError, though nobody canceled it")
                await self._failed(operation, raised, began)
            except LeaseLost:
                raise
            except BaseException as error:
                raised = error
                await self._failed(operation, error, began)
            else:
                self._finish(operation, "done", value, None, began)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # its lease is lost, or its journal is full
            self._execution.broken = error
        finally:
            spans.end_step(span, raised)
            if self._running.get(place) is asyncio.current_task():
                del self._running[place]
            self._execution.news.set()

    async def _failed(self, operation: Operation, error: BaseException, began: float) -> None:
        place, charged = operation.place, not isinstance(error, Snooze)
        self._tries[place] += charged
        refused = isinstance(operation.what, Internal) and not isinstance(error, StoreError)
        try:
            delay_ms = None if refused else await self._delay_ms(operation.what.policy, error, self._tries[place])
        except Exception as fault:  # of retry_if or backoff
            error, delay_ms = fault, None
        if delay_ms is None:
            lost = isinstance(error, _Lost)
            name = "StepLost" if lost else type(error).__name__.lstrip("_")
            trace = error_text(error).partition(TRACE_AFTER)[2][-_ERROR_LIMIT:]
            failed = Failed(name, self._tries[place], lost, trace)
            self._finish(operation, "failed", _json(failed), storable(shown_message(str(error))), began)
            return
        log.warning(
            f"step {place} failed and is tried again in {show_ms(delay_ms)}",
            error=first_line(error_text(error)),
            **self._execution.fields(),
        )
        due = self._desk.now() + delay_ms / 1_000
        if charged:
            text = storable(error_text(error))[-_ERROR_LIMIT:]
            journal = self._execution.journal
            await journal.record([journal.entry("tried", place, value=due_text(due), error=text)])
        self._execution.times.set_at(place, due, noted=charged)

    def _finish(
        self, operation: Operation, kind: Literal["done", "failed"], value: str, error: str | None, began: float
    ) -> None:
        took_ms = round((time.monotonic() - began) * 1_000)
        self._finished.append(Finished(operation, kind, value, error, took_ms))

    async def _delay_ms(self, policy: Policy, error: BaseException, tries: int) -> int | None:
        """How long until the next try; None: there is none."""
        options = policy.options
        if isinstance(error, Snooze):
            return to_ms(error.delay, "delay")
        again = not isinstance(error, _FINAL) and options.delivery != "at_most_once"
        again = again and (isinstance(error, Retry) or options.retries(error))
        if policy.retry_if is not None and not isinstance(error, _FINAL):
            verdict = policy.retry_if(error)  # asked on the last try, too
            again = bool(await verdict if inspect.isawaitable(verdict) else verdict) and again
        if not again or tries >= options.max_attempts:
            return None
        if isinstance(error, Retry) and error.delay is not None:
            return to_ms(error.delay, "delay")
        if options.backoff is not None:
            return to_ms(options.backoff(tries), "backoff")
        return backoff_ms(tries, options.backoff_base_ms, options.backoff_cap_ms, 0.5)

    async def _attempt(self, operation: Operation) -> str:
        """Run it once; gives the JSON of its result."""
        place, what = operation.place, operation.what
        if what.policy.options.delivery == "at_most_once":
            await self._begin_once(place)
        if isinstance(what, Internal):
            return await self._internal(what, place)
        assert isinstance(what, StepCall)
        ctx = StepOfFlow(self._execution.ctx, self._desk, place, self._tries[place])
        timeout_ms = what.policy.options.timeout_ms
        call = what.call_with(ctx)
        if what.is_async:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1_000):
                value = await call()
        else:
            value = await self._in_thread(call, ctx, timeout_ms)
        if inspect.iscoroutine(value):
            value.close()
            raise FlowMisused(f"step {place} gave a coroutine: give flow.step the async function itself, not a lambda")
        if ctx.offered is not None and (settled := await self._settled(place)) is not None:
            return settled
        try:
            text = codec.encode(value, limit=self._desk.result_limit, what=f"result of step {place}")
            check_json(f"the result of step {place}", text, ctx.given)
            if operation.decode is not None:
                operation.decode(text.encode())  # as the function will get it
        except InvalidPayload as error:
            raise _Unstorable(str(error)) from None
        return text

    async def _begin_once(self, place: str) -> None:
        """Note that it begins; raises if it has begun before, and nothing says how it ended. One whose failure a retry
        took back may run again."""
        begun = self._execution.flow.notes_of(place, "begun")
        if begun and begun[-1].seq > self._execution.failed_before.get(place, 0):
            raise _Lost(_LOST)
        await self._execution.journal.record([self._execution.journal.entry("begun", place)])

    async def _in_thread(self, call: Callable[[], Any], ctx: Context, timeout_ms: int | None) -> Any:
        """A thread cannot be killed: past its timeout it sees `ctx.canceled`, and the try ends when it does."""
        inside = partial(contextvars.copy_context().run, _caught, call)
        own = self._execution.flow.thread
        thread = own.call(inside) if own else asyncio.ensure_future(self._desk.threads.call(inside, lambda: None))
        late = False
        while not thread.done():
            limit_s = None if late or timeout_ms is None else timeout_ms / 1_000
            try:
                done, _ = await asyncio.wait({thread}, timeout=limit_s)
            except asyncio.CancelledError:
                ctx.cancel()
                raise
            if not done:
                late = True
                ctx.cancel()
        value, error = thread.result()
        if error is not None:
            raise error
        if late:
            raise TimeoutError(f"timed out after {show_ms(timeout_ms or 0)}")
        return value

    async def _settled(self, place: str) -> str | None:
        """What this step committed with its caller's rows; None if that was rolled back."""
        for row in await self._desk.journal(self._execution.job_id):
            if row.kind == "settled" and row.place == place and row.fence == self._execution.fence:
                return bytes(row.value or b"null").decode()
        return None

    async def _internal(self, what: Internal, place: str) -> str:
        ops, claim = self._desk.ops, self._execution.ctx.claim
        if what.verb == "send":
            name, payload = what.args[1:]
            try:
                check_json(f"the signal {name}", payload, self._execution.ctx.given)
            except InvalidPayload as error:
                raise _Unstorable(str(error)) from None
            # sent again after a crash, it is the same signal
            dedup_key = f"{claim.id}:{self._execution.flow.generation}:{place}"
            raw = msgspec.Raw(payload.encode())
            signal = signal_to(what.args[0], name, raw, dedup_key=dedup_key, limit=self._desk.payload_limit)
            await self._desk.ask(ops.signal([msgspec.structs.replace(signal, tenant_id=claim.tenant_id)]))
        else:
            await self._cancel(what.args[0], again="#" in place)
        return "null"

    async def _cancel(self, job_id: str, *, again: bool) -> None:
        """Cancel a job; not once more after a crash, since a second cancel ends a flow before it has undone things."""
        ops, claim = self._desk.ops, self._execution.ctx.claim
        reason = f"canceled by flow {claim.id}"
        signals = await self._desk.ask(ops.signals(job_id, tenant_id=claim.tenant_id))
        if not again and any(each.name == CANCEL and each.payload == reason for each in signals):
            return
        found = await self._desk.ask(ops.cancel([job_id], reason=reason, tenant_id=claim.tenant_id, actor=None))
        if not found:
            raise refusals.cancel_of_nobody(job_id)


class StepOfFlow(Context):
    """The context of a step: its flow's, with tries of its own, and `settle` for this step alone."""

    __slots__ = ("_desk", "_flow", "_place", "offered")

    def __init__(self, flow: FlowContext, desk: FlowDesk, place: str, tries: int) -> None:
        claim: Claim = msgspec.structs.replace(flow.claim, tries=tries, attempt=tries + 1)
        super().__init__(claim, tenant=flow.tenant, worker_id=flow.worker_id)
        self._flow = flow
        self._desk = desk
        self._place = place
        self.artifact_writer = flow.artifact_writer
        self.offered: str | None = None
        self._keyring = flow.keyring

    @property
    def step(self) -> str:
        return self._place

    @property
    def stopping(self) -> bool:
        return self._flow.is_stopping

    def progress(self, fraction: float, note: str | None = None) -> None:
        self._flow.progress(fraction, note)

    def log(self, message: str) -> None:
        self._flow.log(message)

    def output(self, text: str, *, stream: str = "stdout") -> None:
        self._flow.output(text, stream=stream)

    def settle(self, outcome: Any = None, *, conn: Any) -> None:
        """Make the step's result part of your own transaction: it holds exactly if that commits."""
        self._desk.database.run_in(conn, self._desk.ops.settle_step(self._offer(outcome)))

    async def asettle(self, outcome: Any = None, *, conn: Any) -> None:
        await self._desk.database.arun_in(conn, self._desk.ops.settle_step(self._offer(outcome)))

    def _offer(self, outcome: Any) -> Entry:
        offered = codec.encode(outcome, limit=self._desk.result_limit, what=f"result of step {self._place}")
        check_json(f"the result of step {self._place}", offered, self.given)
        self.offered = offered
        claim = self._flow.claim
        return Entry(job_id=claim.id, fence=claim.fence, seq=0, kind="settled", place=self._place, value=self.offered)


class _Unstorable(HeadwayError):
    """A result that cannot be stored: another try would give it again."""


class _Lost(HeadwayError):
    """A step that may run once had begun before."""


_FINAL = (_Unstorable, _Lost, Cancel, StepFailed, FlowMisused)
"""Errors that no other try can change."""


def _caught(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """What a thread's function gives, or raises: SystemExit must not reach the event loop."""
    try:
        return call(), None
    except BaseException as error:
        return None, error


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
