"""Why a queue starts nothing, or not this job: paused, reserved, full, no worker that can run it, others first."""

from __future__ import annotations

from collections.abc import Sequence

from headway.app.why import machines
from headway.app.why.words import at
from headway.model.fleet import Queue
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Attempt, Job
from headway.shell import command

_COUNTED = 10_000  # the store counts no further


def queue_obstacles(job: Job, queue: Queue | None, attempts: Sequence[Attempt], *, tenant_id: str | None) -> list[str]:
    """What keeps its queue from starting it; `tenant_id` is that of a reader who sees one tenant only."""
    if queue is None:
        return [_nobody_listens(job)]
    reasons = [*_paused(queue), *_reserved(queue), *full(queue), *_unknown_to_workers(job, queue, attempts)]
    if tenant_id is not None and queue.max_running is not None:
        reasons.append(f"queue {queue.name} runs at most {queue.max_running:,} jobs at once, other tenants' included")
    return reasons


def full(queue: Queue) -> list[str]:
    """That as many of its jobs run as may, if that is so."""
    running = queue.counts.get("running", 0)
    if queue.max_running is None or running < queue.max_running:
        return []
    return [
        f"queue {queue.name} is at its limit, {running:,} of {queue.max_running:,} jobs run now: "
        + command("queues set", queue.name, max_running="N")
    ]


def place_in_queue(job: Job, queue: Queue | None, ahead: int, of_others: int | None) -> str:
    """How many jobs of its tenant come before it, and how other tenants matter; of_others: how many of their jobs are
    before it, or None if the reader sees one tenant only."""
    running = queue.counts.get("running", 0) if queue else 0
    fair = queue is None or queue.fair
    shared = ""
    if of_others is None and job.tenant_id != DEFAULT_TENANT_ID:
        shared = ", in turn with other tenants" if fair else ", after what other tenants have before it"
    elif of_others and fair:
        shared = f": tenants take turns, so the {_jobs(of_others)} of others before it do not hold it up"
    elif of_others:
        ahead = min(ahead + of_others, _COUNTED)
    if not ahead:
        of_tenant = f" of tenant {job.tenant}" if of_others and fair else ""
        return f"it is next{of_tenant} in queue {job.queue}; {running:,} of its jobs run now{shared}"
    comes = "comes" if ahead == 1 else "come"
    return f"{_jobs(ahead)} of queue {job.queue} {comes} before it, {running:,} run now{shared}"


def _jobs(count: int) -> str:
    return f"at least {_COUNTED:,} jobs" if count >= _COUNTED else "1 job" if count == 1 else f"{count:,} jobs"


def _paused(queue: Queue) -> list[str]:
    if not queue.paused:
        return []
    by = f" by {queue.paused_by}" if queue.paused_by else ""
    return [f"queue {queue.name} was paused{by} at {at(queue.paused_at)}: {command('queues resume', queue.name)}"]


def _reserved(queue: Queue) -> list[str]:
    if queue.reserved_by is None:
        return []
    return [
        f"queue {queue.name} is reserved by {queue.reserved_by} until {at(queue.reserved_until)}, unless it is "
        "renewed: its jobs start again when the reservation is released, or has expired after its process ended"
    ]


def _unknown_to_workers(job: Job, queue: Queue, attempts: Sequence[Attempt]) -> list[str]:
    if queue.workers == 0:
        return [_nobody_listens(job)]
    if job.kind not in queue.kinds:
        known = ", ".join(kind for kind in queue.kinds if "@" not in kind) or "nothing"
        return [
            f"no worker on queue {job.queue} knows kind {job.kind}: start one whose app defines it "
            f"(known there: {known})"
        ]
    return machines.unknown_to_workers(job, queue, attempts) if job.status in ("queued", "scheduled") else []


def _nobody_listens(job: Job) -> str:
    return f"no worker listens to queue {job.queue}: start one with {_worker(job.queue)}"


def _worker(queue: str) -> str:
    return command("worker module:app", queues=queue)
