"""Fork: a new flow whose journal begins as another one's."""

from __future__ import annotations

from collections.abc import Mapping

from headway.model.job import Enqueued, NewJob
from headway.store.ops import Op, Statement, Steps
from headway.store.postgres.jobs.enqueue import enqueue_one

_COPY = "select headway.copy_journal($1::uuid, $2::uuid, $3::integer, $4::integer[], $5::json[])"


class FlowForkVerbs:
    def fork_flow(
        self, job: NewJob, source_id: str, before_seq: int, results: Mapping[int, str], *, actor: str | None
    ) -> Op[Enqueued]:
        def steps() -> Steps[Enqueued]:
            ((job_id, status, created, _),) = yield enqueue_one(job, alone=False)
            if created:
                yield Statement(_COPY, [job_id, source_id, before_seq, list(results), list(results.values())])
                yield Statement("select headway.forked($1::uuid, $2)", [job_id, actor])
            return Enqueued(str(job_id), status, created)

        return Op(steps, writes=True, refusable=True, atomic=True)
