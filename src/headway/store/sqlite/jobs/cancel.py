"""Cancel: what waits ends at once, what runs is asked to stop; audited."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.status import FINISHED, Status
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.flows.tell import ask_flows
from headway.store.sqlite.jobs.audit import record_all, record_matching
from headway.store.sqlite.jobs.early_end import end_now
from headway.store.sqlite.order.follow import follow
from headway.store.sqlite.order.leaving_jobs import leaving_jobs

_SQL = statements("jobs/cancel")


class CancelVerbs(Verbs):
    def cancel(
        self,
        ids: Sequence[str],
        *,
        tenant_id: str | None,
        reason: str | None,
        actor: str | None,
        matching: str | None = None,
        at_once: bool = False,
    ) -> Op[dict[str, Status]]:
        def steps() -> Steps[dict[str, Status]]:
            now = self._clock.now()
            named = {"tenant_id": tenant_id, "reason": reason, "actor": actor, "matching": matching}
            return (yield from cancel_jobs(ids, now, **named, at_once=at_once))

        return SqliteOp(steps, writes=True)


def cancel_jobs(
    ids: Sequence[str],
    now: int,
    *,
    tenant_id: str | None,
    reason: str | None,
    actor: str | None,
    matching: str | None = None,
    at_once: bool = False,
) -> Steps[dict[str, Status]]:
    """Cancel the unfinished ones; gives the status of each job that exists. A flow that has begun is asked, unless it
    was asked before, or with `at_once`."""
    rows = yield Statement(_SQL["known"], (json_list(ids), tenant_id))
    statuses: dict[str, Status] = {job_id: status for _, job_id, status, _ in rows}
    unfinished = [(rowid, job_id, tenant) for rowid, job_id, status, tenant in rows if status not in FINISHED]
    if not unfinished:
        return statuses
    leaving = yield from leaving_jobs(rowid for rowid, _, _ in unfinished)
    asked = [] if at_once else [job for job in leaving.values() if job.flow == 1]
    ended = yield from end_now([job for job in leaving.values() if job not in asked], reason, now)
    ended += yield from ask_flows([job.id for job in asked], reason, now)
    if matching is None or len(unfinished) == 1:
        yield record_all([(now, tenant, job_id, actor, "cancel", reason) for _, job_id, tenant in unfinished])
    else:
        yield record_matching(now, [tenant for *_, tenant in unfinished], actor, "cancel", matching, reason)
    yield from follow(ended, now=now)
    if asked:
        rows = yield Statement(_SQL["known"], (json_list([job.id for job in asked]), tenant_id))
        statuses |= {job_id: status for _, job_id, status, _ in rows}
    return statuses | {left.job.id: left.to for left in ended}
