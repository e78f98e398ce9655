"""drain: runs everything that can run, in this process, and returns when nothing is left."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import fields

from headway.app import Headway
from headway.clock import from_micros
from headway.define import MachineKind
from headway.errors import ConfigError, HeadwayError
from headway.model.job import Job
from headway.model.machine import START
from headway.model.status import Status
from headway.testing.clock import HeldTime, clock_of
from headway.worker import Summary

Queues = str | Sequence[str] | Mapping[str, int]

ROUNDS = 1_000
"""How often scheduled work is brought forward before `drain` considers it endless."""
_PATIENCE = 3
_PAGE = 1_000


def drain(
    app: Headway,
    queues: Queues | None = None,
    *,
    with_scheduled: bool = False,
    concurrency: int = 1,
) -> Summary:
    """Run every job that can run now, and the jobs that these enqueue, in this process; gives what happened.

    A real worker runs them, with the app's hooks, middleware and lifespan: a failure is recorded and retried by the
    kind's policy, never raised (`inline` raises). One job at a time, in order, unless `concurrency` says otherwise.
    Without `queues` it serves those of the app's kinds and all others that have jobs.

    `with_scheduled` also runs what is scheduled (delays, retries, snoozes, machines that sleep) until nothing is: in
    order of time, advancing the clock of `held` if there is one; without one each job is changed to be due now. Raises
    `HeadwayError` if that does not end. Jobs that are paused, reserved, on hold or of an unknown kind stay, and so do
    machines that wait for a signal. What waits for its rate, or for a signal with a timeout, stays, too, unless
    `with_scheduled` has a clock to advance.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise ConfigError("this thread already runs an event loop: use `await adrain(app, …)` there")

    async def run() -> Summary:
        try:
            return await adrain(app, queues, with_scheduled=with_scheduled, concurrency=concurrency)
        finally:
            await app.store.leave_loop()  # the event loop ends here, and with it what was opened on it

    # not app.run: on Ctrl-C that would stop in good order, and the test would go on
    with asyncio.Runner() as runner:
        return runner.run(run())


async def adrain(
    app: Headway,
    queues: Queues | None = None,
    *,
    with_scheduled: bool = False,
    concurrency: int = 1,
) -> Summary:
    """The same inside a running event loop; async handlers run on it."""
    summary = Summary()
    chosen = None if queues is None else {queues} if isinstance(queues, str) else set(queues)
    in_vain = 0
    for _ in range(ROUNDS):
        names = sorted(await _all_queues(app)) if queues is None else queues
        done = await app.arun(names, until_idle=True, concurrency=concurrency)
        _add(summary, done)
        # jobs in a queue that is new, or that were promoted just as the worker ended
        in_vain = in_vain + 1 if done == Summary() else 0
        if in_vain < _PATIENCE and await _waits(app, chosen):
            continue
        if not with_scheduled or not await _bring_forward(app, chosen):
            return summary
    raise HeadwayError(
        f"after {ROUNDS:,} rounds jobs are still scheduled: {await _some_scheduled(app)}. "
        "A job that snoozes or enqueues itself again forever cannot be drained with_scheduled: "
        "call clock.advance(…) and drain(app) as often as the test needs it"
    )


async def _all_queues(app: Headway) -> set[str]:
    there = {queue.name for queue in await app.aqueues() if any(queue.counts.values())}
    return {"default", *app.kinds.queues} | there


async def _waits(app: Headway, chosen: set[str] | None) -> bool:
    """Whether something is queued that could run."""
    queues = [queue for queue in await app.aqueues() if chosen is None or queue.name in chosen]
    return any(
        queue.counts.get("queued", 0) > queue.limited and not queue.paused and queue.reserved_by is None
        for queue in queues
    )


async def _bring_forward(app: Headway, chosen: set[str] | None) -> bool:
    """Make the next scheduled job due, and all of the same time; gives whether there was one."""
    paused = {queue.name for queue in await app.aqueues() if queue.paused}

    def can_run(job: Job) -> bool:
        return is_known(app, job) and job.queue not in paused and (chosen is None or job.queue in chosen)

    jobs = [job for job in await _all(app, "scheduled") if can_run(job)]
    clock = clock_of(app)
    if clock is None:
        for job in jobs:
            await app.achange(job.id, scheduled_for=None, actor="headway.testing.drain")
        return bool(jobs)
    times = [job.scheduled_for for job in jobs] + [
        job.deadline_at for job in await _all(app, "waiting") if can_run(job)
    ]
    due = min((time for time in times if time is not None), default=None)
    if due is None:
        return await _bring_rates_forward(app, chosen, paused, clock)
    clock.move_to(max(due, from_micros(app.clock.now())))
    return True


async def _bring_rates_forward(app: Headway, chosen: set[str] | None, paused: set[str], clock: HeldTime) -> bool:
    """Advance to when a job that waits for its rate may start; gives whether there is one."""
    waits = any(
        job.limited_by is not None
        and job.limited_by.startswith("r:")
        and job.kind in app.kinds
        and job.queue not in paused
        and (chosen is None or job.queue in chosen)
        for job in await _all(app, "queued")
    )
    if not waits:
        return False
    promoted = await app.store.arun(app.store.ops.promote(limit=_PAGE))
    if promoted.next_due_ms is None:
        return promoted.queued > 0
    clock.advance((promoted.next_due_ms + 1) / 1_000)
    return True


def is_known(app: Headway, job: Job) -> bool:
    """Whether a worker of this app would run it instead of giving it back."""
    kind = app.kinds.get(job.kind)
    if not isinstance(kind, MachineKind) or job.version is None:
        return kind is not None
    edition = kind.editions.get(job.version)
    if edition is None:
        newest = kind.editions[max(kind.editions)]
        return newest.migrates and job.version < newest.version
    return (job.step or START) in edition.steps


async def _all(app: Headway, status: Status) -> list[Job]:
    jobs: list[Job] = []
    while page := await app.ajobs(status=status, limit=_PAGE, before=jobs[-1].id if jobs else None):
        jobs += page
        if len(page) < _PAGE:
            break
    return jobs


async def _some_scheduled(app: Headway) -> str:
    jobs = await _all(app, "scheduled")
    kinds = ", ".join(sorted({job.kind for job in jobs}))
    return f"{len(jobs)} of kind {kinds}" if jobs else "it came and went"


def _add(summary: Summary, more: Summary) -> None:
    for field in fields(more):
        summary.count(field.name, getattr(more, field.name))
