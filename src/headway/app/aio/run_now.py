"""Generated from app/run_now.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from headway.app.aio.enqueue import AsyncEnqueueVerbs
from headway.app.reservation import EXPIRES, BlockingReserved, reservation_of
from headway.app.run_now import RunNowVerbs, finished_before, refused
from headway.define.kind import Kind
from headway.define.machine import Machine
from headway.errors import HeadwayError
from headway.model.duration import Duration
from headway.model.job import NewJob, Outcome


class AsyncRunNowVerbs(RunNowVerbs, AsyncEnqueueVerbs):
    """The async twins of the verbs of `RunNowVerbs`."""

    async def arun_now(
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
        await self._aensure_known(self._own_tenant, options.get("tenant"))
        job = self._checked(kind, payload, options)
        inside = reservation_of(self._whole_store, job.queue)
        if inside is not None:
            return await self._aexecute(job, inside)
        async with self._reserved(job, expires, timeout) as reserved:
            return await self._aexecute(job, reserved)

    async def _aexecute(self, job: NewJob, reserved: BlockingReserved) -> Outcome:
        batch, _ = await self._aidentified([job], None, None)
        batch, written = await self._aspilled(batch, None)
        (job,) = batch
        (enqueued,) = await self._store.arun(self._enqueue(batch, None, written))
        if not enqueued.created:
            return await self._awith_value(await self._arun(self._outcome(finished_before(enqueued))))
        if enqueued.status == "queued":
            worker = self._single_job_worker(job, reserved.id)
            try:
                await self._aperform(worker)
            except BaseException:
                if not worker.taken:
                    with suppress(HeadwayError):
                        await self._arun(self._give_up(job))
                raise
            if worker.taken:
                return await self._awith_value(await self._arun(self._outcome(job.id)))
        raise refused(job, await self._arun(self._give_up(job)))
