"""What follows from an execution's end: the retry policy as pure functions from claim and outcome to settlement."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from headway.model.duration import Duration, to_ms
from headway.model.job import Claim, Delivery, Settlement
from headway.model.status import AttemptStatus, Status

Backoff = Callable[[int], float | timedelta]
_STOPPED_BY_CANCEL: tuple[Status, ...] = ("scheduled", "queued", "waiting", "running", "failed", "canceled")


class Execution(Protocol):
    """A claim, or what a store gives of one."""

    @property
    def id(self) -> str: ...
    @property
    def fence(self) -> int: ...
    @property
    def delivery(self) -> Delivery: ...


class Budget(Protocol):
    """An execution with the policy of its job's row: a `Claim`, or what a store reads of a running job."""

    @property
    def id(self) -> str: ...
    @property
    def fence(self) -> int: ...
    @property
    def tries(self) -> int: ...
    @property
    def losses(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def backoff_base_ms(self) -> int: ...
    @property
    def backoff_cap_ms(self) -> int: ...
    @property
    def delivery(self) -> Delivery: ...
    @property
    def followed(self) -> bool: ...


def backoff_ms(failures: int, base_ms: int, cap_ms: int, jitter: float) -> int:
    """The wait before the next execution: base × 2^(n-1), times 0.75 to 1.25 by jitter in [0, 1), and never over cap.

    At the cap it is 0.75 to 1 of the cap. If it were clipped instead, half of all jobs would come at the same time.
    """
    doubled: int = base_ms * (1 << min(failures - 1, 40))
    shortest, longest = 0.75 * min(doubled, cap_ms), min(1.25 * doubled, cap_ms)
    return round(shortest + jitter * (longest - shortest))


def succeeded(claim: Budget, result: str | None) -> Settlement:
    return Settlement(
        id=claim.id, fence=claim.fence, status="succeeded", to="succeeded", result=result, followed=claim.followed
    )


def failed(
    claim: Budget,
    error: str,
    *,
    status: AttemptStatus = "failed",
    delay: Duration | None = None,
    backoff: Backoff | None = None,
) -> Settlement:
    """A failed execution: another try later, or the job's end when it has none left. `fail_many` of PostgreSQL has the
    same rules."""
    tries = claim.tries + 1
    at_most_once = claim.delivery == "at_most_once"
    spent = tries + (claim.losses if at_most_once else 0)
    if spent >= claim.max_attempts:
        return dead(claim, error, status=status)
    if delay is not None:
        delay_ms = to_ms(delay, "delay")
    elif backoff is not None:
        delay_ms = to_ms(backoff(tries), "backoff")
    else:
        delay_ms = backoff_ms(tries, claim.backoff_base_ms, claim.backoff_cap_ms, random.random())
    return Settlement(
        id=claim.id,
        fence=claim.fence,
        status=status,
        to="failed" if at_most_once else "scheduled",
        charge=1,
        delay_ms=delay_ms,
        error=error,
    )


def dead(claim: Budget, error: str, *, status: AttemptStatus = "failed") -> Settlement:
    """The job's bad end, whatever tries it has left."""
    return Settlement(id=claim.id, fence=claim.fence, status=status, to="dead", charge=1, error=error)


def snoozed(claim: Claim, delay: Duration) -> Settlement:
    """Put off by its handler: charges nothing."""
    return Settlement(id=claim.id, fence=claim.fence, status="snoozed", to="scheduled", delay_ms=to_ms(delay, "delay"))


def canceled(claim: Budget, reason: str | None) -> Settlement:
    return Settlement(id=claim.id, fence=claim.fence, status="canceled", to="canceled", error=reason)


def released(claim: Execution, reason: str) -> Settlement:
    """Given back by a worker that must stop; an at_most_once job that had started may not run again."""
    at_most_once = claim.delivery == "at_most_once"
    return Settlement(
        id=claim.id,
        fence=claim.fence,
        status="released",
        to="failed" if at_most_once else "queued",
        error=reason,
    )


def retried_to(train: str | None, *, behind: bool, waited: bool, sleeps: bool) -> Status:
    """Where an operator's retry puts a finished job: a car, or one `behind` its parents, is held; a machine that was
    canceled while it waited waits again, one that `sleeps` goes on sleeping."""
    if behind or train is not None:
        return "held"
    if waited:
        return "waiting"
    return "scheduled" if sleeps else "queued"


def runs_anew(delivery: Delivery, fence: int) -> bool:
    """Whether a new job retries a finished one: at_most_once, and it has run."""
    return delivery == "at_most_once" and fence > 0


def destination(to: Status, *, canceling: bool, retried: bool, delay_ms: int) -> Status:
    """Where an execution's end takes the job: one that was asked to cancel goes nowhere but canceled, succeeded or dead
    (or failed for good: `retried` says that a new job would retry it); one that need not wait is queued."""
    if canceling and to in _STOPPED_BY_CANCEL and (to != "failed" or retried):
        return "canceled"
    return "queued" if to == "scheduled" and delay_ms <= 0 else to
