"""One machine on a page: its current step, and its executions as a timeline."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from headway.cli.jobs.job_summary import awaits
from headway.cli.program.output import COLORS, ago, at, clean, console, first_line, many, status
from headway.model.duration import show_ms
from headway.model.status import FINISHED, STATUSES
from headway.secrets import mask

if TYPE_CHECKING:
    from headway.model.job import Job
    from headway.model.machine import Child, StepExecution

_CHILDREN = 5
_STATE_LINES = 20
_WORTH_SAYING_MS = 1_000
"""Shorter gaps between steps are not shown as waits."""

_WELL = ("succeeded", "snoozed", "running")
_OUTCOME_WIDTH = 2 + 8 + 1 + 7
_MOST_LINES = 4
"""How many lines of details an execution gets on a terminal."""

Part = str | tuple[str, str]


def show_machine(
    job: Job,
    executions: Sequence[StepExecution],
    children: Mapping[int, Sequence[Child]],
    *,
    earlier: int,
    result_file: str | None,
) -> None:
    """`children`: by the fence that spawned them. `earlier`: how many executions are left out. `result_file`: where the
    result is, if it is too large for the job's row."""
    from rich.text import Text

    version = "" if job.version is None else f" version {job.version}"
    console().print(Text.assemble((job.kind, "bold"), version, "  ", status(job.status), "  ", (job.id, "dim")))
    values = _values(job, executions)
    room = max(15, *(len(name) + 2 for name, _ in values))
    for name, value in values:
        _lines(f"  {name:<{room}}", " " * (room + 2), Text(clean(value)))
    unstarted = 0 if earlier else (executions[0].fence - 1 if executions else _returned(job, 0))
    if executions or unstarted:
        console().print("\ntimeline", style="bold")
        if earlier:
            _line(Text(f"  ┊ {earlier:,} earlier: add --limit {min(earlier + len(executions), 10_000)}", "dim"))
        if unstarted:
            _line(Text(f"  ┊ {_given_back(unstarted)}", "dim"))
    if executions:
        _timeline(job, executions, children)
    _block("state", job.payload if job.state is None else job.state)
    if result_file is not None:
        console().print("\nresult", style="bold")
        _line(Text(f"  {result_file}"))
    elif job.result is not None:
        _block("result", mask(job.result))
    if job.error and job.status in FINISHED:
        console().print("\nerror", style="bold")
        console().print("\n".join(f"  {line}" for line in clean(job.error).splitlines()), style=COLORS["failed"])


def _values(job: Job, executions: Sequence[StepExecution]) -> list[tuple[str, str]]:
    over, waits = job.status in FINISHED, job.status == "waiting"
    since = executions[-1].finished_at if executions else None
    slept = bool(executions) and executions[-1].outcome == "sleep"
    values = [
        ("waits for", awaits(job) if waits else None),
        ("since", at(since) if waits else None),
        ("until", at(job.deadline_at) if waits and job.deadline_at else None),
        ("asleep until" if slept else "scheduled for", at(job.scheduled_for) if job.status == "scheduled" else None),
        (_where(job, executions), job.step),
        ("tries", f"{job.tries} of this step failed" if job.tries and not over else None),
        ("losses", f"{job.losses} of this step" if job.losses and not over else None),
        ("queue", job.queue + (f", at home in {job.home_queue}" if job.home_queue not in (None, job.queue) else "")),
        ("tenant", job.tenant if job.tenant != "default" else None),
        ("unique key", job.unique_key),
        ("train", job.train),
        ("partition", job.partition),
        ("spawned by", job.parent_id),
        ("forked from", job.forked_from),
        ("created", at(job.created_at)),
        ("finished", at(job.finished_at) if job.finished_at else None),
        ("took", show_ms(_ms(job.created_at, job.finished_at)) if job.finished_at else None),
    ]
    return [(name, value) for name, value in values if value is not None]


def _where(job: Job, executions: Sequence[StepExecution]) -> str:
    """The label of its step: it runs, comes next, or was the last."""
    if job.status not in FINISHED:
        return "step" if job.status == "running" else "next step"
    if job.status != "canceled":
        return "ended in step"
    last = executions[-1] if executions else None
    parked = last is None or last.outcome in ("next", "await", "spawn", "sleep") or last.finished_at != job.finished_at
    return "canceled before step" if parked else "canceled in step"


def _timeline(job: Job, executions: Sequence[StepExecution], children: Mapping[int, Sequence[Child]]) -> None:
    from rich.text import Text

    out = console()
    fences = max(len(str(execution.fence)) for execution in executions)
    steps = max(len(execution.step) for execution in executions)
    if out.is_terminal:
        steps = min(steps, max(12, out.width - fences - len("  ├─   ") - _OUTCOME_WIDTH))
    for execution, following in zip_longest(executions, executions[1:]):
        branch, trunk = ("└─ ", "   ") if following is None else ("├─ ", "│  ")
        first, next_ = f"  {branch}{execution.fence:>{fences}}  ", f"  {trunk}{'':>{fences}}  "
        told = _told(execution)
        step = execution.step
        if len(step) > steps:
            _line(Text.assemble((first[:5], "dim"), first[5:], step))
            first, step = next_, ""
        head = Text.assemble((first[:5], "dim"), first[5:], f"{step:<{steps}}  ", *_outcome(execution))
        note = _note(execution)
        if note and out.is_terminal and len(head) + 2 + len(note) > out.width:
            told.insert(0, (note, ""))
        elif note:
            head.append(f"  {note}")
        _line(head)
        for text, style in told:
            _lines(next_, next_, Text(clean(text), style))
        below = [*_children(children.get(execution.fence, ())), *_gap(job, execution, following)]
        for index, parts in enumerate(below):
            fork, goes_on = ("└ ", "  ") if index == len(below) - 1 else ("├ ", "│ ")
            _lines(next_ + fork, next_ + goes_on, Text.assemble(*parts))


