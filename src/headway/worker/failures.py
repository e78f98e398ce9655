"""Turns what a handler raised into how its execution ended."""

from __future__ import annotations

import msgspec

from headway.define.options import Options
from headway.errors import InvalidOutcome, SecretMissing
from headway.logs import get_logger
from headway.model.duration import Duration
from headway.model.job import Claim, Settlement
from headway.model.outcome import Cancel, Retry, Snooze
from headway.model.retry import canceled, dead, failed, snoozed
from headway.model.status import AttemptStatus
from headway.worker.error_text import error_text, first_line, storable

log = get_logger("headway.worker")


def settlement_for_error(claim: Claim, options: Options, error: BaseException) -> Settlement:
    """What the kind's policy makes of an error; Retry, Snooze and Cancel say it themselves."""
    match error:
        case Retry():
            return settlement_for_failure(claim, options, storable(str(error)), delay=error.delay)
        case Snooze():
            return _snooze(claim, error)
        case Cancel():
            return canceled(claim, storable(str(error)))
        case InvalidOutcome() | SecretMissing():
            # a worker that lacks a secret is set right, or another one tries: no kind's retry_on knows of that
            return settlement_for_failure(claim, options, storable(str(error)))
    text = error_text(error)
    return settlement_for_failure(claim, options, text) if options.retries(error) else dead(claim, text)


def settlement_for_failure(
    claim: Claim,
    options: Options,
    error: str,
    *,
    status: AttemptStatus = "failed",
    delay: Duration | None = None,
) -> Settlement:
    """A failed execution under the kind's own backoff, if it has one that works."""
    if delay is None and options.backoff is not None:
        try:
            return failed(claim, error, status=status, backoff=options.backoff)
        except Exception as fault:
            log.warning(
                f"the backoff function of kind {claim.kind!r} failed; the default is used",
                error=first_line(error_text(fault)),
            )
    return failed(claim, error, status=status, delay=delay)


def _snooze(claim: Claim, error: Snooze) -> Settlement:
    settlement = snoozed(claim, error.delay)
    if claim.delivery == "at_most_once":
        # this job id was executed and may not be again: its retry is a new job, as after a failure
        return msgspec.structs.replace(settlement, to="failed", error=storable(str(error)))
    return settlement
