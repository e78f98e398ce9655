"""Answers "why is this job not running?" from what is stored: the main reason first, each with what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from headway.app.why import flows, machines
from headway.app.why.limits import limiter
from headway.app.why.order import holders
from headway.app.why.queue import place_in_queue, queue_obstacles
from headway.app.why.running import running
from headway.app.why.words import at, first_line, left_until
from headway.model.duration import show_ms
from headway.model.fleet import Queue
from headway.model.ids import is_id
from headway.model.job import Attempt, Job
from headway.model.journal import FLOW
from headway.model.overview import MOST_COUNTED
from headway.model.spill import PAYLOAD_NAME
from headway.model.status import Status
from headway.shell import command
from headway.store.ops import Op, Ops, Steps


class Why(msgspec.Struct, frozen=True):
    """A job's status and the reasons for it, the main one first."""

    job_id: str
    status: Status
    reasons: list[str]
    tags: tuple[str, ...] = ()

    def __str__(self) -> str:
        tagged = f" (tags: {', '.join(self.tags)})" if self.tags else ""
        return "\n".join([f"job {self.job_id} is {self.status}{tagged}", *(f"- {reason}" for reason in self.reasons)])


def why(ops: Ops, job_id: str, *, tenant_id: str | None) -> Op[Why | None]:
    """The reasons, or None if there is no such job."""

    def steps() -> Steps[Why | None]:
        jobs = yield from ops.get([job_id], tenant_id=tenant_id).steps()
        if not jobs:
            return None
        job = jobs[0]
        queues = yield from ops.queues(tenant_id=tenant_id, most=MOST_COUNTED, names=[job.queue]).steps()
        now = yield from ops.now().steps()
        queue = queues[0] if queues else None
        if queue is not None and tenant_id is None:
            # a worker over HTTP takes the jobs of its own tenant only
            mine = yield from ops.queues(tenant_id=job.tenant_id, most=0, names=[job.queue]).steps()
            heard = mine[0] if mine else msgspec.structs.replace(queue, workers=0, kinds=())
            queue = msgspec.structs.replace(queue, workers=heard.workers, kinds=heard.kinds)
        attempts: list[Attempt] = []
        if job.step is not None or (job.fence and job.status in ("queued", "scheduled")):
            attempts = yield from ops.attempts(job.id, tenant_id=job.tenant_id).steps()
        reasons = yield from _reasons(ops, job, queue, attempts, now, tenant_id)
        if job.status in ("queued", "scheduled"):
            reasons += yield from _payload_elsewhere(ops, job, tenant_id)
        return Why(job.id, job.status, reasons, job.tags)

    return Op(steps, writes=False)


def _reasons(
    ops: Ops, job: Job, queue: Queue | None, attempts: Sequence[Attempt], now: datetime, tenant_id: str | None
) -> Steps[list[str]]:
    obstacles = queue_obstacles(job, queue, attempts, tenant_id=tenant_id)
    match job.status:
        case "held":
            held = yield from holders(ops, job)
            return [*held, *_scheduled_later(job, now), *obstacles]
        case "waiting" if job.step == FLOW:
            return [*(yield from flows.waiting(ops, job, attempts, now)), *obstacles]
        case "waiting":
            return [*(yield from machines.waiting(ops, job, attempts, now)), *obstacles]
        case "queued" if job.limited_by is not None:
            return [(yield from limiter(ops, job, job.limited_by, tenant_id=tenant_id)), *obstacles]
        case "queued":
            ahead = yield from ops.ahead(job.id, tenant_id=job.tenant_id).steps()
            of_others = None
            if tenant_id is None:
                of_others = (yield from ops.ahead(job.id).steps()) - ahead
            return [*obstacles, place_in_queue(job, queue, ahead, of_others)]
        case "scheduled":
            aside = flows.set_aside(job, attempts, now) if job.step == FLOW else []
            return [*(aside or [_scheduled(job, attempts, now)]), *obstacles]
        case "running":
            workers = yield from ops.workers().steps()
            worker = next((each for each in workers if each.id == job.worker_id), None)
            committed = yield from ops.committed(job.id, job.fence).steps()
            undone = (yield from flows.undoing(ops, job)) if job.step == FLOW else []
            return [*undone, *running(job, worker, committed, now)]
    until = (yield from ops.window(job.id).steps()) if job.unique_key is not None else None
    return [*_ended(job, attempts), *_window(job, until)]


