"""Fork: a machine begins where another one was."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.model.job import Enqueued, NewJob
from headway.model.signal import NewSignal
from headway.store.ops import Op, Statement, Steps
from headway.store.postgres.jobs.enqueue import enqueue_one
from headway.store.postgres.machines.signals import send


class ForkVerbs:
    def fork(self, job: NewJob, signals: Sequence[NewSignal], *, actor: str | None) -> Op[Enqueued]:
        def steps() -> Steps[Enqueued]:
            ((job_id, status, created, _),) = yield enqueue_one(job, alone=False)
            if created:
                if signals:
                    yield send([msgspec.structs.replace(signal, job_id=job_id) for signal in signals])
                joined = None if job.checkpoint is None else job.checkpoint.joined
                yield Statement("select headway.forked($1::uuid, $2, $3::uuid)", [job_id, actor, joined])
            return Enqueued(str(job_id), status, created)

        return Op(steps, writes=True, refusable=True, atomic=True)
