"""Why `run_now` could not take a job although it had the queue reserved."""

from __future__ import annotations

from headway.app.why.limits import full_key, limiter
from headway.app.why.order import holders
from headway.app.why.queue import full
from headway.model.job import Job
from headway.store.ops import Ops, Steps


def in_the_way(ops: Ops, job: Job, *, tenant_id: str | None) -> Steps[str]:
    """Why the holder of its queue's reservation cannot claim this job now."""
    if job.status == "held":
        return (yield from holders(ops, job))[0]
    if job.status != "queued":
        return f"it is {job.status} already"
    key = job.limited_by or (yield from full_key(ops, job))
    if key is not None:
        return (yield from limiter(ops, job, key, tenant_id=tenant_id))
    queues = yield from ops.queues(tenant_id=tenant_id).steps()
    reasons = [reason for queue in queues if queue.name == job.queue for reason in full(queue)]
    return reasons[0] if reasons else "somebody else holds the queue now, or was first: try again"
