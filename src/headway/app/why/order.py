"""Why a held job is held: its train, or the jobs that it comes after."""

from __future__ import annotations

from headway.app.why.words import at, jobs, ordinal
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Job
from headway.model.status import Status
from headway.model.train import Hold, Train
from headway.shell import command
from headway.store.ops import Ops, Steps

_SHOWN = 5


def holders(ops: Ops, job: Job) -> Steps[list[str]]:
    """Why a held job is held."""
    reasons: list[str] = []
    if job.pending:
        awaited = yield from ops.awaited(job.id, tenant_id=job.tenant_id).steps()
        reasons.append(_awaits(awaited, job))
    if job.train is None:
        return reasons or ["it is held although nothing holds it: a worker's next round queues it"]
    trains = yield from ops.trains(tenant_id=job.tenant_id, train=job.train, blocked=None, limit=1, after=None).steps()
    ahead, locomotive = yield from ops.train_place(job.id).steps()
    train = trains[0] if trains else None
    if train is not None and train.hold is not None:
        statuses = yield from _status_of(ops, train.hold.job_id)
        reasons.append(_on_hold(job, train.hold, statuses))
    if ahead or not reasons:
        before = locomotive or (train.head_id if train is not None and train.head_id != job.id else None)
        status = yield from _status_of(ops, before)
        reasons.append(_place(job, train, ahead, before, status))
    return reasons


def _awaits(awaited: list[tuple[str, Status | None]], job: Job) -> str:
    of = f" (it is in group {job.group_id}: {command('groups show', job.group_id)})" if job.group_id else ""
    if not awaited:
        return f"the jobs it waited for have ended: a worker's next claim or round queues it{of}"
    shown = ", ".join(f"{id_} ({status or 'gone'})" for id_, status in awaited[:_SHOWN])
    more = f" and {len(awaited) - _SHOWN:,} more" if len(awaited) > _SHOWN else ""
    first = next((id_ for id_, status in awaited if status is not None), awaited[0][0])
    return (
        f"it waits for {jobs(len(awaited))}: {shown}{more}{of}: {command('jobs why', first)}, "
        f"or {command('jobs cancel', job.id)}"
    )


def _on_hold(job: Job, hold: Hold, status: Status | None) -> str:
    name = str(job.train)
    ways = command("trains resume", name, tenant=_tenant(job))
    if hold.job_id is not None:
        because = f"because job {hold.job_id} is {status}" if status else hold.reason or f"because of job {hold.job_id}"
        if status in ("dead", "canceled", "failed"):
            ways += f" goes on without it, {command('jobs retry', hold.job_id)} with it"
    else:
        by = f" by {hold.actor}" if hold.actor else ""
        because = f"put on hold{by}" + (f" ({hold.reason})" if hold.reason else "")
    return f"train {name} has been on hold since {at(hold.since)}, {because}: {ways}"


def _place(job: Job, train: Train | None, ahead: int, before: str | None, status: Status | None) -> str:
    name = str(job.train)
    if not ahead:
        return f"it is the next of train {name}: a worker's next claim queues it"
    place = f"after at least {ahead:,} others" if ahead >= 10_000 else ordinal(ahead + 1)
    behind = ""
    if before is not None:
        waits = train is not None and train.head_id == before and train.head_pending
        how = " (which waits for other jobs)" if waits else f" ({status})" if status else ""
        behind = f" behind job {before}{how}"
    show = command("trains show", name, tenant=_tenant(job))
    return (
        f"held{behind}, {place} in train {name}: {show}; to run it before the others, "
        f"{command('jobs move', job.id, first=True)}"
    )


def _status_of(ops: Ops, job_id: str | None) -> Steps[Status | None]:
    if job_id is None:
        return None
    found = yield from ops.results([job_id], tenant_id=None).steps()
    return found[job_id].status if job_id in found else None


def _tenant(job: Job) -> str | None:
    """The tenant that a train's command names, unless it is the default one."""
    return None if job.tenant_id == DEFAULT_TENANT_ID else job.tenant