def _outcome(execution: StepExecution) -> list[Part]:
    """`await  12ms`, or how it failed."""
    took = _took(execution)
    name = execution.outcome or execution.status
    failed = execution.status not in _WELL
    style = (
        COLORS.get(execution.status, "")
        if failed or execution.outcome is None
        else "green"
        if name == "done"
        else "cyan"
    )
    return [(f"{name:<8}", style), f" {took:>7}"]


def _note(execution: StepExecution) -> str:
    """What its outcome means, and whether `handle` returned it."""
    told = execution.note or ""
    if execution.status not in _WELL and execution.outcome not in (None, "stop"):
        told = f"{told} by its handle"
    return clean(told).strip()


def _told(execution: StepExecution) -> list[tuple[str, str]]:
    """Details of an execution: the signals it consumed, and its error."""
    lines: list[tuple[str, str]] = []
    if execution.signals:
        counts = Counter(execution.signals)
        names = ", ".join(name if count == 1 else f"{name} × {count:,}" for name, count in counts.items())
        lines.append((f"got {names}", "green"))
    elif execution.woken == "timeout":
        lines.append(("timed out", "yellow"))
    if execution.error:
        lines.append((first_line(execution.error), COLORS["failed"]))
    return lines


def _children(children: Sequence[Child]) -> list[list[Part]]:
    """Some of the children, unsuccessful ones first, and how many have each status."""
    ordered = sorted(children, key=lambda child: (child.status == "succeeded", STATUSES.index(child.status)))
    lines: list[list[Part]] = []
    for child in ordered[:_CHILDREN]:
        error = f"  {first_line(child.error)}" if child.error else ""
        lines.append(
            [
                (f"{child.status:<9}", COLORS[child.status]),
                f" {child.kind}  ",
                (child.id, "dim"),
                (clean(error), COLORS["failed"]),
            ]
        )
    if len(ordered) > _CHILDREN:
        counts = Counter(child.status for child in ordered[_CHILDREN:])
        lines.append([f"{len(ordered) - _CHILDREN:,} more: ", ", ".join(f"{n:,} {name}" for name, n in counts.items())])
    return lines


def _gap(job: Job, execution: StepExecution, following: StepExecution | None) -> list[list[Part]]:
    """How long nothing ran after it, and why."""
    unstarted = _returned(job, execution.fence) if following is None else following.fence - execution.fence - 1
    returned: list[list[Part]] = [[(_given_back(unstarted), "yellow")]] if unstarted > 0 else []
    if execution.finished_at is None or (following is None and job.status in FINISHED):
        return returned
    over = following is not None
    ms = _ms(
        execution.finished_at,
        following.started_at if following is not None else datetime.now(execution.finished_at.tzinfo),
    )
    words = {
        "await": ("waited", "waiting for", "waiting"),
        "spawn": ("waited", "waiting for", "waiting"),
        "sleep": ("slept", "asleep for", "scheduled"),
    }
    parked = words.get(execution.outcome or "")
    if parked is not None and (over or job.status == parked[2]):
        return [*returned, [(f"{parked[0] if over else parked[1]} {show_ms(ms)}", "yellow")]]
    if ms < _WORTH_SAYING_MS:
        return returned
    again = execution.outcome in (None, "replay")
    spent = "until it ran again" if again and over else "in the queue"
    return [*returned, [(f"{show_ms(ms)} {spent}", "dim")]]


def _returned(job: Job, fence: int) -> int:
    """How many claims after that execution were given back unstarted."""
    return max(0, job.fence - fence) if job.status != "running" else 0


def _given_back(times: int) -> str:
    return f"given back unstarted{'' if times == 1 else f' {times:,} times'}"


def _took(execution: StepExecution) -> str:
    if execution.finished_at is None:
        return ago(execution.started_at).removesuffix(" ago")
    return show_ms(_ms(execution.started_at, execution.finished_at))


def _ms(start: datetime, end: datetime | None) -> float:
    return 0.0 if end is None else max(0.0, (end - start).total_seconds() * 1_000)


def _block(title: str, value: Any) -> None:
    """A value as JSON, with each field of an object on its own line."""
    from rich.text import Text

    if isinstance(value, dict):
        lines = [f"{json.dumps(key, ensure_ascii=False)}: {_compact(each)}" for key, each in value.items()] or ["{}"]
    else:
        lines = [_compact(value)]
    console().print(f"\n{title}", style="bold")
    for line in lines[:_STATE_LINES]:
        _line(Text(f"  {clean(line)}"))
    if len(lines) > _STATE_LINES:
        _line(Text(f"  … {many(len(lines) - _STATE_LINES, 'field')} more: add --json", "dim"))


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _line(text: Any) -> None:
    """A line, cut to the terminal's width if there is one."""
    out = console()
    if out.is_terminal:
        text.truncate(out.width, overflow="ellipsis")
    out.print(text)


def _lines(first: str, next_: str, text: Any) -> None:
    """Indented text, wrapped to the terminal's width if there is one."""
    from rich.text import Text

    out = console()
    lines = [text]
    if out.is_terminal:
        lines = list(text.wrap(out, max(20, out.width - len(first))))
    for index, line in enumerate(lines[:_MOST_LINES]):
        if index == _MOST_LINES - 1 and len(lines) > _MOST_LINES:
            line.append(" …")
        _line(Text.assemble((first if index == 0 else next_, "dim"), line))
