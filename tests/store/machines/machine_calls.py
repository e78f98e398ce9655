"""Words for machines: enqueue one, end its step with an outcome, send it signals, and read where it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headway.model.ids import new_id
from headway.model.job import Claim, Enqueued, Job, NewJob, Settlement
from headway.model.machine import Checkpoint, Child, Settled, Turn
from headway.model.signal import NewSignal, Received, Sent, Signal
from tests.tenant_ids import tenant_id

QUIET = Settled([], {})
"""What a settle answers when all of it was written and nothing goes on."""

GOES_TO = {
    "next": "queued",
    "replay": "scheduled",
    "await": "waiting",
    "spawn": "waiting",
    "sleep": "scheduled",
    "done": "succeeded",
    "stop": "dead",
}
_CHECKPOINT = frozenset(Checkpoint.__struct_fields__) - {"partition", "signals"}
_TURN = frozenset(Turn.__struct_fields__)


def new_machine(**options: Any) -> NewJob:
    """A job with a checkpoint: `state` is a value, other fields of `Checkpoint` and `NewJob` are as they are there."""
    checkpoint = {"version": 1, "step": "start", **{name: options.pop(name) for name in _CHECKPOINT & set(options)}}
    if "state" in checkpoint:
        checkpoint["state"] = msgspec.Raw(msgspec.json.encode(checkpoint["state"]))
    if "tenant" in options:
        options = {"tenant_id": tenant_id(options["tenant"]), **options}
    return NewJob(**{"id": new_id(), "kind": "checkout", **options}, checkpoint=Checkpoint(**checkpoint))


def turned(claim: Claim, outcome: str, to: str | None = None, **values: Any) -> Settlement:
    """The settlement of a step that had this outcome; it comes back to the same step unless `step` names another."""
    at = checkpoint(claim)
    turn = {"ran": at.step or "start", "version": at.version or 1}
    turn |= {name: values.pop(name) for name in _TURN & set(values)}
    turn = {"step": turn["ran"], **turn}
    if not isinstance(turn.get("state"), str | None):
        turn["state"] = msgspec.json.encode(turn["state"]).decode()
    to = to or GOES_TO[outcome]
    status = "failed" if to == "dead" else "succeeded"
    base = {"id": claim.id, "fence": claim.fence, "status": status, "to": to}
    return Settlement(**{**base, **values}, turn=Turn(outcome=outcome, **turn))


def new_signal(to: str | None, name: str, payload: Any = None, **options: Any) -> NewSignal:
    text = msgspec.json.encode(payload).decode()
    return NewSignal(**{"id": new_id(), "job_id": to, "name": name, "payload": text, **options})


def checkpoint(claim: Claim) -> Checkpoint:
    """Where a claim says that its machine is."""
    return Checkpoint() if claim.checkpoint is None else msgspec.json.decode(claim.checkpoint, type=Checkpoint)


def inbox(claim: Claim) -> list[str]:
    """The names of the signals that a claim brought, in order of arrival."""
    return [signal.name for signal in checkpoint(claim).signals]


def ids_of(claim: Claim, *names: str) -> tuple[str, ...]:
    """The ids of the signals of these names that a claim brought."""
    return tuple(signal.id for signal in checkpoint(claim).signals if signal.name in names)


def received(text: str | None) -> list[str]:
    """The names of the signals in what a settle says of a machine that goes on."""
    return [] if text is None else [each.name for each in msgspec.json.decode(text, type=list[Received])]


def on(claim: Claim) -> Claim:
    """The next execution of a machine that goes on in the same slot."""
    return msgspec.structs.replace(claim, fence=claim.fence + 1)


def changed(before: Any, after: Any) -> dict[str, Any]:
    """The columns that differ, with their new values."""
    return {
        name: getattr(after, name) for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name)
    }


class MachineCalls:
    """The part of `Db` that concerns machines."""

    run: Any
    ops: Any
    home: Any
    take: Any
    job: Any
    enqueue_all: Any
    process_arrivals: Any

    def machine(self, **options: Any) -> str:
        """The id of a new machine."""
        (answer,) = self.enqueue_all([new_machine(**options)])
        assert answer.created
        return answer.id

    def begin(self, worker: str | None = None, **options: Any) -> Claim:
        """Enqueue a machine and claim it; its queue must be empty."""
        job_id = self.machine(**options)
        claim: Claim = self.take(worker, options.get("queue", "default"))
        assert claim.id == job_id
        return claim

    def turn(
        self, claim: Claim, outcome: str, to: str | None = None, worker: str | None = None, **values: Any
    ) -> Settled:
        return self.turn_all([turned(claim, outcome, to, **values)], worker)

    def turn_all(self, settlements: Sequence[Settlement], worker: str | None = None) -> Settled:
        answer: Settled = self.run(self.ops.settle(worker or self.home(), settlements))
        return answer

    def go_on(self, claim: Claim, step: str = "second", **values: Any) -> Claim:
        """A Next that is continued at once; gives the claim of the next execution."""
        answer = self.turn(claim, "next", "running", step=step, **values)
        assert (answer.lost, list(answer.continued)) == ([], [claim.id])
        at = msgspec.structs.replace(checkpoint(claim), step=step, awaiting=(), match="any", joining=None, woken=None)
        return msgspec.structs.replace(on(claim), checkpoint=msgspec.json.encode(at).decode())

    def park(self, claim: Claim, *names: str, **values: Any) -> str:
        """An Await; gives the machine's status after it."""
        assert self.turn(claim, "await", awaiting=names, **values) == QUIET
        return self.job(claim.id).status

    def parked(self, *names: str, **options: Any) -> str:
        """The id of a machine that waits for these."""
        values = {name: options.pop(name) for name in ("match", "deadline_ms") if name in options}
        claim = self.begin(**options)
        assert self.park(claim, *names, **values) == "waiting"
        return claim.id

    def spawn(self, claim: Claim, *children: NewJob, **values: Any) -> tuple[str, ...]:
        """A Spawn; gives the ids of the children."""
        assert self.turn(claim, "spawn", children=children, **values) == QUIET
        return tuple(child.id for child in children)

    def signal(self, to: str | None, name: str, payload: Any = None, **options: Any) -> Sent:
        (answer,) = self.signal_all([new_signal(to, name, payload, **options)])
        return answer

    def signal_all(self, signals: Sequence[NewSignal]) -> list[Sent]:
        answer: list[Sent] = self.run(self.ops.signal(signals))
        return answer

    def fork(self, job: NewJob, *signals: NewSignal, actor: str | None = None) -> Enqueued:
        answer: Enqueued = self.run(self.ops.fork(job, signals, actor=actor))
        return answer

    def signals(self, job_id: str, *, tenant_id: str | None = None) -> list[Signal]:
        answer: list[Signal] = self.run(self.ops.signals(job_id, tenant_id=tenant_id))
        return answer

    def inboxes(self, job_id: str) -> list[tuple[str, str, int | None]]:
        """Its signals in order: name, status, and the execution that consumed it."""
        return [(each.name, each.status, each.fence) for each in self.signals(job_id)]

    def children(self, job_id: str, fence: int | None = None, *, tenant_id: str | None = None) -> list[Child]:
        answer: list[Child] = self.run(self.ops.children(job_id, fence=fence, tenant_id=tenant_id))
        return answer

    def spawned(self, job_id: str, *, tenant_id: str | None = None) -> list[tuple[int, str]]:
        answer = self.run(self.ops.spawned(job_id, tenant_id=tenant_id))
        return [(fence, child) for fence, child in answer]

    def woken(self, job_id: str) -> tuple[str, str | None]:
        """Its status and what woke it, once everything that arrived was let go."""
        self.process_arrivals()
        job: Job = self.job(job_id)
        return job.status, job.woken
