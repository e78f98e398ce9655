"""The statuses of jobs and attempts, and the only moves between a job's statuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

Status = Literal["queued", "scheduled", "held", "running", "waiting", "succeeded", "failed", "dead", "canceled"]
AttemptStatus = Literal[
    "running", "succeeded", "failed", "timeout", "canceled", "lost", "released", "snoozed", "skipped"
]

STATUSES: tuple[Status, ...] = get_args(Status)
ATTEMPT_STATUSES: tuple[AttemptStatus, ...] = get_args(AttemptStatus)
UNFINISHED: tuple[Status, ...] = ("queued", "scheduled", "held", "running", "waiting")
FINISHED: tuple[Status, ...] = ("succeeded", "failed", "dead", "canceled")

MOVES: frozenset[tuple[Status, Status]] = frozenset(
    {
        ("scheduled", "queued"),  # due
        ("queued", "scheduled"),  # put off by an operator, or by an enqueue that replaced it
        ("held", "queued"),
        ("held", "scheduled"),
        ("queued", "running"),  # claim
        ("running", "succeeded"),
        ("running", "scheduled"),  # retry, snooze
        ("running", "queued"),  # release
        ("running", "waiting"),
        ("waiting", "queued"),
        ("running", "dead"),
        ("running", "failed"),  # Stop; or at_most_once: a new job retries it
        ("queued", "canceled"),
        ("scheduled", "canceled"),
        ("held", "canceled"),
        ("waiting", "canceled"),
        ("running", "canceled"),
        ("dead", "queued"),  # an operator's explicit retry
        ("failed", "queued"),
        ("canceled", "queued"),
        ("succeeded", "queued"),
        ("dead", "held"),  # the same for a car of a train, or a member of a group, whose turn it is not
        ("failed", "held"),
        ("canceled", "held"),
        ("succeeded", "held"),
        ("canceled", "waiting"),  # the same for a machine that was canceled while it waited
        ("canceled", "scheduled"),  # or slept
        ("held", "waiting"),  # the same when the turn of such a car comes, or when the jobs before it are over
    }
)
"""Every move that exists; both stores refuse any other (a trigger on the jobs table)."""


def edge_state(status: Status) -> Literal["pending", "done", "failed"]:
    """What a job in this status means for those that wait for it."""
    if status not in FINISHED:
        return "pending"
    return "done" if status == "succeeded" else "failed"


def covers(scope: str, status: Status) -> bool:
    """Whether a job in this status holds its unique key; the scope is JSON text, as SQLite stores it."""
    return f'"{status}"' in scope


def follows(scope: str) -> bool:
    """Whether a held job waits for the end of the one that has its key."""
    return '"+held"' in scope


def enters(scope: str, status: Status, to: Status) -> bool:
    """Whether this move takes a job into the scope of its unique key, where another may be."""
    return covers(scope, to) and not covers(scope, status)


def whole_scope(stored: Iterable[str]) -> tuple[Status, ...]:
    """The unique scope as it was given. A job that ended without its key, which another held, is stored with a minus
    before the status that it ended in: so it holds no key, and a retry knows the one that it had. A successor, which
    waits for the end of the key's holder, is stored with "+held"."""
    return tuple(status.lstrip("+-") for status in stored)  # type: ignore[misc]
