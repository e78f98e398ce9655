"""Forget: rows of a flow's journal are taken back; audited."""

from __future__ import annotations

from headway.model import refusals
from headway.model.departure import Departure
from headway.model.journal import FLOW
from headway.model.status import FINISHED, enters
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs
from headway.store.sqlite.flows.journal import lines, take_back
from headway.store.sqlite.jobs.audit import record
from headway.store.sqlite.jobs.positions import positions
from headway.store.sqlite.jobs.unique import holder_of_key, supersede
from headway.store.sqlite.machines.wake import Waiting, wake
from headway.store.sqlite.order.follow import follow
from headway.store.sqlite.order.leaving_jobs import leaving_jobs

_SQL = statements("flows/forget")


class ForgetVerbs(Verbs):
    def forget(self, job_id: str, from_seq: int, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        def steps() -> Steps[bool]:
            now = self._clock.now()
            rows = yield Statement(_SQL["flow"], (job_id, tenant_id))
            if not rows:
                return False
            rowid, tenant, kind, step, status, fence, position, key, scope = rows[0]
            if step != FLOW:
                raise refusals.not_a_flow(job_id, kind)
            if status == "running" or status in FINISHED:
                raise refusals.flow_not_set_aside(job_id, status)
            yield from take_back(job_id, fence, from_seq, (yield from lines(job_id)), now)
            yield record(now, tenant, job_id, actor, "accept", f"from {from_seq}")
            ended: list[Departure] = []
            if status == "waiting":
                ended = yield from wake([Waiting(rowid, job_id, key, scope)], "signal", now)
            elif status == "scheduled":
                asks = key is not None and enters(scope, status, "queued")
                holder = (yield from holder_of_key(rowid)) if asks else None
                if holder is not None:
                    leaving = yield from leaving_jobs([rowid])
                    yield from supersede(rowid, key, holder, now)
                    ended = [Departure(leaving[rowid], "canceled")]
                else:
                    place = position if position is not None else (yield from positions(1))[0]
                    yield Statement(_SQL["queue"], (rowid, now, place))
            if ended:
                yield from follow(ended, now=now)
            return True

        return SqliteOp(steps, writes=True, repeatable=False)
