"""Jobs of several steps: their signals, children and forks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headway.model.job import (
    Enqueued,
    NewJob,
)
from headway.model.machine import Began, Child, StepCount
from headway.model.signal import NewSignal, Sent, Signal
from headway.store.ops.recipe import Op


class Machines(Protocol):
    def signal(self, signals: Sequence[NewSignal]) -> Op[list[Sent]]:
        """Put signals into inboxes, all or none, in call order: durable, and seen by every step of the machine that
        starts afterwards. A machine that waits for them is woken by the next claim or round (on SQLite at once). One
        whose dedup_key its job has had is answered with the signal from then, even when the job is over. Locks nothing
        that others wait for, so it may be part of a caller's long transaction.
        Raises `NotFound` (no such job, or none with that unique key in scope) and `NotAllowed` (the job is over, or is
        a plain job, which shows once it has run)."""
        ...

    def signals(self, job_id: str, *, tenant_id: str | None, raw: bool = False) -> Op[list[Signal]]:
        """A job's signals in order of arrival: pending, consumed (by which execution), or undelivered."""
        ...

    def children(self, job_id: str, *, fence: int | None, tenant_id: str | None, raw: bool = False) -> Op[list[Child]]:
        """The jobs that this machine (or, for a fork, its origin) spawned at that fence, or with None, by the Spawn
        that it waits for or was woken by (`joining`); in the order in which they were given. An at_most_once child that
        failed is shown as the job that retries it. Results that artifacts have are `Spilled`; with
        `raw` the others are JSON as it is stored."""
        ...

    def began(self, job_id: str, *, tenant_id: str | None) -> Op[Began]:
        """Where a fork, or the job that retries an at_most_once machine, began; an empty one for any other job."""
        ...

    def spawned(self, job_id: str, *, tenant_id: str | None) -> Op[list[tuple[int, str]]]:
        """(fence, child id) of every child of this machine that is not pruned, in order."""
        ...

    def unfinished_steps(self, *, tenant_id: str | None, most: int) -> Op[list[StepCount]]:
        """How many machines stand at each step, by kind and step. Of each status at most this many jobs are looked at,
        machines or not, by the indexes that claims and promotes use: the finished ones cost nothing."""
        ...

    def fork(self, job: NewJob, signals: Sequence[NewSignal], *, actor: str | None) -> Op[Enqueued]:
        """Enqueue a machine that begins where another one was (`job.checkpoint`), with copies of the signals that it
        had then, in one transaction. Audited, on the new job."""
        ...
