"""Why a queued job is limited: a partition, a concurrency, a rate, or what operators set."""

from __future__ import annotations

from headway.app.why.words import jobs
from headway.model.bucket import Rate
from headway.model.capacity import Limits, rate_key_of
from headway.model.duration import show_ms
from headway.model.job import Job
from headway.model.listing import Filter
from headway.model.rate import show_rate
from headway.shell import command
from headway.store.ops import Ops, Steps

_LOOKED_AT = 1_000  # of the running jobs, the newest


def limiter(ops: Ops, job: Job, key: str, *, tenant_id: str | None = None) -> Steps[str]:
    """What the limit of this key means for a queued job; tenants are not told how many jobs others have."""
    usage = yield from ops.usage(key, tenant_id=tenant_id).steps()
    limits = Limits.of((yield from ops.limits().steps()))
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
                f"limited: {limits.most_of_kind(job)} jobs of kind {job.kind} run at once, other tenants' included; "
                f"{usage.running:,} of tenant {job.tenant} run now{wait}: it runs when one has ended"
            )
        case "k":
            return (
                f"limited: {usage.running:,} of {limits.most_of_kind(job)} jobs of kind {job.kind} run now{wait}: "
                + command("limits set", kind=job.kind, max_running="N")
            )
        case "t":
            tenants = yield from ops.list_tenants(limit=1, only=job.tenant_id).steps()
            if tenants and tenants[0].suspended_at is not None:
                return f"tenant {job.tenant} is suspended: it runs after {command('tenants resume', job.tenant)}"
            return (
                f"limited: {usage.running:,} of {limits.most_of_tenant(job)} jobs of tenant {job.tenant} run now{wait}"
                f": {command('limits set', tenant=job.tenant, max_running='N')}"
            )
        case "r":
            return _rate(job, limits.rate(job), wait)
    return f"limited: it waits for room under {key}{wait}: headway limits list"


def full_key(ops: Ops, job: Job) -> Steps[str | None]:
    """The first limit without room for the job, in the order in which claims check them."""
    limits = Limits.of((yield from ops.limits().steps()))
    for key, most in limits.counted(job):
        if (yield from ops.usage(key).steps()).running >= most:
            return key
    # how many starts a rate still allows is not stored where this can see it: if there is a rate, that must be it
    return None if limits.rate(job) is None else rate_key_of(job)


def _rate(job: Job, rate: Rate | None, wait: str) -> str:
    of = f"kind {job.kind}" + ("" if job.rate_key is None else f" with key {job.rate_key}")
    if rate is None:
        return f"the rate of {of} was used up{wait}: it starts at a worker's next round"
    period_ms = rate.period_us // 1000
    # a kind's limit does not apply to its keys
    way_out = "rate= of the kind" if job.rate_key is not None else command("limits set", kind=job.kind, rate="N/min")
    if rate.burst is None:
        when = f"the next may start {show_ms(period_ms)} after the oldest start of that time"
    else:
        when = f"a start becomes possible every {show_ms(period_ms / rate.count)}"
    return f"rate {show_rate(rate.count, period_ms)} of {of} is used up{wait}: {when}, in order; {way_out} changes that"


def _busy_with(ops: Ops, job: Job) -> Steps[str]:
    """The job that occupies the partition, if it is among the latest that run."""
    where = Filter(tenant_id=job.tenant_id, status="running")
    running = yield from ops.find(where, limit=_LOOKED_AT).steps()
    busy = next((each for each in running if each.partition == job.partition), None)
    return "" if busy is None else f" with job {busy.id}"
