"""What order and exclusion put in a job's way, with the way out: trains, other jobs, limits, reservations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from headway.model.duration import show_ms
from headway.model.fleet import Queue
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Filter, Job
from headway.model.limit import EVERY_TENANT, Limit, Scope, concurrency_key, partition_key, rate_key, tenant_key
from headway.model.rate import show_rate
from headway.model.status import Status
from headway.model.train import Hold, Train
from headway.store.ops import Ops, Steps

_SHOWN = 5
_LOOKED_AT = 1_000
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def holders(ops: Ops, job: Job) -> Steps[list[str]]:
    """Why a held job is held."""
    reasons: list[str] = []
    if job.pending:
        awaited = yield from ops.awaited(job.id, tenant_id=job.tenant_id).steps()
        reasons.append(_awaits(awaited, job))
    if job.train is None:
        return reasons or ["it is held, and nothing holds it: a worker's next tick lets it go"]
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


def limiter(ops: Ops, job: Job, key: str, *, tenant_id: str | None = None) -> Steps[str]:
    """What the limit of this key means for a queued job; a tenant hears no number of others' jobs."""
    usage = yield from ops.usage(key, tenant_id=tenant_id).steps()
    limits = yield from ops.limits().steps()
    set_for = {(limit.scope, limit.name): limit for limit in limits}
    wait = f"; {_many(usage.waiting)} {'waits' if usage.waiting == 1 else 'wait'} for that"
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
                f"limited: {_most(job, 'k', set_for)} jobs of kind {job.kind} run at once, those of others too; "
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


def _full_key(ops: Ops, job: Job) -> Steps[str | None]:
    """The first limit that has no room for the job, in the order in which claims look."""
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
    # how many starts a rate leaves is not to be seen: it must be that, where there is one
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


def in_the_way(ops: Ops, job: Job, *, tenant_id: str | None) -> Steps[str]:
    """Why a job cannot be taken now by somebody who has its queue reserved."""
    if job.status == "held":
        return (yield from holders(ops, job))[0]
    if job.status != "queued":
        return f"it is {job.status} already"
    key = job.limited_by or (yield from _full_key(ops, job))
    if key is not None:
        return (yield from limiter(ops, job, key, tenant_id=tenant_id))
    queues = yield from ops.queues(tenant_id=tenant_id).steps()
    full = [reason for queue in queues if queue.name == job.queue for reason in _full(queue)]
    return full[0] if full else "somebody else has the queue now, or was there first: try again"


def queue_obstacles(job: Job, queue: Queue | None) -> list[str]:
    """Why its queue gives nothing now."""
    if queue is None:
        return []
    reasons = _full(queue)
    if queue.reserved_by is not None:
        reasons.insert(
            0,
            f"queue {job.queue} is reserved by {queue.reserved_by} until {_at(queue.reserved_until)}, unless it is "
            "renewed: it goes on when that is given back, or has expired after the end of its process",
        )
    return reasons


def _full(queue: Queue) -> list[str]:
    running = queue.counts.get("running", 0)
    if queue.max_running is None or running < queue.max_running:
        return []
    return [
        f"queue {queue.name} is at its limit, {running:,} of {queue.max_running:,} jobs run now: "
        f"headway queues set {queue.name} --max-running N"
    ]


def _awaits(awaited: list[tuple[str, Status | None]], job: Job) -> str:
    of = f" (it is of group {job.group_id}: headway groups show {job.group_id})" if job.group_id else ""
    if not awaited:
        return f"the jobs that it waited for are over: a worker's next claim or tick lets it go{of}"
    shown = ", ".join(f"{id_} ({status or 'gone'})" for id_, status in awaited[:_SHOWN])
    more = f" and {len(awaited) - _SHOWN:,} more" if len(awaited) > _SHOWN else ""
    first = next((id_ for id_, status in awaited if status is not None), awaited[0][0])
    return (
        f"it waits for {_many(len(awaited))}: {shown}{more}{of}: headway jobs why {first}, "
        f"or headway jobs cancel {job.id}"
    )


def _on_hold(job: Job, hold: Hold, status: Status | None) -> str:
    name, flag = job.train, _flag(job)
    ways = f"headway trains resume {name}{flag}"
    if hold.job_id is not None:
        because = f"because job {hold.job_id} is {status}" if status else hold.reason or f"because of job {hold.job_id}"
        if status in ("dead", "canceled", "failed"):
            ways += f" goes on without it, headway jobs retry {hold.job_id} with it"
    else:
        by = f" by {hold.actor}" if hold.actor else ""
        because = f"put there{by}" + (f" ({hold.reason})" if hold.reason else "")
    return f"train {name} is on hold since {_at(hold.since)} {because}: {ways}"


def _place(job: Job, train: Train | None, ahead: int, before: str | None, status: Status | None) -> str:
    name, flag = job.train, _flag(job)
    if not ahead:
        return f"it is the next of train {name}: a worker's next claim lets it go"
    place = f"after at least {ahead:,} others" if ahead >= 10_000 else _ordinal(ahead + 1)
    behind = ""
    if before is not None:
        waits = train is not None and train.head_id == before and train.head_pending
        how = " (which waits for other jobs)" if waits else f" ({status})" if status else ""
        behind = f" behind job {before}{how}"
    return (
        f"held{behind}, {place} in train {name}: headway trains show {name}{flag}; to let it go before others, "
        f"headway jobs move {job.id} --first"
    )


def _rate(job: Job, limit: Limit | None, wait: str) -> str:
    by_operator = job.rate_key is None and limit is not None and limit.rate_count is not None
    policy: Job | Limit = limit if by_operator and limit is not None else job
    count, period_ms = policy.rate_count, policy.rate_period_ms
    of = f"kind {job.kind}" + ("" if job.rate_key is None else f" with key {job.rate_key}")
    if count is None or period_ms is None:
        return f"the rate of {of} was used up{wait}: it starts at a worker's next tick"
    # a limit of the kind does not reach its keys
    way_out = "rate= of the kind" if job.rate_key is not None else f"headway limits set --kind {job.kind} --rate N/min"
    if policy.rate_burst is None:
        when = f"the next may start {show_ms(period_ms)} after the oldest start of that time"
    else:
        when = f"a start becomes possible every {show_ms(period_ms / count)}"
    return f"rate {show_rate(count, period_ms)} of {of} is used up{wait}: {when}, in order; {way_out} changes that"


def _busy_with(ops: Ops, job: Job) -> Steps[str]:
    """The job that has the partition, where it is among the latest that run."""
    where = Filter(tenant_id=job.tenant_id, status="running")
    running = yield from ops.find(where, limit=_LOOKED_AT, before_id=None).steps()
    busy = next((each for each in running if each.partition == job.partition), None)
    return "" if busy is None else f" with job {busy.id}"


def _status_of(ops: Ops, job_id: str | None) -> Steps[Status | None]:
    if job_id is None:
        return None
    found = yield from ops.results([job_id], tenant_id=None).steps()
    return found[job_id].status if job_id in found else None


def _flag(job: Job) -> str:
    """What a train's command needs where it is not the default tenant's."""
    return "" if job.tenant_id == DEFAULT_TENANT_ID else f" --tenant {job.tenant}"


def _ordinal(number: int) -> str:
    if number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    last = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{last}"


def _many(count: int) -> str:
    return "1 job" if count == 1 else "10,000 jobs or more" if count >= 10_000 else f"{count:,} jobs"


def _at(moment: datetime | None) -> str:
    return moment.isoformat(timespec="seconds") if moment else "an unknown time"
