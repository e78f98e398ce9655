"""Answers "why is this job not running?" from what is stored: reasons in order of weight, each with the way out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from headway.app.why import machines
from headway.app.why.limits import limiter
from headway.app.why.order import holders
from headway.app.why.queue import queue_obstacles
from headway.app.why.words import at, first_line, left_until
from headway.model.duration import show_ms
from headway.model.fleet import Queue, Worker
from headway.model.job import Attempt, Job
from headway.model.status import Status
from headway.store.ops import Op, Ops, Steps


class Why(msgspec.Struct, frozen=True):
    """A job's status and the reasons for it, the weightiest first."""

    job_id: str
    status: Status
    reasons: list[str]

    def __str__(self) -> str:
        return "\n".join([f"job {self.job_id} is {self.status}", *(f"- {reason}" for reason in self.reasons)])


def why(ops: Ops, job_id: str, *, tenant_id: str | None) -> Op[Why | None]:
    """The reasons, or None if there is no such job."""

    def steps() -> Steps[Why | None]:
        jobs = yield from ops.get([job_id], tenant_id=tenant_id).steps()
        if not jobs:
            return None
        job = jobs[0]
        queues = yield from ops.queues(tenant_id=tenant_id).steps()
        now = yield from ops.now().steps()
        queue = next((known for known in queues if known.name == job.queue), None)
        attempts: list[Attempt] = []
        if job.step is not None or (job.fence and job.status in ("queued", "scheduled")):
            attempts = yield from ops.attempts(job.id, tenant_id=job.tenant_id).steps()
        obstacles = _waiting(job, queue, attempts)
        if tenant_id is not None and queue is not None and queue.max_running is not None:
            obstacles.append(f"queue {queue.name} runs at most {queue.max_running:,} jobs at once, those of others too")
        if job.status == "held":
            reasons = yield from holders(ops, job)
            return Why(job.id, job.status, [*reasons, *_later(job, now), *obstacles])
        if job.status == "waiting":
            reasons = yield from machines.parked(ops, job, attempts, now)
            return Why(job.id, job.status, [*reasons, *obstacles])
        if job.status == "queued" and job.limited_by is not None:
            reason = yield from limiter(ops, job, job.limited_by, tenant_id=tenant_id)
            return Why(job.id, job.status, [reason, *obstacles])
        if job.status == "running":
            workers = yield from ops.workers().steps()
            worker = next((each for each in workers if each.id == job.worker_id), None)
            return Why(job.id, job.status, [*_silent(job, worker, now), *_reasons(job, queue, 0, now, attempts, [])])
        ahead = 0
        if job.status == "queued":
            ahead = yield from ops.ahead(job.id, tenant_id=tenant_id).steps()
        return Why(job.id, job.status, _reasons(job, queue, ahead, now, attempts, obstacles))

    return Op(steps, writes=False)


def _reasons(
    job: Job, queue: Queue | None, ahead: int, now: datetime, attempts: Sequence[Attempt], obstacles: Sequence[str]
) -> list[str]:
    match job.status:
        case "queued":
            return [*obstacles, _place(job, queue, ahead)]
        case "scheduled":
            assert job.scheduled_for is not None
            asleep = machines.asleep(job, attempts, now)
            if asleep is not None:
                return [asleep, *obstacles]
            left = left_until(job.scheduled_for, now)
            due = f"in {show_ms(left)}" if left > 0 else "due now: a worker's next tick queues it"
            again = f" after {_failures(job)}: {first_line(job.error)}" if job.error and job.fence else ""
            keeps = f"; train {job.train} waits for it" if job.train is not None else ""
            return [
                f"it is scheduled for {job.scheduled_for.isoformat()} ({due}){again}{keeps}",
                *obstacles,
            ]
        case "running":
            assert job.attempt_started_at is not None
            since = show_ms((now - job.attempt_started_at).total_seconds() * 1_000)
            asked = ["it was asked to cancel; its handler has not ended yet"] if job.cancel_requested_at else []
            progress = f", {job.progress:.0%} done" if job.progress is not None else ""
            note = f" ({job.progress_note})" if job.progress_note else ""
            what = "it" if job.step is None else f"step {job.step}"
            return [*asked, f"{what} has been running for {since} on worker {job.worker_id}{progress}{note}"]
        case "succeeded":
            return [f"it succeeded at {at(job.finished_at)}"]
        case "dead":
            died = f"it is dead since {at(job.finished_at)} after {_failures(job)}: {first_line(job.error)}"
            if job.step is None:
                return [died, f"to run it again: headway jobs retry {job.id}"]
            return machines.ended(job, attempts, died)
        case "failed" if attempts and attempts[-1].outcome == "stop":
            return machines.ended(job, attempts, "")
        case "failed":
            return [
                f"it failed at {at(job.finished_at)}: {first_line(job.error)}",
                "it is at_most_once, so a new job retries it: headway jobs list --retry-of " + job.id,
            ]
        case "canceled":
            return [
                f"it was canceled at {at(job.finished_at)}: {first_line(job.error)}",
                f"to run it again: headway jobs retry {job.id}",
            ]
        case _:
            return [f"it is {job.status}"]


