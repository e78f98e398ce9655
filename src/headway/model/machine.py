"""Machines: where one is, what a turn of it writes, and the pure rules from an outcome to a settlement."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from headway.errors import NotFound
from headway.model.job import Attempt, Claim, Job, NewJob, OnFailure, Settlement
from headway.model.outcome import Match
from headway.model.signal import Received, Signal
from headway.model.status import AttemptStatus, Status

START = "start"
"""The step where a machine begins."""

NO_STATE = msgspec.Raw()
Woken = Literal["signal", "children", "timeout"]
Encode = Callable[[Any], str]
OutcomeName = Literal["next", "replay", "await", "spawn", "sleep", "done", "stop", "park"]


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a machine is: what a claim brings of it, and what a new job may begin with (as JSON, both ways).

    `awaiting` and `woken` stay until the step that they woke has an outcome: a retry sees what the first try saw.
    """

    version: int | None = None  # None: enqueued by a name alone; the newest that the worker knows takes it
    step: str | None = None  # None: the first
    state: msgspec.Raw = NO_STATE  # none committed yet: the payload is the state
    awaiting: tuple[str, ...] = ()
    match: Match = "any"
    joining: int | None = None  # the fence of the execution whose children it waits, or waited, for
    joined: str | None = None  # for a fork: the machine that spawned those
    woken: Woken | None = None
    partition: str | None = None  # set by a claim; for an enqueue see NewJob.partition
    home_queue: str | None = (
        None  # where it belongs, while a step with a queue or partition of its own has it elsewhere
    )
    home_partition: str | None = None
    forked_from: str | None = None
    parent_id: str | None = None  # the machine that spawned it
    signals: tuple[Received, ...] = ()  # all that are unconsumed, in order of arrival


class Began(msgspec.Struct, frozen=True, kw_only=True):
    """Where a fork, or the job that retries an at_most_once machine, began: what its own attempts do not say."""

    version: int | None = None
    state: msgspec.Raw = NO_STATE
    joining: int | None = None
    joined: str | None = None  # the machine that spawned the children of `joining`; None: itself


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine's outcome writes beside the settlement itself.

    A settlement without a turn leaves the machine where it is: a retry, a snooze, a release.
    """

    outcome: OutcomeName
    ran: str  # the step that was executed
    step: str  # the step that comes now
    version: int
    note: str | None = None  # for people: what it awaits, for how long it sleeps
    state: str | None = None  # JSON text; None: unchanged
    progress: bool = True  # another step begins: tries and losses count from 0, and what woke this one is forgotten
    consumed: tuple[str, ...] = ()  # ids of signals
    awaiting: tuple[str, ...] = ()
    match: Match = "any"
    deadline_ms: int | None = None
    children: tuple[NewJob, ...] = ()
    on_failure: OnFailure = "continue"
    needed: int | None = None  # how many children must succeed, until it goes on; None: it goes on when all are over
    queue: str | None = None  # None: as it is
    partition: str | None = None  # with `queue` only
    home_queue: str | None = None  # with `queue` only: None where it is at home
    home_partition: str | None = None

    @property
    def size(self) -> int:
        """About how many bytes it is on its way to the database."""
        return len(self.state or "") + sum(len(child.payload) + 500 for child in self.children)


class Settled(msgspec.Struct, frozen=True):
    """What a settle answers."""

    lost: list[tuple[str, int]]  # (id, fence) of what was not this worker's to write
    continued: dict[str, str | None]  # id → its unconsumed signals as JSON, for those that go on with fence + 1
    busy: list[tuple[str, int]] = []  # not written: somebody's open transaction is in the way, for now


class StepCount(msgspec.Struct, frozen=True):
    """How many unfinished machines of a kind stand at a step, in every status."""

    kind: str
    step: str
    count: int
    more: bool = False  # there are so many unfinished jobs that not all were looked at


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a machine spawned, as its next step sees it."""

    id: str
    kind: str
    status: Status
    result: Any
    error: str | None

    @property
    def succeeded(self) -> bool:
        return self.status == "succeeded"


class StepExecution(msgspec.Struct, frozen=True, kw_only=True):
    """One execution in a machine's history: the step, how it ended, and what it left."""

    fence: int
    step: str
    version: int | None
    status: AttemptStatus
    outcome: OutcomeName | None  # None: it failed, was lost or released, or still runs
    note: str | None
    woken: Woken | None
    started_at: datetime
    finished_at: datetime | None
    worker_id: str | None
    state: Any  # what it committed; None: nothing
    error: str | None
    signals: tuple[str, ...]  # the names of those that it consumed
    children: tuple[str, ...]  # ids of those that it spawned


