"""The verbs of machines: signals, their inbox, children, history, and forks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from headway.app.base import then
from headway.app.flows import FlowVerbs
from headway.define import checks
from headway.define.machine import MachineKind
from headway.define.signals import signal_to
from headway.errors import InvalidJob, NotAllowed
from headway.model.codec import check_batch, encode
from headway.model.ids import as_id, new_id
from headway.model.job import Enqueued, Job, NewJob
from headway.model.journal import FLOW
from headway.model.machine import Child, StepCount, StepExecution, forked, history
from headway.model.request import Request
from headway.model.signal import NewSignal, Sent, Signal, is_internal
from headway.store.ops import Op, Steps

_MOST_LOOKED_AT = 10_000
_COPIED = (
    *("tenant_id", "kind", "priority", "delivery", "correlation_id", "trace_id", "on_canceled", "on_dead", "tags"),
    *("max_attempts", "max_losses", "backoff_base_ms", "backoff_cap_ms", "timeout_ms"),
    *("concurrency", "concurrency_key", "rate_count", "rate_period_ms", "rate_burst", "rate_key"),
    *("template_id", "template_revision", "trigger_id"),
)


class MachineVerbs(FlowVerbs):
    """Name a machine by its job's id; `Checkout.signal(unique_key, …)` names one by its unique key."""

    def signal(
        self,
        job_id: str | UUID,
        name: str,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        conn: Any = None,
    ) -> Sent:
        """Put a signal into a machine's inbox; returns its `id`, and `created`: False if its dedup_key is known.

        It is durable when this returns; with `conn=`, exactly if that connection's transaction commits. It may come
        before the machine awaits it. Raises `NotFound`, `NotAllowed` (it has ended, or is not a machine),
        `InvalidJob`, `InvalidPayload`.
        """
        return self.signal_new(self.build_signal(job_id, name, payload, dedup_key=dedup_key), conn)

    def signal_many(
        self, signals: Iterable[NewSignal], *, conn: Any = None, request: Request | None = None
    ) -> list[Sent]:
        """Send what `app.build_signal(…)` and `Checkout.build_signal(…)` made: one transaction, all or none. A
        `request` that was done before raises `Replayed`."""
        signals = list(signals)
        if refs := {each.tenant for each in signals if each.tenant is not None and not self._tenants.get(each.tenant)}:
            self._look_up(refs, create=False)
        if self._tracing is None:
            return self._store_signals(signals, conn, request)
        with self._tracing.sending("signal", None, signals) as traced:
            return self._store_signals(traced, conn, request)

    def _store_signals(self, signals: list[NewSignal], conn: Any, request: Request | None) -> list[Sent]:
        op = self._once(request, self._signaling(signals))
        sent = self._run(op) if conn is None else self._store.run_in(conn, op)
        self._wake_for(sent, conn)
        return sent

    def build_signal(
        self, job_id: str | UUID, name: str, payload: Any = None, *, dedup_key: str | None = None
    ) -> NewSignal:
        """What `signal` would send, for `signal_many`."""
        return signal_to(job_id, name, payload, dedup_key=dedup_key, limit=self.payload_limit)

    def signal_new(self, signal: NewSignal, conn: Any) -> Sent:
        return self.signal_many((signal,), conn=conn)[0]

    def signals(self, job_id: str | UUID, *, internal: bool = False, raw: bool = False) -> list[Signal]:
        """The signals of a machine or flow in order of arrival: pending, consumed, or undelivered; raises `NotFound`.
        With `internal` also those, named $…, by which the engine tells a flow of a cancel or of the end of a job."""
        return self._read(self._signals(job_id, internal, raw), raw=raw)

    def children(self, job_id: str | UUID, *, fence: int | None = None, raw: bool = False) -> list[Child]:
        """The jobs that a machine spawned: at that fence, or by the Spawn that it waits for; those that a flow called:
        in the execution of that fence, or all. Raises `NotFound`."""
        return self._read(self._children(job_id, fence, raw), raw=True)

    def history(self, job_id: str | UUID, *, raw: bool = False) -> list[StepExecution]:
        """A machine's executions in order: step, outcome, state, signals and children of each; raises `NotFound`."""
        return self._read(self._history(job_id, raw), raw=raw)

    def step_counts(self) -> list[StepCount]:
        """How many unfinished machines stand at each step, by kind and step: of at most 10,000 jobs of each status."""
        return self._run(
            then(
                self._store.ops.unfinished_steps(tenant_id=self._visible_tenant, most=_MOST_LOOKED_AT),
                lambda counts: [each for each in counts if each.step != FLOW],
            )
        )

    def fork(
        self,
        job_id: str | UUID,
        at: int | None = None,
        state: Any = None,
        *,
        step: str | None = None,
        before: str | int | None = None,
        results: Mapping[str, Any] | None = None,
        actor: str | None = None,
        conn: Any = None,
        request: Request | None = None,
    ) -> Enqueued:
        """Start a new machine from a step of another: the step that execution `at` (a fence; default: the last) ran,
        with the state it began with, or with `state`. It sees the signals and children that the step saw. With another
        `step` it begins there instead, and sees neither. The other machine is not affected.

        Of a flow, start a new one that goes on `before` an operation of it: its place, the number of a row as
        `app.journal` shows it, or "last-failure". What was recorded before holds for the new one, too, but for the
        `results` that are given here, by place: `results={"charge": "ch_7"}`. It gets the other's arguments; jobs that
        the other has called and that are not over are called again.

        Raises `NotFound`, `NotAllowed` (a plain job), `InvalidJob`; a `request` that was done before raises `Replayed`.
        """
        forking = self._fork(job_id, at, state, step, before, results, actor)
        enqueued, queue = self._run(self._creating_once(request, forking, lambda made: made[0].id), conn)
        self._wake_up(queue, conn)
        return enqueued

    # as ops

    def _signaling(self, signals: Iterable[NewSignal]) -> Op[list[Sent]]:
        addressed = [self._addressed(signal) for signal in signals]
        check_batch((signal.payload for signal in addressed), "signals")
        return self._store.ops.signal(addressed)

    def _addressed(self, signal: NewSignal) -> NewSignal:
        if not isinstance(signal, NewSignal):
            raise InvalidJob(f"signal_many takes what build_signal(…) gives, not {type(signal).__name__}")
        if signal.tenant is not None and self._is_for_one_tenant and signal.tenant != self._own_tenant:
            raise NotAllowed(f"this app acts for tenant {self._own_tenant} only, not for {signal.tenant}")
        if signal.tenant_id:
            return signal
        if signal.tenant is not None:
            return msgspec.structs.replace(signal, tenant_id=self._id_of(signal.tenant))
        # an id names its tenant by itself, a unique key does not
        own = self._visible_tenant if signal.job_id is not None else self._id_of(self._own_tenant)
        return msgspec.structs.replace(signal, tenant_id=own)

    def _wake_for(self, sent: Sequence[Sent], conn: Any) -> None:
        for queue in {each.queue for each in sent}:
            self._wake_up(queue, conn)

    def _signals(self, job_id: str | UUID, internal: bool, raw: bool) -> Op[list[Signal]]:
        def steps() -> Steps[list[Signal]]:
            job = yield from self._get(job_id).steps()
            found = yield from self._store.ops.signals(job.id, tenant_id=self._visible_tenant, raw=raw).steps()
            return found if internal else [each for each in found if not is_internal(each.name)]

        return Op(steps, writes=False)

    def _children(self, job_id: str | UUID, fence: int | None, raw: bool) -> Op[list[Child]]:
        ops, tenant_id = self._store.ops, self._visible_tenant

        def steps() -> Steps[list[Child]]:
            job = yield from self._get(job_id).steps()
            if job.step == FLOW:
                return (yield from self._called(job.id, fence, raw))
            return (yield from ops.children(job.id, fence=fence, tenant_id=tenant_id, raw=raw).steps())

        return Op(steps, writes=False)

    def _history(self, job_id: str | UUID, raw: bool) -> Op[list[StepExecution]]:
        ops = self._store.ops

        def steps() -> Steps[list[StepExecution]]:
            job = yield from self._get(job_id).steps()
            attempts = yield from ops.attempts(job.id, tenant_id=self._visible_tenant, raw=raw).steps()
            signals = yield from ops.signals(job.id, tenant_id=self._visible_tenant, raw=raw).steps()
            spawned = yield from ops.spawned(job.id, tenant_id=self._visible_tenant).steps()
            return history(attempts, [each for each in signals if not is_internal(each.name)], spawned)

        return Op(steps, writes=False)

    def _fork(
        self,
        job_id: str | UUID,
        at: int | None,
        state: Any,
        step: str | None,
        before: str | int | None,
        results: Mapping[str, Any] | None,
        actor: str | None,
    ) -> Op[tuple[Enqueued, str]]:
        key = as_id(job_id)
        if step is not None:
            checks.name(step, "step")
        if at is not None and (isinstance(at, bool) or not isinstance(at, int)):
            raise InvalidJob(f"at={at!r} is no fence: give the number of an execution, as app.history(id) shows it")
        ops, write = self._store.ops, partial(encode, limit=self.payload_limit, what="state")
        given = None if state is None else write(state)

        def steps() -> Steps[tuple[Enqueued, str]]:
            # raw: what it copies stays as it is, numbers of any length included
            job = yield from self._get(key, raw=True).steps()
            if job.step == FLOW:
                if at is not None or step is not None or state is not None:
                    raise InvalidJob(
                        f"job {key} is a flow: at, step and state are of machines; say before which operation it goes "
                        "on, before=…, and give results={place: value} to change what was recorded"
                    )
                copy = self._copy(job, "fork of {}")
                return (yield from self._fork_flow(job, copy, before, results, actor)), copy.queue
            if before is not None or results is not None:
                raise NotAllowed(
                    f"job {key} is not a flow: before and results are of flows; a machine is forked at an execution, "
                    "at=FENCE"
                )
            attempts = yield from ops.attempts(key, tenant_id=self._visible_tenant, raw=True).steps()
            signals = yield from ops.signals(key, tenant_id=self._visible_tenant, raw=True).steps()
            if job.step is None:
                raise NotAllowed(f"job {key} is a plain job, not a machine: app.retry(…) runs it again")
            if not attempts:
                raise NotAllowed(f"job {key} has not run yet: there is no step to fork from; enqueue another one")
            fence = attempts[-1].fence if at is None else at
            began = yield from ops.began(key, tenant_id=self._visible_tenant).steps()
            checkpoint, seen = forked(job, attempts, signals, began, at=fence, state=given, step=step, encode=write)
            new = self._copy(job, f"fork of {{}} at {fence}")
            kind = self._registry.get(job.kind)
            if isinstance(kind, MachineKind):
                kind.check_step(checkpoint.version, step)
                kind.check_state(checkpoint.version, given)
                begins_with = bytes(checkpoint.state).decode() if checkpoint.state else new.payload
                new = kind.starting_at(new, checkpoint, begins_with)
            else:
                new = msgspec.structs.replace(new, checkpoint=checkpoint)
            copies = [
                NewSignal(
                    id=new_id(),
                    job_id=new.id,
                    name=each.name,
                    payload=write(each.payload),
                    dedup_key=each.dedup_key,
                    created_by=each.created_by,
                )
                for each in seen
            ]
            enqueued = yield from ops.fork(new, copies, actor=actor).steps()
            return enqueued, new.queue

        return Op(steps, writes=True, atomic=True)

    def _copy(self, job: Job, source: str) -> NewJob:
        """A job like that one, without what only one job can have: its keys, its train, its group."""
        return NewJob(
            id=new_id(),
            tenant=job.tenant,
            queue=job.home_queue or job.queue,
            partition=job.home_partition if job.home_queue else job.partition,
            payload=encode(job.payload, limit=self.payload_limit),
            meta=None if job.meta is None else encode(job.meta, limit=self.payload_limit, what="meta"),
            source_ref=source.format(job.id),
            **{name: getattr(job, name) for name in _COPIED},
        )