def _silent(job: Job, worker: Worker | None, now: datetime) -> list[str]:
    """That nothing is heard of the worker that runs it."""
    if worker is None:
        return [
            f"its worker {job.worker_id} is not registered any more: a live worker's sweep takes the job over; "
            "if none is running, start one"
        ]
    host = f"its worker on {worker.hostname} (pid {worker.pid})"
    silent = show_ms((now - worker.heartbeat_at).total_seconds() * 1_000)
    left = (worker.lease_expires_at - now).total_seconds() * 1_000
    if left <= 0:
        return [
            f"{host} has been silent for {silent} and its lease is over: a live worker takes the job over in its next "
            "round; if none is running, start one"
        ]
    lease_ms = left + (now - worker.heartbeat_at).total_seconds() * 1_000
    if left < lease_ms / 2:
        return [f"{host} has been silent for {silent}: if it stays so, its lease ends in {show_ms(left)}"]
    return []


def _later(job: Job, now: datetime) -> list[str]:
    """That a held job would not run yet either."""
    if job.scheduled_for is None or job.scheduled_for <= now:
        return []
    left = left_until(job.scheduled_for, now)
    return [f"once it is let go, it is scheduled for {job.scheduled_for.isoformat()} (in {show_ms(left)})"]


def _waiting(job: Job, queue: Queue | None, attempts: Sequence[Attempt]) -> list[str]:
    reasons: list[str] = []
    if queue is not None and queue.paused:
        by = f" by {queue.paused_by}" if queue.paused_by else ""
        reasons.append(
            f"queue {job.queue} is paused since {at(queue.paused_at)}{by}: headway queues resume {job.queue}"
        )
    reasons += queue_obstacles(job, queue)
    if queue is None or queue.workers == 0:
        reasons.append(
            f"no worker listens to queue {job.queue}: start one with headway worker module:app --queues {job.queue}"
        )
    elif job.kind not in queue.kinds:
        reasons.append(
            f"no worker on queue {job.queue} knows kind {job.kind}: start one whose app defines it "
            f"(known there: {', '.join(kind for kind in queue.kinds if '@' not in kind) or 'nothing'})"
        )
    elif job.status in ("queued", "scheduled"):
        reasons += machines.unknown(job, queue, attempts)
    return reasons


def _place(job: Job, queue: Queue | None, ahead: int) -> str:
    many = "at least 10,000 jobs" if ahead >= 10_000 else "1 job" if ahead == 1 else f"{ahead:,} jobs"
    comes = "comes" if ahead == 1 else "come"
    running = queue.counts.get("running", 0) if queue else 0
    turns = " (its tenants are taken in turn)" if queue is not None and queue.fair else ""
    return (
        f"{many} of queue {job.queue} {comes} before it, {running:,} run now{turns}"
        if ahead
        else (f"it is next in queue {job.queue}; {running:,} of its jobs run now{turns}")
    )


def _failures(job: Job) -> str:
    parts = []
    if job.tries:
        # a machine's are those of its step, which may have a budget of its own
        parts.append(f"{job.tries} of {job.max_attempts} tries" if job.step is None else _failed(job.tries))
    if job.losses:
        parts.append(f"{job.losses} of {job.max_losses} losses")
    of = "" if job.step is None else f" of step {job.step}"
    return (" and ".join(parts) or "no try") + of


def _failed(tries: int) -> str:
    return "1 failed try" if tries == 1 else f"{tries} failed tries"