def _payload_elsewhere(ops: Ops, job: Job, tenant_id: str | None) -> Steps[list[str]]:
    """Where a payload that spilled is, if that is one host's folder: workers without it leave no other trace."""
    match job.payload:
        case {"$artifact": str(artifact_id)} if is_id(artifact_id):
            found = yield from ops.artifact(artifact_id, tenant_id=job.tenant_id).steps()
        case _:
            return []
    if found is None or found.name != PAYLOAD_NAME or not found.store.startswith("folder:"):
        return []
    # a tenant is not told the names of hosts and folders
    where = found.store.partition("@")[2] if tenant_id is None else "a folder"
    return [f"its payload is in {where}: a worker whose setting artifacts is another place gives it back each time"]


def _window(job: Job, until: datetime | None) -> list[str]:
    """A job that is over still has its key: enqueues are answered with it."""
    if until is None:
        return []
    return [f'its unique key "{job.unique_key}" is taken until {at(until)}, for enqueues with unique_for']


def _scheduled(job: Job, attempts: Sequence[Attempt], now: datetime) -> str:
    assert job.scheduled_for is not None
    sleeping = machines.sleeping(job, attempts, now)
    if sleeping is not None:
        return sleeping
    left = left_until(job.scheduled_for, now)
    due = f"in {show_ms(left)}" if left > 0 else "due now: a worker's next round queues it"
    again = f" after {_failures(job)}: {first_line(job.error)}" if job.error and job.fence else ""
    keeps = f"; train {job.train} waits for it" if job.train is not None else ""
    return f"it is scheduled for {job.scheduled_for.isoformat()} ({due}){again}{keeps}"


def _scheduled_later(job: Job, now: datetime) -> list[str]:
    """A held job that could not run yet even if nothing held it."""
    if job.scheduled_for is None or job.scheduled_for <= now:
        return []
    left = show_ms(left_until(job.scheduled_for, now))
    return [f"once nothing holds it, it is scheduled for {job.scheduled_for.isoformat()} (in {left})"]


def _ended(job: Job, attempts: Sequence[Attempt]) -> list[str]:
    ended, error = at(job.finished_at), first_line(job.error)
    match job.status:
        case "succeeded":
            return [f"it succeeded at {ended}"]
        case "dead":
            died = f"dead since {ended}, after {_failures(job)}: {error}"
            if job.step is None:
                return [died, f"to run it again: {command('jobs retry', job.id)}"]
            return flows.ended(job, died) if job.step == FLOW else machines.ended(job, attempts, died)
        case "failed" if job.step == FLOW:
            return flows.ended(job, "")
        case "failed" if attempts and attempts[-1].outcome == "stop":
            return machines.ended(job, attempts, "")
        case "failed":
            return [
                f"it failed at {ended}: {error}",
                "it is at_most_once, so a new job retries it: headway jobs list --retry-of " + job.id,
            ]
        case "canceled":
            return [f"it was canceled at {ended}: {error}", f"to run it again: {command('jobs retry', job.id)}"]
    return [f"it is {job.status}"]


def _failures(job: Job) -> str:
    parts = []
    if job.tries:
        # a machine's tries are those of its step, which may have a budget of its own
        failed = "1 failed try" if job.tries == 1 else f"{job.tries} failed tries"
        parts.append(f"{job.tries} of {job.max_attempts} tries" if job.step is None else failed)
    if job.losses:
        parts.append(f"{job.losses} of {job.max_losses} losses")
    of = "" if job.step in (None, FLOW) else f" of step {job.step}"
    return (" and ".join(parts) or "no try") + of
