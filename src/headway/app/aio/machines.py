"""Generated from app/machines.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from headway.app.aio.flows import AsyncFlowVerbs
from headway.app.base import then
from headway.app.machines import _MOST_LOOKED_AT, MachineVerbs
from headway.model.job import Enqueued
from headway.model.journal import FLOW
from headway.model.machine import Child, StepCount, StepExecution
from headway.model.request import Request
from headway.model.signal import NewSignal, Sent, Signal


class AsyncMachineVerbs(MachineVerbs, AsyncFlowVerbs):
    """The async twins of the verbs of `MachineVerbs`."""

    async def asignal(
        self, job_id: str | UUID, name: str, payload: Any = None, *, dedup_key: str | None = None, conn: Any = None
    ) -> Sent:
        """Put a signal into a machine's inbox; returns its `id`, and `created`: False if its dedup_key is known.

        It is durable when this returns; with `conn=`, exactly if that connection's transaction commits. It may come
        before the machine awaits it. Raises `NotFound`, `NotAllowed` (it has ended, or is not a machine),
        `InvalidJob`, `InvalidPayload`.
        """
        await self._aensure_known(self._own_tenant)
        return await self.asignal_new(self.build_signal(job_id, name, payload, dedup_key=dedup_key), conn)

    async def asignal_many(
        self, signals: Iterable[NewSignal], *, conn: Any = None, request: Request | None = None
    ) -> list[Sent]:
        """Send what `app.build_signal(…)` and `Checkout.build_signal(…)` made: one transaction, all or none. A
        `request` that was done before raises `Replayed`."""
        await self._aensure_known(self._own_tenant)
        signals = list(signals)
        if refs := {
            each.tenant for each in signals if each.tenant is not None and (not self._tenants.get(each.tenant))
        }:
            await self._alook_up(refs, create=False)
        if self._tracing is None:
            return await self._astore_signals(signals, conn, request)
        with self._tracing.sending("signal", None, signals) as traced:
            return await self._astore_signals(traced, conn, request)

    async def _astore_signals(self, signals: list[NewSignal], conn: Any, request: Request | None) -> list[Sent]:
        op = self._once(request, self._signaling(signals))
        sent = await self._arun(op) if conn is None else await self._store.arun_in(conn, op)
        self._wake_for(sent, conn)
        return sent

    async def asignal_new(self, signal: NewSignal, conn: Any) -> Sent:
        await self._aensure_known(self._own_tenant)
        return (await self.asignal_many((signal,), conn=conn))[0]

    async def asignals(self, job_id: str | UUID, *, internal: bool = False, raw: bool = False) -> list[Signal]:
        """The signals of a machine or flow in order of arrival: pending, consumed, or undelivered; raises `NotFound`.
        With `internal` also those, named $…, by which the engine tells a flow of a cancel or of the end of a job."""
        await self._aensure_known(self._own_tenant)
        return await self._aread(self._signals(job_id, internal, raw), raw=raw)

    async def achildren(self, job_id: str | UUID, *, fence: int | None = None, raw: bool = False) -> list[Child]:
        """The jobs that a machine spawned: at that fence, or by the Spawn that it waits for; those that a flow called:
        in the execution of that fence, or all. Raises `NotFound`."""
        await self._aensure_known(self._own_tenant)
        return await self._aread(self._children(job_id, fence, raw), raw=True)

    async def ahistory(self, job_id: str | UUID, *, raw: bool = False) -> list[StepExecution]:
        """A machine's executions in order: step, outcome, state, signals and children of each; raises `NotFound`."""
        await self._aensure_known(self._own_tenant)
        return await self._aread(self._history(job_id, raw), raw=raw)

    async def astep_counts(self) -> list[StepCount]:
        """How many unfinished machines stand at each step, by kind and step: of at most 10,000 jobs of each status."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(
            then(
                self._store.ops.unfinished_steps(tenant_id=self._visible_tenant, most=_MOST_LOOKED_AT),
                lambda counts: [each for each in counts if each.step != FLOW],
            )
        )

    async def afork(
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
        await self._aensure_known(self._own_tenant)
        forking = self._fork(job_id, at, state, step, before, results, actor)
        enqueued, queue = await self._arun(self._creating_once(request, forking, lambda made: made[0].id), conn)
        self._wake_up(queue, conn)
        return enqueued
