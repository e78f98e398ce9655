"""Why a queued job is limited: a partition, a concurrency, a rate, or what operators set."""

from __future__ import annotations

from collections.abc import Mapping

from headway.app.why.words import jobs
from headway.model.duration import show_ms
from headway.model.job import Filter, Job
from headway.model.limit import EVERY_TENANT, Limit, Scope, concurrency_key, partition_key, rate_key, tenant_key
from headway.model.rate import show_rate
from headway.store.ops import Ops, Steps

_LOOKED_AT = 1_000  # of the running jobs, the newest


def limiter(ops: Ops, job: Job, key: str, *, tenant_id: str | None = None) -> Steps[str]:
    """What the limit of this key means for a queued job; tenants are not told how many jobs others have."""
    usage = yield from ops.usage(key, tenant_id=tenant_id).steps()
    limits = yield from ops.limits().steps()
    set_for = {(limit.scope, limit.name): limit for limit in limits}
    wait = f"; {jobs(usage.waiting)} {'waits' if usage.waiting == 1 else 'wait'} for that"
    match key.partition(":")[0]:
        case "p":
            busy = yield from _busy_with(ops, job)
            return (
                f"partition {job.partition} is busy{busy}{wait}: it runs when that has ended; to see it, "
                "headway jobs list --status running"
            )
        case "c":
            return (
                f"limited: {usage.running:,} of {job.concurrency} jobs of kind {job.kind} with key "
                f"{job.concurrency_key} run now{wait}: it runs when one has ended (concurrency= of the kind)"
            )
        case "k" if tenant_id is not None:
            return (
                f"limited: {_most(job, 'k', set_for)} jobs of kind {job.kind} run at once, other tenants' included; "
                f"{usage.running:,} of tenant {job.tenant} run now{wait}: it runs when one has ended"
            )
        case "k":
            return (
                f"limited: {usage.running:,} of {_most(job, 'k', set_for)} jobs of kind {job.kind} run now{wait}: "
                f"headway limits set --kind {job.kind} --max-running N"
            )
        case "t":
            return (
                f"limited: {usage.running:,} of {_most(job, 't', set_for)} jobs of tenant {job.tenant} run now{wait}: "
                f"headway limits set --tenant {job.tenant} --max-running N"
            )
        case "r":
            return _rate(job, set_for.get(("kind", job.kind)), wait)
    return f"limited: it waits for room under {key}{wait}: headway limits list"


def full_key(ops: Ops, job: Job) -> Steps[str | None]:
    """The first limit without room for the job, in the order in which claims check them."""
    limits = yield from ops.limits().steps()
    set_for = {(limit.scope, limit.name): limit for limit in limits}
    keys = {"k": concurrency_key(job.tenant_id, job.kind, None), "t": tenant_key(job.tenant_id)}
    if job.concurrency_key is not None:
        keys = {"c": concurrency_key(job.tenant_id, job.kind, job.concurrency_key)} | keys
    if job.partition is not None:
        keys = {"p": partition_key(job.tenant_id, job.partition)} | keys
    for letter, key in keys.items():
        most = _most(job, letter, set_for)
        if most is not None and (yield from ops.usage(key).steps()).running >= most:
            return key
    # how many starts a rate still allows is not stored where this can see it: if there is a rate, that must be it
    limit = set_for.get(("kind", job.kind))
    rated = job.rate_count is not None or (limit is not None and limit.rate_count is not None)
    return rate_key(job.tenant_id, job.kind, job.rate_key) if rated else None


def _most(job: Job, letter: str, set_for: Mapping[tuple[Scope, str], Limit]) -> int | None:
    """How many jobs may run under the job's key of this letter; None: any number."""
    match letter:
        case "p":
            return 1
        case "c":
            return job.concurrency
        case "k":
            limit = set_for.get(("kind", job.kind))
            if limit is not None and limit.max_running is not None:
                return limit.max_running
            return job.concurrency if job.concurrency_key is None else None
    limit = set_for.get(("tenant", job.tenant_id)) or set_for.get(("tenant", EVERY_TENANT))
    return None if limit is None else limit.max_running


def _rate(job: Job, limit: Limit | None, wait: str) -> str:
    by_operator = job.rate_key is None and limit is not None and limit.rate_count is not None
    policy: Job | Limit = limit if by_operator and limit is not None else job
    count, period_ms = policy.rate_count, policy.rate_period_ms
    of = f"kind {job.kind}" + ("" if job.rate_key is None else f" with key {job.rate_key}")
    if count is None or period_ms is None:
        return f"the rate of {of} was used up{wait}: it starts at a worker's next tick"
    # a kind's limit does not apply to its keys
    way_out = "rate= of the kind" if job.rate_key is not None else f"headway limits set --kind {job.kind} --rate N/min"
    if policy.rate_burst is None:
        when = f"the next may start {show_ms(period_ms)} after the oldest start of that time"
    else:
        when = f"a start becomes possible every {show_ms(period_ms / count)}"
    return f"rate {show_rate(count, period_ms)} of {of} is used up{wait}: {when}, in order; {way_out} changes that"


def _busy_with(ops: Ops, job: Job) -> Steps[str]:
    """The job that occupies the partition, if it is among the latest that run."""
    where = Filter(tenant_id=job.tenant_id, status="running")
    running = yield from ops.find(where, limit=_LOOKED_AT, before_id=None).steps()
    busy = next((each for each in running if each.partition == job.partition), None)
    return "" if busy is None else f" with job {busy.id}"
