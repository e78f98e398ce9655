"""What follows from an execution's end: the retry policy as pure functions from claim and outcome to settlement."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta

from headway.model.duration import Duration, to_ms
from headway.model.job import Claim, Settlement
from headway.model.status import AttemptStatus

Backoff = Callable[[int], float | timedelta]


def backoff_ms(failures: int, base_ms: int, cap_ms: int, jitter: float) -> int:
    """The wait before the next execution: base × 2^(n-1), times 0.75 to 1.25 by jitter in [0, 1), and never over cap.

    At the cap it is 0.75 to 1 of it: were it cut, half of all jobs would come at the same time.
    """
    doubled: int = base_ms * (1 << min(failures - 1, 40))
    shortest, longest = 0.75 * min(doubled, cap_ms), min(1.25 * doubled, cap_ms)
    return round(shortest + jitter * (longest - shortest))


def succeeded(claim: Claim, result: str | None) -> Settlement:
    return Settlement(
        id=claim.id, fence=claim.fence, status="succeeded", to="succeeded", result=result, followed=claim.followed
    )


def failed(
    claim: Claim,
    error: str,
    *,
    status: AttemptStatus = "failed",
    delay: Duration | None = None,
    backoff: Backoff | None = None,
) -> Settlement:
    """A failed execution: another try later, or the job's end when it has none left."""
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


def dead(claim: Claim, error: str, *, status: AttemptStatus = "failed") -> Settlement:
    """The job's bad end, whatever tries it has left."""
    return Settlement(id=claim.id, fence=claim.fence, status=status, to="dead", charge=1, error=error)


def snoozed(claim: Claim, delay: Duration) -> Settlement:
    """Put off by its handler: charges nothing."""
    return Settlement(id=claim.id, fence=claim.fence, status="snoozed", to="scheduled", delay_ms=to_ms(delay, "delay"))


def canceled(claim: Claim, reason: str | None) -> Settlement:
    return Settlement(id=claim.id, fence=claim.fence, status="canceled", to="canceled", error=reason)


def released(claim: Claim, reason: str) -> Settlement:
    """Given back by a worker that must stop; an at_most_once job that had started may not run again."""
    at_most_once = claim.delivery == "at_most_once"
    return Settlement(
        id=claim.id,
        fence=claim.fence,
        status="released",
        to="failed" if at_most_once else "queued",
        error=reason,
    )
