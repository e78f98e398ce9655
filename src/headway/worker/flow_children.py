"""The jobs that one execution of a flow calls: which there are, what became of them, and what told of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headway.define.flow_run import Ended, Operation
from headway.model.job import NewJob
from headway.model.journal import Row
from headway.model.signal import Received
from headway.model.status import FINISHED

if TYPE_CHECKING:
    from headway.worker.flow_execution import FlowExecution


class FlowChildren:
    """By the place of the call."""

    def __init__(self, execution: FlowExecution, told: Sequence[Received]) -> None:
        self._execution = execution
        self._ids: dict[str, str] = {}
        self._over: dict[str, Ended] = {}
        self._again: set[str] = set()  # places whose job had ended before a retry of the flow took that back
        self._told = {each.id: each.payload for each in told}  # unread signals that a child is over → its id
        self._read: set[str] = set()
        self.may_be_over = True  # something says that one is: nobody has looked since

    def __bool__(self) -> bool:
        """Whether one is waited for."""
        return bool(self._ids)

    @property
    def told(self) -> tuple[str, ...]:
        """The signals that told of children, and were not delivered with an answer."""
        return tuple(self._told)

    def tell(self, signal: Received) -> bool:
        """A child is over; False where that is known."""
        if signal.id in self._told or signal.id in self._read:
            return False
        self._told[signal.id] = signal.payload
        self.may_be_over = True
        return True

    def begin(self, place: str, called: Sequence[Row]) -> None:
        """The function asks for a call, which may be under way."""
        if called:
            if called[-1].seq < self._execution.failed_before.get(place, 0):
                self._again.add(place)
            self._ids[place] = _id_of(called[-1])
            self.may_be_over = True

    def is_called(self, place: str) -> bool:
        """Whether its job was enqueued, or is about to be."""
        return place in self._ids

    def is_over(self, place: str) -> bool:
        """Whether its job has ended, and the function was not told."""
        return place in self._over

    def take(self, place: str) -> tuple[Ended, str | None]:
        """How it ended, and the signal that told of it."""
        ended = self._over.pop(place)
        del self._ids[place]
        told = next((signal for signal, child in self._told.items() if child == ended.id), None)
        if told is not None:
            del self._told[told]
            self._read.add(told)
        return ended, told

    def called(self, place: str, job_id: str, *, asked: str) -> None:
        """It is this job: another one than was asked for, where that met it by its key, may be over already."""
        self._ids[place] = job_id
        self.may_be_over = self.may_be_over or job_id != asked

    def drop(self, operation: Operation) -> str | None:
        """Nobody waits for it any more; gives the job to be canceled."""
        job_id = self._ids.pop(operation.place, None)
        if job_id is None and operation.kind == "call":  # given up in the replay: before a crash, maybe, that kept it
            called = self._execution.flow.notes_of(operation.place, "called")
            job_id = _id_of(called[-1]) if called else None
        return None if job_id is None or operation.what.keep else job_id

    def new(self, place: str | None, job: NewJob) -> NewJob:
        """The job as the flow enqueues it."""
        ctx = self._execution.ctx
        claim = ctx.claim
        if place is not None:
            self._ids[place] = job.id
        return msgspec.structs.replace(
            job,
            tenant=ctx.tenant,
            tenant_id=claim.tenant_id,
            correlation_id=job.correlation_id or claim.correlation_id,
            trace_id=job.trace_id or claim.trace_id or claim.trace,
        )

    def refused(self, place: str) -> None:
        """Its enqueue was."""
        self._ids.pop(place, None)

    async def look(self) -> None:
        """Which of them are over: asked only when something says that one may be."""
        if not self.may_be_over:
            return
        self.may_be_over = False
        desk, asked = self._execution.desk, self._execution.flow.asked
        places: dict[str, list[str]] = {}
        for place, job_id in self._ids.items():
            if place in asked:
                places.setdefault(job_id, []).append(place)  # two calls may have met one job
        if not places:
            return
        found = await desk.ask(desk.ops.children_of_flow(list(places)))
        over = {job_id: child for job_id, child in found.items() if child.status in FINISHED}
        read = dict(zip(over, await desk.spilled.with_results(list(over.values())), strict=True))
        for job_id, at in places.items():
            for place in at:
                if job_id not in found:
                    self._over[place] = Ended(job_id, "canceled", error="it was deleted")
                elif job_id in read:
                    child = read[job_id]
                    if place in self._again and child.status != "succeeded" and child.id not in self._told.values():
                        # nothing told of it since: it had ended before the retry
                        self._again.remove(place)
                        del self._ids[place]  # it is called again
                        continue
                    self._over[place] = Ended(child.id, child.status, _raw(child.result), child.error)


class _Called(msgspec.Struct):
    """The value of a `called` row."""

    id: str


def _id_of(called: Row) -> str:
    return msgspec.json.decode(called.value or b"{}", type=_Called).id


def _raw(value: Any) -> msgspec.Raw:
    return value if isinstance(value, msgspec.Raw) else msgspec.Raw(msgspec.json.encode(value))
