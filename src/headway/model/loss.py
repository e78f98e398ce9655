"""What a loss does to a job: its worker died, or was declared dead, while it ran."""

from __future__ import annotations

import msgspec

from headway.model.job import Delivery
from headway.model.status import Status


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a job that was lost with its worker."""

    to: Status
    charge: int  # how many losses
    delay_ms: int = 0
    error: str


def lost(
    worker: str | None,
    *,
    stopping: bool,
    canceling: bool,
    delivery: Delivery,
    tries: int,
    losses: int,
    max_attempts: int,
    max_losses: int,
    backoff_base_ms: int,
    backoff_cap_ms: int,
    jitter: float,
) -> Loss:
    """An execution that was lost with its worker: charged on a budget of its own, unless the worker was stopping.

    The jitter in [0, 1) is over the whole range: it separates a job that kills its workers from those that died
    with it. `lose` of PostgreSQL has the same rules.
    """
    charge = 0 if stopping else 1
    losses += charge
    error = "it was running without a worker" if worker is None else f"lost with its worker {worker}"
    once = delivery == "at_most_once"
    if canceling:
        return Loss(to="canceled", charge=charge, error=error)
    if charge and (losses >= max_losses or (once and tries + losses >= max_attempts)):
        error += f", {losses} times now: it may be what kills them (a poison pill)"
        return Loss(to="dead", charge=charge, error=error)
    longest_ms = min(2 * backoff_base_ms * (1 << min(max(losses - 1, 0), 40)), backoff_cap_ms)
    to: Status = "failed" if once else "scheduled"
    return Loss(to=to, charge=charge, delay_ms=max(1, round(longest_ms * jitter)), error=error)
