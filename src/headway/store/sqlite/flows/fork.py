"""Fork: a new flow whose journal begins as another one's."""

from __future__ import annotations

from collections.abc import Mapping

from headway.model.job import Enqueued, NewJob
from headway.model.journal import ANSWERS
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.flows.journal import lines, that_count
from headway.store.sqlite.jobs.audit import record
from headway.store.sqlite.jobs.enqueue import enqueue_for_machines
from headway.store.sqlite.jobs.insert import present

_SQL = statements("flows/fork")
_COPIED = ANSWERS | {"due"}


class FlowForkVerbs(Verbs):
    def fork_flow(
        self, job: NewJob, source_id: str, before_seq: int, results: Mapping[int, str], *, actor: str | None
    ) -> Op[Enqueued]:
        def steps() -> Steps[Enqueued]:
            now = self._clock.now()
            known = yield from present([job.id])
            (answer,) = yield from enqueue_for_machines([job], now, {})
            if answer.id != job.id or known:
                return answer
            counted = that_count((yield from lines(source_id)))
            seqs = [line.seq for line in counted if 0 <= line.seq < before_seq and line.kind in _COPIED]
            yield Statement(
                _SQL["copy"], (job.id, source_id, job.tenant_id, json_list(seqs), json_list(list(results.items())))
            )
            origin = None if job.checkpoint is None else job.checkpoint.forked_from
            yield Statement(_SQL["began"], (job.id,))
            yield record(now, job.tenant_id, job.id, actor, "fork", origin)
            return answer

        return SqliteOp(steps, writes=True)