def turned(
    claim: Claim,
    turn: Turn,
    to: Status,
    *,
    status: AttemptStatus = "succeeded",
    charge: int = 0,
    delay_ms: int = 0,
    result: str | None = None,
    error: str | None = None,
) -> Settlement:
    """The settlement of a step that had an outcome. `to` running: it goes on with fence + 1 in the same slot."""
    return Settlement(
        id=claim.id,
        fence=claim.fence,
        status=status,
        to=to,
        charge=charge,
        delay_ms=delay_ms,
        result=result,
        error=error,
        turn=turn,
    )


def history(
    attempts: Sequence[Attempt], signals: Sequence[Signal], spawned: Sequence[tuple[int, str]]
) -> list[StepExecution]:
    """A machine's executions in order, each with the signals that it consumed and the children that it spawned."""
    names: dict[int, list[str]] = {}
    for signal in signals:
        if signal.fence is not None:
            names.setdefault(signal.fence, []).append(signal.name)
    children: dict[int, list[str]] = {}
    for fence, child_id in spawned:
        children.setdefault(fence, []).append(child_id)
    return [
        StepExecution(
            fence=attempt.fence,
            step=attempt.step or START,
            version=attempt.version,
            status=attempt.status,
            outcome=attempt.outcome,
            note=attempt.note,
            woken=attempt.woken,
            started_at=attempt.started_at,
            finished_at=attempt.finished_at,
            worker_id=attempt.worker_id,
            state=attempt.state,
            error=attempt.error,
            signals=tuple(names.get(attempt.fence, ())),
            children=tuple(children.get(attempt.fence, ())),
        )
        for attempt in attempts
    ]


def forked(
    job: Job,
    attempts: Sequence[Attempt],
    signals: Sequence[Signal],
    began: Began,
    *,
    at: int,
    state: str | None,
    step: str | None,
    encode: Encode,
) -> tuple[Checkpoint, list[Signal]]:
    """Where a fork of this machine begins: with the step that the execution `at` ran, the state that it began with (or
    the given one), and the signals and children that it saw; raises `NotFound` where there is no such execution. With
    another `step` it begins as if the machine had gone there by Next: without signals and children."""
    ran = next((attempt for attempt in attempts if attempt.fence == at), None)
    if ran is None:
        known = ", ".join(str(attempt.fence) for attempt in attempts[-20:]) or "none yet"
        raise NotFound(f"job {job.id} has no execution {at}: its fences are {known}")
    before = [attempt for attempt in attempts if attempt.fence < at]
    kept = next((attempt for attempt in reversed(before) if attempt.state is not None), None)
    version = ran.version or job.version
    if state is None and kept is not None:
        state = encode(kept.state)
        version = kept.version or version
    elif state is None and began.state:
        state = bytes(began.state).decode()
        version = began.version or version
    # a try that failed saw the signals that a later one consumed, which ended the step
    tries = itertools.takewhile(lambda attempt: attempt.step == ran.step, attempts[attempts.index(ran) :])
    seen = next(filter(None, ([each for each in signals if each.fence == attempt.fence] for attempt in tries)), [])
    spawns = [attempt.fence for attempt in before if attempt.outcome == "spawn"]
    joining, joined = (spawns[-1], job.id) if spawns else (began.joining, began.joined or job.id)
    # it runs that step again, and does not wait for what that one saw
    woken = ran.woken or ("signal" if seen else None)
    by_children = ran.woken == "children" and joining is not None
    if step not in (None, ran.step or START):
        return Checkpoint(version=version, step=step, state=_raw(state), forked_from=job.id), []
    checkpoint = Checkpoint(
        version=version,
        step=ran.step or START,
        state=_raw(state),
        awaiting=tuple(dict.fromkeys(signal.name for signal in seen)),
        woken=woken,
        joining=joining if by_children else None,
        joined=joined if by_children else None,
        forked_from=job.id,
    )
    return checkpoint, seen


def _raw(state: str | None) -> msgspec.Raw:
    return NO_STATE if state is None else msgspec.Raw(state.encode())


def counted_steps(rows: Sequence[Sequence[Any]], most: int) -> list[StepCount]:
    """How many stand at each step, of (status, kind, step, whether it is seen, count); a plain job has no step."""
    looked_at: dict[str, int] = {}
    counts: dict[tuple[str, str], int] = {}
    for status, kind, step, seen, count in rows:
        looked_at[status] = looked_at.get(status, 0) + count
        if step is not None and seen:
            counts[kind, step] = counts.get((kind, step), 0) + count
    more = any(count >= most for count in looked_at.values())
    return [StepCount(kind, step, count, more) for (kind, step), count in sorted(counts.items())]
