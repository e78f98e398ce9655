"""What a machine waits for: signals, children, time, or a worker that knows its version and step."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.app.why import flows
from headway.app.why.words import at, elapsed, first_line, left_until
from headway.model.duration import show_ms
from headway.model.fleet import Queue
from headway.model.job import Attempt, Job
from headway.model.journal import FLOW
from headway.model.machine import START
from headway.model.signal import satisfied
from headway.model.status import FINISHED
from headway.shell import command
from headway.store.ops import Ops, Steps

_SHOWN = 5


def waiting(ops: Ops, job: Job, attempts: Sequence[Attempt], now: datetime) -> Steps[list[str]]:
    """Why a waiting machine waits."""
    ended = attempts[-1].finished_at if attempts else None
    since = "" if ended is None else f" since {at(ended)} ({elapsed(ended, now)})"
    if job.awaiting:
        return (yield from _for_signals(ops, job, since, now))
    children = yield from ops.children(job.id, fence=None, tenant_id=job.tenant_id).steps()
    left = [child for child in children if child.status not in FINISHED]
    if not left:
        return [f"its children have ended: a worker's next claim or round queues step {job.step}"]
    shown = ", ".join(f"{child.id} ({child.kind}, {child.status})" for child in left[:_SHOWN])
    more = f" and {len(left) - _SHOWN:,} more" if len(left) > _SHOWN else ""
    of = f"{len(left):,} of {len(children):,} children" if len(children) > 1 else "its child"
    return [
        f"it waits for {of}{since}, then step {job.step} runs: {shown}{more}: {command('jobs why', left[0].id)}, "
        f"or {command('jobs list', parent=job.id)}"
    ]


def _for_signals(ops: Ops, job: Job, since: str, now: datetime) -> Steps[list[str]]:
    signals = yield from ops.signals(job.id, tenant_id=job.tenant_id).steps()
    pending = [signal.name for signal in signals if signal.status == "pending"]
    there = [name for name in job.awaiting if name in pending]
    missing = [name for name in job.awaiting if name not in pending]
    word = " and " if job.match == "all" else " or "
    reasons: list[str] = []
    if satisfied(job.awaiting, job.match, pending):
        reasons.append(
            f"what it waits for has arrived ({', '.join(there)}): a worker's next claim or round queues step {job.step}"
        )
    else:
        got = f" ({', '.join(there)} has arrived)" if there else ""
        noun = "signal" if len(job.awaiting) == 1 or job.match == "any" else "signals"
        reasons.append(
            f"it waits for {noun} {word.join(job.awaiting)}{got}{since}{_until(job, now)}, then step {job.step} runs: "
            + command("machines signal", job.id, missing[0])
        )
    others = list(dict.fromkeys(name for name in pending if name not in job.awaiting))
    if others:
        named = ", ".join(others[:_SHOWN]) + (", …" if len(others) > _SHOWN else "")
        reasons.append(
            f"its inbox has signals that it does not await now ({named}); they stay for a later await: "
            + command("machines inbox", job.id)
        )
    return reasons


def _until(job: Job, now: datetime) -> str:
    if job.deadline_at is None:
        return ", without a timeout"
    left = left_until(job.deadline_at, now)
    due = f"in {show_ms(left)}" if left > 0 else "over: a worker's next round wakes it"
    return f", until {at(job.deadline_at)} ({due})"


def sleeping(job: Job, attempts: Sequence[Attempt], now: datetime) -> str | None:
    """Why a scheduled machine is scheduled; None if its last execution did not ask for it."""
    last = attempts[-1] if attempts else None
    if last is None or job.scheduled_for is None or last.outcome not in ("sleep", "replay"):
        return None
    left = left_until(job.scheduled_for, now)
    due = f"in {show_ms(left)}" if left > 0 else "due now: a worker's next round queues it"
    when = f"{at(job.scheduled_for)} ({due})"
    way = f"{command('jobs change', job.id, scheduled_for='now')} runs it at once"
    if last.outcome == "sleep":
        return f"it sleeps until {when}, then step {job.step} runs: {way}"
    failed = f" after {first_line(last.error)}" if last.error else ""
    return f"step {job.step} runs again at {when}{failed}: {way}"


def ended(job: Job, attempts: Sequence[Attempt], died: str) -> list[str]:
    """How a machine ended (`died`, unless it stopped itself), and how to go on."""
    stopped = bool(attempts) and attempts[-1].outcome == "stop"
    return [
        f"it stopped itself in step {job.step} at {at(job.finished_at)}: {first_line(job.error)}" if stopped else died,
        f"to run step {job.step} again: {command('jobs retry', job.id)}",
        f"to start another machine from an earlier step: {command('machines fork', job.id, at='FENCE')} "
        f"({command('machines show', job.id)})",
    ]


def unknown_to_workers(job: Job, queue: Queue, attempts: Sequence[Attempt]) -> list[str]:
    """That the workers on its queue know its kind, but cannot run its version, its step or its payload."""
    versions = sorted(
        int(version)
        for kind, at, version in (known.partition("@") for known in queue.kinds)
        if kind == job.kind and at and version.isdigit()
    )
    returned = max(0, job.fence - (attempts[-1].fence if attempts else 0))
    if job.step is None and returned:
        return [
            f"workers gave it back unstarted {_times(returned)}: they cannot read its payload, because another release "
            "of the code enqueued it; their log names the parameter"
        ]
    if job.step == FLOW:
        return flows.unknown_to_workers(job, versions)
    if job.version is None or not versions:
        return []
    if job.version in versions:
        return (
            []
            if not returned
            else [
                f"workers gave it back unstarted {_times(returned)}: they do not know step "
                f'"{job.step or START}" of version {job.version} of machine {job.kind}, or their State does not fit '
                "what the machine committed; their log says which. Start one whose code has it"
            ]
        )
    known = ", ".join(map(str, versions))
    none = f"no worker on queue {job.queue} has version {job.version} of machine {job.kind}"
    if versions[-1] > job.version and not returned:
        return [f"{none}, but {known}: it runs if that one migrates it (migrate_from)"]
    return [f"{none} (known there: {known}): start one whose app has it, or give a newer version a migrate_from"]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
