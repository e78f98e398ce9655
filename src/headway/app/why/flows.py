"""What a flow waits for; that its code does not fit what it recorded; that it undoes what it did; and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.app.journal_rows import all_rows
from headway.app.why.words import at, elapsed, first_line, left_until
from headway.model.duration import show_ms
from headway.model.job import Attempt, Job
from headway.model.journal import CANCEL
from headway.model.journal_row import JournalRow, Open, is_set_aside, open_operations, set_aside_between, shown_rows
from headway.model.machine import Child
from headway.model.signal import Signal, is_internal
from headway.shell import command
from headway.store.ops import Ops, Steps

_SHOWN = 5
_GRACE = "its cancel_grace counts from then (5 minutes unless its code says otherwise)"


def waiting(ops: Ops, job: Job, attempts: Sequence[Attempt], now: datetime) -> Steps[list[str]]:
    """Why a waiting flow waits: its cancel first, then each thing that it awaits."""
    rows = yield from all_rows(ops, job.id, tenant_id=job.tenant_id).steps()
    signals = yield from ops.signals(job.id, tenant_id=job.tenant_id).steps()
    shown = shown_rows(rows)
    found = open_operations(shown, attempts[-1].note if attempts else None)
    called = [each.job_id for each in found if each.job_id is not None]
    children = yield from ops.children_of_flow(called).steps()
    ended = attempts[-1].finished_at if attempts else None
    since = "" if ended is None else f" since {at(ended)} ({elapsed(ended, now)})"
    reasons = [
        *_canceled(job, shown, signals),
        *_for_signals(job, found, signals, since, now),
        *_for_jobs(found, children),
        *_for_times(job, found, now),
    ]
    return reasons or [f"it waits{since}{_until(job.deadline_at, now)}: {command('flows show', job.id)}"]


def set_aside(job: Job, attempts: Sequence[Attempt], now: datetime) -> list[str]:
    """That the code does not fit what a scheduled flow has recorded, and the ways out; nothing if it does."""
    error = attempts[-1].error if attempts else None
    if not is_set_aside(error):
        return []
    recorded, asked = set_aside_between(error or "")
    again = ""
    if job.scheduled_for is not None:
        left = left_until(job.scheduled_for, now)
        again = f" at {at(job.scheduled_for)} (in {show_ms(left)})" if left > 0 else " in a worker's next round"
    keeps = f"; train {job.train} waits for it" if job.train is not None else ""
    forgets = f"{recorded} and what was recorded behind it" if recorded else "what does not fit"
    return [
        f"it is set aside: its code does not fit what it has recorded ({asked}); nothing runs{keeps}. It is looked at "
        f"again{again}, at once by {command('jobs retry', job.id)}",
        "two ways out: start a worker whose code fits (as it was, or with if flow.version), or "
        f"{command('flows accept', job.id)}, which forgets {forgets}: these operations run again",
    ]


def undoing(ops: Ops, job: Job) -> Steps[list[str]]:
    """That a running flow was canceled, and may undo what it did."""
    rows = yield from all_rows(ops, job.id, tenant_id=job.tenant_id).steps()
    signals = yield from ops.signals(job.id, tenant_id=job.tenant_id).steps()
    return _canceled(job, shown_rows(rows), signals)


def ended(job: Job, died: str) -> list[str]:
    """How a flow ended (`died`, unless it said so itself), and how to go on."""
    stopped = job.status == "failed"
    goes_on = "to go on behind what it has recorded" if not stopped else "to run it again"
    return [
        f"it ended failed at {at(job.finished_at)}: {first_line(job.error)}" if stopped else died,
        f"{goes_on}: {command('jobs retry', job.id)}",
        f"to start another flow from an earlier operation: {command('flows fork', job.id, before='PLACE')} "
        f"({command('flows show', job.id)})",
    ]


def unknown_to_workers(job: Job, versions: Sequence[int]) -> list[str]:
    """That the workers on its queue know its kind, but no version that could run it."""
    if job.version is None or not versions or versions[0] <= job.version <= versions[-1]:
        return []
    known = ", ".join(map(str, versions))
    return [
        f"no worker on queue {job.queue} runs version {job.version} of flow {job.kind} (known there: {known}): start "
        "one whose code has it, or give a newer version since="
    ]


def _canceled(job: Job, rows: Sequence[JournalRow], signals: Sequence[Signal]) -> list[str]:
    now_way = command("jobs cancel", job.id, now=True)
    told = next((row for row in rows if row.kind == "cancel"), None)
    if told is not None:
        return [f"it was canceled at {at(told.at)}, and may undo what it did: {_GRACE}; {now_way} ends it at once"]
    asked = next((each for each in signals if each.name == CANCEL and each.status == "pending"), None)
    if asked is not None:
        return [f"it was asked to cancel at {at(asked.sent_at)}, and a worker tells it next; {now_way} ends it at once"]
    return []


def _for_signals(job: Job, found: Sequence[Open], signals: Sequence[Signal], since: str, now: datetime) -> list[str]:
    names = [name for name in job.awaiting if not is_internal(name)]
    reasons: list[str] = []
    there = [each.name for each in signals if each.status == "pending" and each.name in names]
    if there:
        return [f"what it waits for has arrived ({', '.join(there)}): a worker's next claim or round wakes it"]
    if names:
        due = min((each.due_at for each in found if each.place.startswith("receive:") and each.due_at), default=None)
        noun = "signal" if len(names) == 1 else "signals"
        reasons.append(
            f"it waits for {noun} {' or '.join(names)}{since}{_until(due, now)}: "
            + command("machines signal", job.id, names[0])
        )
    others = {each.name for each in signals if each.status == "pending" and not is_internal(each.name)}
    if others:
        named = ", ".join(sorted(others)[:_SHOWN]) + (", …" if len(others) > _SHOWN else "")
        reasons.append(
            f"its inbox has signals that it does not wait for now ({named}): {command('machines inbox', job.id)}"
        )
    return reasons


def _for_jobs(found: Sequence[Open], children: dict[str, Child]) -> list[str]:
    calls = [each for each in found if each.job_id is not None]
    if not calls:
        return []
    told = []
    for each in calls[:_SHOWN]:
        child = children.get(each.job_id or "")
        how = "it was deleted" if child is None else f"{child.kind}, {child.status}"
        told.append(f"{each.job_id} ({how})")
    more = f" and {len(calls) - _SHOWN:,} more" if len(calls) > _SHOWN else ""
    noun = "job" if len(calls) == 1 else f"{len(calls):,} jobs"
    first = next((each.job_id for each in calls if each.job_id in children), calls[0].job_id)
    return [f"it waits for {noun} that it called: {', '.join(told)}{more}: {command('jobs why', first or '')}"]


def _for_times(job: Job, found: Sequence[Open], now: datetime) -> list[str]:
    reasons: list[str] = []
    for each in found:
        if each.tries:
            failed = "1 failed try" if each.tries == 1 else f"{each.tries} failed tries"
            reasons.append(
                f"step {each.place} is tried again{_when(each.due_at, now)}, after {failed}: {first_line(each.error)}"
            )
        elif each.due_at is not None and each.place.startswith("sleep"):
            reasons.append(f"it sleeps{_until(each.due_at, now).removeprefix(',')}")
        elif each.due_at is not None and each.place.startswith("timer") and _wakes(job, each.due_at):
            reasons.append(f"a timer of it is over{_when(each.due_at, now)}")
    return reasons[:_SHOWN]


def _wakes(job: Job, due: datetime) -> bool:
    """Whether this is the flow's deadline: the note of a timer does not say whether the function has given it up."""
    return job.deadline_at is not None and abs((due - job.deadline_at).total_seconds()) < 1


def _until(due: datetime | None, now: datetime) -> str:
    if due is None:
        return ", without a timeout"
    left = left_until(due, now)
    return f", until {at(due)} ({f'in {show_ms(left)}' if left > 0 else 'over: a worker wakes it next'})"


def _when(due: datetime | None, now: datetime) -> str:
    if due is None:
        return ""
    left = left_until(due, now)
    return f" at {at(due)} ({f'in {show_ms(left)}' if left > 0 else 'now: a worker wakes it next'})"
