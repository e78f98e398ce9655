"""Where running jobs go: what settle, release and reap know of an execution, and decide for its job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headway.model.machine import Turn, Woken
from headway.model.retry import destination
from headway.model.status import Status
from headway.store.ops import Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list
from headway.store.sqlite.jobs.unique import covers

_SQL = statements("jobs/ending")


class Running(msgspec.Struct, frozen=True, array_like=True):
    """A running job as `running` reads it."""

    rowid: int
    id: str
    fence: int
    worker_id: str | None
    started_at: int
    log_tail: str | None
    canceling: int
    cancel_reason: str | None
    unique_key: str | None
    unique_scope: str
    followed: int  # others may wait for its end; 2: only the next car of its train does
    machine: int  # it has a step, or signals
    announced: int  # a trigger listens to how jobs end

    def covers(self, status: Status) -> bool:
        return covers(self.unique_scope, status)


class Ending(msgspec.Struct, kw_only=True):
    """Where one running job goes from here, and what it is charged."""

    job: Running
    to: Status
    charge: int = 0
    loss: int = 0
    delay_ms: int = 0
    result: str | None = None
    error: str | None = None
    drops_key: bool = False
    heir: str | None = None  # the job that retries it
    heir_ended: bool = False  # because its unique key is taken
    turn: Turn | None = None  # a machine's
    woken: Woken | None = None  # what it awaits is there already
    position: int | None = None  # a new one

    @property
    def retried(self) -> bool:
        """Whether a new job retries it, as for at_most_once; a machine that returned Stop has failed for good."""
        return self.to == "failed" and (self.turn is None or self.turn.outcome != "stop")


def ending(job: Running, to: Status, **values: Any) -> Ending:
    """An ending that respects a requested cancel; without a delay, the job is queued at once."""
    end = Ending(job=job, to=to, **values)
    end.to = destination(to, canceling=bool(job.canceling), retried=end.retried, delay_ms=end.delay_ms)
    if job.canceling and end.to == "canceled":
        end.error = job.cancel_reason if end.error is None else end.error
        forget_spawn(end)
    return end


def read_running(ids: Sequence[str]) -> Steps[dict[str, Running]]:
    """Those of these jobs that are running, by id."""
    rows = yield Statement(_SQL["running"], (json_list(ids),))
    return {row[1]: Running(*row) for row in rows}


def forget_spawn(end: Ending) -> None:
    """Undo the turn of a machine that ends before its children exist: if it is retried, it runs that step again."""
    if end.turn is not None and end.turn.outcome == "spawn":
        end.turn = None
