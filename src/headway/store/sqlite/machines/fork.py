"""Fork: a new machine begins where another was, with copies of some of its signals."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.job import Enqueued, NewJob
from headway.model.signal import NewSignal
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs
from headway.store.sqlite.jobs.audit import record
from headway.store.sqlite.jobs.enqueue import enqueue_for_machines
from headway.store.sqlite.jobs.insert import present
from headway.store.sqlite.machines.signals import put_signals, signal_row

_SQL = statements("machines/fork")


class ForkVerbs(Verbs):
    def fork(self, job: NewJob, signals: Sequence[NewSignal], *, actor: str | None) -> Op[Enqueued]:
        def steps() -> Steps[Enqueued]:
            now = self._clock.now()
            known = yield from present([job.id])
            (answer,) = yield from enqueue_for_machines([job], now, {})
            if answer.id != job.id or known:
                return answer
            if signals:
                yield put_signals([signal_row(signal, job.id, job.tenant_id, now) for signal in signals])
                yield Statement(_SQL["mark"], (job.id,))
            origin = None if job.checkpoint is None else job.checkpoint.forked_from
            yield Statement(_SQL["began"], (job.id, None if job.checkpoint is None else job.checkpoint.joined))
            yield record(now, job.tenant_id, job.id, actor, "fork", origin)
            return answer

        return SqliteOp(steps, writes=True)
