"""run_now: executes a job in this process, under a reservation of its queue, and records it like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from headway.app.aio.reservation import Reserved
from headway.app.enqueue import EnqueueVerbs
from headway.app.reservation import EXPIRES, BlockingReserved, reservation_of
from headway.app.why.run_now import in_the_way
from headway.define.kind import Kind
from headway.define.machine import Machine
from headway.errors import ConfigError, Duplicate, HeadwayError, InvalidJob, NotAllowed
from headway.model.duration import Duration
from headway.model.job import Enqueued, NewJob, Outcome
from headway.model.status import FINISHED
from headway.store.ops import Op, Steps
from headway.worker import SingleJobWorker

_ACTOR = "run_now"


class RunNowVerbs(EnqueueVerbs):
    """Runs a job in this process, now."""

    def run_now(
        self,
        kind: str | Kind[..., Any] | type[Machine] | NewJob,
        payload: Mapping[str, Any] | None = None,
        *,
        expires: Duration = EXPIRES,
        timeout: Duration | None = None,
        **options: Any,
    ) -> Outcome:
        """Enqueue a job and execute it in this process, ahead of all others in its queue; returns how it ended.

        It reserves the job's queue (`expires`, and `timeout` to wait for it, as in `reserve`), unless the caller has
        reserved it. The job is stored, leased, timed and settled as by any worker: if this try fails, its policy
        lets ordinary workers try again, and the outcome has status "scheduled" and the error. Options are those of
        `using()`, except `timeout`: the job's own is its kind's. Raises `ReservationBusy`, and `NotAllowed` for a job
        that may not run now (held in a train, over a limit), which is then canceled.
        """
        refuse_in_event_loop()
        job = self._checked(kind, payload, options)
        inside = reservation_of(self._whole_store, job.queue)
        if inside is not None:
            return self._execute(job, inside)
        with self._reserved(job, expires, timeout) as reserved:
            return self._execute(job, reserved)

    def _single_job_worker(self, job: NewJob, reservation_id: str) -> SingleJobWorker:
        """A worker that runs this job only."""
        raise NotImplementedError

    # as ops

    def _checked(
        self, kind: str | Kind[..., Any] | type[Machine] | NewJob, payload: Mapping[str, Any] | None, options: Any
    ) -> NewJob:
        conn = options.get("conn")
        if isinstance(kind, type) and issubclass(kind, Machine):
            kind = kind.kind()
        if isinstance(kind, Kind):
            kind = kind.using(**options)
            conn = kind.options.conn
            job = kind.build_from({} if payload is None else payload)
        else:
            job = self._built(kind, payload, options)
        if conn is not None:
            raise InvalidJob("run_now takes no conn: what has run cannot be undone with a transaction")
        if job.delay_ms or job.scheduled_for is not None:
            raise InvalidJob("run_now runs a job now: give no delay and no scheduled_for, or enqueue it")
        if job.group_id is not None:
            raise InvalidJob("run_now takes no group: if it could not run now, its end would end the group; enqueue it")
        self._registry[job.kind]  # raises UnknownKind: nobody here could run it
        return self._for_own_tenant(job)

    def _reserved(self, job: NewJob, expires: Duration, timeout: Duration | None) -> Reserved:
        return Reserved(
            self._whole_store,
            self._wake,
            job.queue,
            expires=expires,
            timeout=timeout,
            drain=False,
            holder=None,
            discreet=self._is_for_one_tenant,
        )

    def _execute(self, job: NewJob, reserved: BlockingReserved) -> Outcome:
        batch, _ = self._identified([job], None, None)
        batch, written = self._spilled(batch, None)
        (job,) = batch
        (enqueued,) = self._store.run(self._enqueue(batch, None, written))
        if not enqueued.created:
            return self._with_value(self._run(self._outcome(finished_before(enqueued))))
        if enqueued.status == "queued":
            worker = self._single_job_worker(job, reserved.id)
            try:
                self._perform(worker)
            except BaseException:
                if not worker.taken:
                    with suppress(HeadwayError):
                        self._run(self._give_up(job))
                raise
            if worker.taken:
                return self._with_value(self._run(self._outcome(job.id)))
        raise refused(job, self._run(self._give_up(job)))

    def _perform(self, worker: SingleJobWorker) -> None:
        async def perform() -> None:
            try:
                await worker.run(until_idle=True)
            finally:
                await worker.leave_loop()  # this loop ends here: close what was opened on it

        with asyncio.Runner() as runner:
            runner.run(perform())

    async def _aperform(self, worker: SingleJobWorker) -> None:
        await worker.run(until_idle=True)

    def _outcome(self, job_id: str) -> Op[Outcome]:
        def steps() -> Steps[Outcome]:
            job = yield from self._get(job_id).steps()
            if job.status != "succeeded":
                return Outcome(job.status, job.result, job.error)
            return (yield from self._store.ops.results([job_id], tenant_id=self._visible_tenant).steps())[job_id]

        return Op(steps, writes=False)

    def _give_up(self, job: NewJob) -> Op[str]:
        """Cancel a job that may not run now; returns why it may not."""
        ops = self._store.ops

        def steps() -> Steps[str]:
            found = yield from self._get(job.id).steps()
            reason = yield from in_the_way(ops, found, tenant_id=self._visible_tenant)
            # canceling a car may put its train on hold; skipping it never does
            if job.train is not None:
                yield from ops.skip(job.id, tenant_id=self._visible_tenant, actor=_ACTOR).steps()
            else:
                canceled = "it could not run at once"
                yield from ops.cancel([job.id], tenant_id=self._visible_tenant, reason=canceled, actor=_ACTOR).steps()
            return reason

        return Op(steps, writes=True)


def finished_before(enqueued: Enqueued) -> str:
    """The id of the existing job; raises `Duplicate` if it has not ended."""
    if enqueued.status not in FINISHED:
        raise Duplicate(
            f"job {enqueued.id} of the same key is {enqueued.status} already, so nothing was enqueued: "
            "wait for it with app.result(…)",
            enqueued.id,
        )
    return enqueued.id


def refused(job: NewJob, because: str) -> NotAllowed:
    return NotAllowed(f"job {job.id} of kind {job.kind} cannot run now, and was canceled again: {because}")


def refuse_in_event_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigError("this thread already runs an event loop: use `await app.arun_now(…)` there")
