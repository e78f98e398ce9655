"""One execution of a flow: its function gets what the journal has, what it asks for is carried out and recorded, and in
the end it parks, or is over."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from headway import logs
from headway.clock import from_micros
from headway.define.flow import Flow, current_flow
from headway.define.flow_kind import Again, Aside, ClaimedFlow, Ended, FlowContext, Parked, Released
from headway.define.flow_run import FlowRun, Operation, Restarted, Signaled, open_names
from headway.errors import (
    FlowChanged,
    FlowFailed,
    FlowMisused,
    InvalidPayload,
    LeaseLost,
)
from headway.model.duration import show_ms
from headway.model.journal import ANSWERS, CANCEL, CHILD, Entry, FlowNews, Row, effective, starts_from
from headway.model.signal import Received
from headway.worker.error_text import error_text, first_line, storable
from headway.worker.flow_children import FlowChildren
from headway.worker.flow_desk import FlowDesk
from headway.worker.flow_failures import failed_operation, text_of
from headway.worker.flow_journal import FlowJournal, json_of, row_of
from headway.worker.flow_spans import FlowSpans
from headway.worker.flow_steps import FlowSteps
from headway.worker.flow_times import FlowTimes, due_text, moment
from headway.worker.outcome_secrets import check_json

log = logs.get_logger("headway.worker")

SLICE_S = 0.010
"""How long a flow's function runs before others on the worker's event loop get their turn."""
TOO_LONG_S = 0.1
"""A function that computes for this long without an operation is named in the log."""
IN_MEMORY_S = 1.0
"""What is due sooner is waited for in memory; a longer wait leaves the worker."""
SHOWN_S = 1.0
"""What `flow.set` sets is stored after this time, if the flow does not park before."""
_BEGAN = "$began"
"""The place of the note of when the first execution began."""


class FlowExecution:
    """From a claim of a flow until it parks or ends."""

    def __init__(self, desk: FlowDesk, claimed: ClaimedFlow, ctx: FlowContext) -> None:
        self.desk = desk
        self.ctx = ctx
        self.job_id = ctx.job_id
        self.fence = ctx.fence
        self.news = asyncio.Event()  # something may have come
        self.broken: BaseException | None = None  # what ends this execution, from one of its steps
        self.journal = FlowJournal(self)
        # places of steps that failed and jobs that ended, also where a retry took that back: the number of that row
        self.failed_before: dict[str, int] = {}
        self.spans = FlowSpans(desk.tracing)
        self.times = FlowTimes(desk.now)
        self.steps = FlowSteps(self, claimed.edition.steps_at_once)
        self._claimed = claimed
        signals = claimed.checkpoint.signals
        self._children = FlowChildren(self, [each for each in signals if each.name == CHILD])
        self._inbox: list[Received] = [each for each in signals if each.name != CHILD]
        self._taken: set[str] = set()  # signals that were delivered, or are about to be
        self._shown: str | None = None

    async def run(self) -> Any:
        """Gives how it ended; raises what the function raised between its operations."""
        function, began = self._begin(await self.desk.journal(self.job_id))
        context = contextvars.copy_context()
        context.run(current_flow.set, self._flow)
        context.run(self.flow.begin, function, began)
        self.ctx.on_stop = self.news.set
        try:
            await self._advance()
            if self.flow.differing:
                log.warning(
                    "arguments of recorded operations are others now; what was recorded for the old ones stands",
                    places=", ".join(self.flow.differing[:5]),
                    **self.fields(),
                )
            return await self._live()
        except FlowChanged as changed:
            log.warning(
                "a flow is set aside: its code does not fit what was recorded", reason=str(changed), **self.fields()
            )
            return Aside(reason=storable(f"set aside: {changed}"))
        except FlowMisused as misused:
            return Ended(status="dead", error=storable(str(misused)))
        except LeaseLost as lost:
            return Released(reason=str(lost))
        finally:
            self.ctx.on_stop = None
            self.steps.cancel_all()
            self.flow.drop()

    def _begin(self, rows: Sequence[Row]) -> tuple[Any, float]:
        """Read the journal; gives the function, ready to be called, and when the flow began."""
        counted = effective(rows)
        self.journal.begin(rows, counted)
        self.failed_before = {row.place: row.seq for row in rows if row.kind in ("failed", "ended")}
        payload, seed = self.ctx.claim.payload, self.job_id
        for row in rows:
            if row.kind == "forgotten" and starts_from(row.value or b'{"from":0}') < 1:
                seed = f"{self.job_id} {row.seq}"
                again = msgspec.json.decode(row.value or b"{}", type=dict[str, msgspec.Raw])
                payload = bytes(again["payload"]).decode() if "payload" in again else payload
        self.flow = flow = FlowRun(self.job_id, self._claimed.version, counted, seed=seed)
        flow.was_here = self._claimed.was_parked(rows)
        if self._claimed.checkpoint.state:
            flow.values = msgspec.json.decode(self._claimed.checkpoint.state, type=dict[str, msgspec.Raw])
        self._shown = self._values()
        self._flow = Flow(flow, self._claimed.kind, self.ctx, self._claimed.edition.policy)
        noted = flow.notes_of(_BEGAN, "due")
        began = moment(noted[-1]) if noted else self.desk.now()
        if not noted:
            self.journal.note_first(_BEGAN, due_text(began))
        function = self._claimed.function_of(flow, self._flow, payload, self.ctx.secret)
        if flow.thread is not None:
            return lambda: flow.thread.main(self._start_thread), began
        return function, began

    def _start_thread(self, work: Callable[[], None]) -> None:
        """At once: the flow's event loop, which is the running one here, rests until the thread has begun."""
        inside = partial(contextvars.copy_context().run, work)
        self.desk.threads.begin(inside, self.news.set)

    async def _advance(self) -> None:
        """Let the function run until it is at rest and has had all that is recorded: in slices, from plain callbacks,
        since a task of the worker's event loop would be the current one inside."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        flow = self.flow

        def piece() -> None:
            if done.done():
                return
            ends = time.perf_counter() + SLICE_S
            try:
                while True:
                    if flow.thread is not None and flow.thread.computes(again):
                        return  # a plain function runs: nothing else of its flow does meanwhile
                    if flow.advance(SLICE_S):
                        break
                    if time.perf_counter() > ends:
                        loop.call_soon(piece)
                        return
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        def again() -> None:
            with suppress(RuntimeError):  # the worker has ended
                loop.call_soon_threadsafe(piece)

        loop.call_soon(piece)
        await done
        slowest, flow.loop.slowest_s = flow.loop.slowest_s, 0.0
        if slowest > TOO_LONG_S:
            log.warning(
                "a flow's function computed without an operation and held up its worker: put that into a step",
                ms=round(slowest * 1_000),
                **self.fields(),
            )

    async def _live(self) -> Any:
        """Behind the last recorded answer."""
        flow = self.flow
        while True:
            if flow.loop.unhandled is not None:
                raise flow.loop.unhandled
            if self.broken is not None:
                raise self.broken
            await self._give_up_left()
            if flow.is_over:
                return await self._end()
            if (ends := self._cancel_ends_at()) is not None and self.desk.now() >= ends:
                return await self._canceled("canceled, and its cancel_grace was over before it had ended")
            self._begin_asked()
            entries = await self._answers()
            if entries:
                await self._record_and_deliver(entries)
            elif self.ctx.is_stopping and self.steps.idle:
                parks = self._can_park(within_s=0.0) and not self.steps.waits
                return await self._park() if parks else Released(reason="the worker stopped before it ended")
            elif self._can_park(within_s=IN_MEMORY_S):
                return await self._park()
            else:
                await self._wait()

    # what the function asks for

    def _begin_asked(self) -> None:
        for operation in self.flow.take_new():
            place = operation.place
            self.spans.asked(place)
            match operation.kind:
                case "step":
                    self.steps.add(operation)
                case "sleep" | "timer":
                    self.times.set(place, operation.what, self.flow.notes_of(place, "due"))
                case "receive":
                    if operation.what.timed is not None:
                        self.times.set(place, operation.what.timed, self.flow.notes_of(place, "due"))
                case "call":
                    self._children.begin(place, self.flow.notes_of(place, "called"))
        self.steps.begin()

    async def _give_up_left(self) -> None:
        """The function does not wait for these any more."""
        children: list[str] = []
        for operation in self.flow.take_left():
            self.times.drop(operation.place)
            self.steps.drop(operation.place)
            child = self._children.drop(operation)
            if child is not None:
                children.append(child)
        if children:
            await self.desk.ask(self.desk.ops.leave(self.job_id, children, fence=self.fence))

    # what comes of it

    async def _answers(self) -> list[Entry]:
        """The answers that are there now, in the order of delivery, and what has to be written before others come.

        A signal is consumed by its row, so it goes first and is the only one: an answer before it might make the
        function give it up. A time that came before it goes before it."""
        flow = self.flow
        entries: list[Entry] = []
        cancel = self._cancel() if flow.canceled_at is None else None
        received = self._wanted() if cancel is None else None
        sent_s = None if received is None else received[0].sent_at / 1_000_000
        if cancel is not None:
            entries.append(self.journal.entry("cancel", CANCEL, value=json_of(cancel.payload), signal=cancel.id))
        elif received is not None and not self.times.is_due(by=sent_s):
            entries.append(self._receive(*received))
        goes_first = bool(entries)
        for finished in self.steps.take_finished():
            operation = finished.operation
            if flow.asked.get(operation.place) is operation:
                entries.append(
                    self.journal.entry(
                        finished.kind,
                        operation.place,
                        value=finished.value,
                        error=finished.error,
                        took_ms=finished.took_ms,
                        print=operation.print,
                    )
                )
        await self._children.look()
        for operation in flow.asked.values():
            entry = self._answer_to(operation)
            if entry is not None:
                entries.append(entry)
        if not goes_first:
            entries += self._expired(by=sent_s)
        if not entries and received is not None:
            entries.append(self._receive(*received))
        return entries

    def _expired(self, *, by: float | None) -> list[Entry]:
        """Answers to what is due by now and by then; steps are tried again."""
        entries = []
        for place in self.times.expired(by=by):
            operation = self.flow.asked.get(place)
            if operation is not None and operation.kind == "step":
                self.steps.again(operation)
            elif operation is not None:
                entries.append(self.journal.entry("timer", place, print=operation.print))
        return entries

    def _answer_to(self, operation: Operation) -> Entry | None:
        place, fingerprint = operation.place, operation.print
        match operation.kind:
            case "call" if not self._children.is_called(place):
                child = self._children.new(place, operation.what.job)
                value = json_of({"id": child.id, "kind": child.kind})
                keeps = operation.what.keep
                return self.journal.entry(
                    "called", place, value=value, print=fingerprint, child=child, waits=True, keeps=keeps
                )
            case "call" if self._children.is_over(place):
                ended, told = self._children.take(place)
                return self.journal.entry("ended", place, value=json_of(ended), print=fingerprint, signal=told)
            case "enqueue":
                child = self._children.new(None, operation.what.job)
                return self.journal.entry(
                    "done", place, value=json_of({"id": child.id}), print=fingerprint, child=child
                )
        return None

    def _cancel(self) -> Received | None:
        return next((signal for signal in self._inbox if signal.name == CANCEL), None)

    def _wanted(self) -> tuple[Received, Operation] | None:
        """The earliest signal that the function waits for, and the first operation that waits for it."""
        wanted: dict[str, Operation] = {}
        for operation in self.flow.asked.values():
            if operation.kind == "receive":
                wanted.update({name: operation for name in operation.what.names if name not in wanted})
        if not wanted:
            return None
        unread = (signal for signal in self._inbox if signal.name in wanted and signal.id not in self._taken)
        return next(((signal, wanted[signal.name]) for signal in unread), None)

    def _receive(self, signal: Received, operation: Operation) -> Entry:
        self._taken.add(signal.id)
        value = json_of(Signaled(signal.name, msgspec.Raw(json_of(signal.payload).encode())))
        return self.journal.entry("signal", operation.place, value=value, print=operation.print, signal=signal.id)

    def take_news(self, news: FlowNews) -> None:
        """What is in its inbox now."""
        known = {each.id for each in self._inbox}
        for signal in news.signals:
            if signal.name == CHILD:
                if self._children.tell(signal):
                    self.news.set()
            elif signal.id not in known:
                self._inbox.append(signal)
                self.news.set()

    # delivering

    async def _record_and_deliver(self, entries: list[Entry]) -> None:
        flow = self.flow
        dues = self.times.unnoted(beyond_s=IN_MEMORY_S, among=flow.asked)
        entries, recorded = await self.journal.answers(entries, dues)
        at = from_micros(recorded.at[self.job_id])
        ids = {each.child.id: recorded.children.get(each.child.id, each.child.id) for each in entries if each.child}
        for entry in entries:  # first: an answer may make the function give one up
            if entry.kind == "called" and entry.child is not None:
                self._children.called(entry.place, ids[entry.child.id], asked=entry.child.id)
        for entry in entries:
            if entry.child is not None:
                entry = msgspec.structs.replace(entry, value=json_of({"id": ids[entry.child.id]}))
            if entry.kind == "failed":
                self._children.refused(entry.place)
            if entry.kind not in ANSWERS:
                continue
            if flow.is_over:
                break
            self.times.drop(entry.place)  # of a receive that had a timeout
            if (answered := flow.asked.get(entry.place)) is not None:
                self.spans.answered(answered, entry)
            flow.was_here = False
            flow.deliver(row_of(entry, at))
            await self._advance()
            await self._give_up_left()

    # waiting

    async def _wait(self) -> None:
        """Until something may have come: a step's end, news, a time, the worker's stop."""
        times = [at for at in (self.times.soonest(), self._cancel_ends_at()) if at is not None]
        delay_s = max(0.0, min(times) - self.desk.now()) if times else None
        shows = self._values() != self._shown
        if shows:
            delay_s = SHOWN_S if delay_s is None else min(delay_s, SHOWN_S)
        try:
            async with asyncio.timeout(delay_s):
                await self.news.wait()
        except TimeoutError:
            if shows:
                await self._show()
        self.news.clear()

    def _can_park(self, *, within_s: float) -> bool:
        """Whether nothing runs, and nothing is due that soon."""
        if not self.steps.idle or self._children.may_be_over or self.news.is_set():
            return False
        soonest = self.times.soonest()
        return soonest is None or soonest - self.desk.now() > within_s

    async def _park(self) -> Parked:
        flow = self.flow
        if not flow.asked:
            raise FlowMisused(
                "the function waits for what no operation of its flow can give: let it await a step, a signal, a job "
                "or a sleep"
            )
        dues = self.times.unnoted(among=flow.asked)
        if dues:
            await self.journal.answers([], dues)
        names = open_names(flow.asked.values())
        if self._children:
            names = (*names, CHILD)
        times = [at for at in (self.times.soonest(), self._cancel_ends_at()) if at is not None]
        deadline_ms = max(0, round((min(times) - self.desk.now()) * 1_000)) if times else None
        values = self._values()
        return Parked(
            awaiting=names,
            deadline_ms=deadline_ms,
            consumed=self._children.told,
            note=_note(flow, deadline_ms),
            state=values if values != self._shown else None,
        )

    def _cancel_ends_at(self) -> float | None:
        """When a canceled flow may undo things no longer."""
        if self.flow.canceled_at is None:
            return None
        return self.flow.canceled_time + self._claimed.edition.cancel_grace_ms / 1_000

    async def _show(self) -> None:
        """Store what the function has set for others to read."""
        values = self._values()
        if values is not None and values != self._shown:
            check_json("what flow.set sets", values, self.ctx.given)
            states = [(self.job_id, self.fence, values)]
            await self.desk.ask(self.desk.ops.set_flow_state(self.desk.worker_id(), states))
            self._shown = values

    def _values(self) -> str | None:
        return json_of(self.flow.values) if self.flow.values else None

    # the end

    async def _end(self) -> Any:
        flow = self.flow
        assert flow.main is not None
        for operation in flow.close():
            flow.left[operation.place] = operation
        await self._give_up_left()
        await self._show()
        error = asyncio.CancelledError() if flow.main.cancelled() else flow.main.exception()
        match error:
            case None:
                return Ended(status="succeeded", result=flow.main.result())
            case Restarted():
                check_json("what restart gives", error.payload, self.ctx.given)
                value = json_of({"from": 0, "payload": msgspec.Raw(error.payload.encode())})
                await self.journal.record([self.journal.entry("forgotten", "", value=value)])
                return Again(version=self._claimed.kind.edition.version)
            case FlowFailed():
                # a retry looks again at what it decided by
                await self._cut(0 if flow.undone else flow.last_answer)
                return Ended(status="failed", error=storable(str(error)))
            case asyncio.CancelledError() if flow.canceled_at is not None:
                return await self._canceled(self._reason())
            case asyncio.CancelledError():
                error = FlowMisused("the function raised CancelledError, though nobody canceled it")
        cause = failed_operation(error)
        if flow.undone:
            await self._cut(0)
            return Ended(status="failed", error=text_of(error))
        if cause is not None:
            await self._cut(cause)
            log.warning("a flow is dead: an operation of it failed", error=first_line(str(error)), **self.fields())
            return Ended(status="dead", error=text_of(error))
        if isinstance(error, FlowMisused | InvalidPayload):
            return Ended(status="dead", error=error_text(error))
        raise error

    async def _canceled(self, reason: str | None) -> Ended:
        at = self.flow.canceled_at
        await self._cut(0 if self.flow.undone or at is None else at)
        return Ended(status="canceled", error=reason)

    async def _cut(self, start: int) -> None:
        """Note what a retry forgets."""
        await self.journal.record([self.journal.entry("cut", "", value=json_of({"from": start}))])

    def _reason(self) -> str | None:
        given = next((each.payload for each in self._inbox if each.name == CANCEL), None)
        return given if isinstance(given, str) else "canceled"

    def fields(self) -> dict[str, Any]:
        """For log lines."""
        claim = self.ctx.claim
        return {
            "tenant_id": claim.tenant_id,
            "job_id": claim.id,
            "kind": claim.kind,
            "attempt": claim.fence,
            "worker_id": self.ctx.worker_id,
            "trace_id": claim.trace,
        }


def _note(flow: FlowRun, deadline_ms: int | None) -> str:
    names = [operation.place for operation in flow.asked.values() if operation.kind != "timer"]
    note = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return note if deadline_ms is None else f"{note}, at most {show_ms(deadline_ms)}"
