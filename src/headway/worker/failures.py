"""Turns what a handler raised, or why it was asked to stop, into how its execution ended."""

from __future__ import annotations

import asyncio

import msgspec

from headway.define.options import Options
from headway.errors import CommandFailed, ConnectorFailed, InvalidOutcome, SecretMissing
from headway.logs import get_logger
from headway.model.duration import Duration, show_ms
from headway.model.job import Claim, Settlement
from headway.model.outcome import Cancel, Retry, Snooze
from headway.model.retry import canceled, dead, failed, released, snoozed
from headway.model.status import AttemptStatus
from headway.worker.error_text import error_text, first_line, handler_exc_info, storable
from headway.worker.execution import Execution

log = get_logger("headway.worker")


def settlement_for_raised(run: Execution, error: BaseException) -> Settlement | None:
    """The outcome of an execution that raised this; None: the claim is no longer this worker's."""
    if run.stop_reason is not None:
        # it was asked to stop, and that is why it ended, whatever the handler raised then
        return settlement_for_stop(run, error)
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
        error = error.__cause__  # a coroutine wraps it
    if isinstance(error, CommandFailed | ConnectorFailed):
        return _settlement_by_message(run, error)
    outcome = settlement_for_error(run.claim, run.handler.options, error)
    if outcome.charge:
        shown = {"error": str(error)} if isinstance(error, Retry) else {"exc_info": handler_exc_info(error)}
        log.warning(f"attempt failed: {consequence(outcome)}", duration_ms=run.duration_ms, **shown)
    return outcome


def settlement_for_stop(run: Execution, error: BaseException | None = None) -> Settlement | None:
    """The outcome of an execution that was asked to stop; None: nothing is written, since it never began or the
    lease was lost."""
    claim, options = run.claim, run.handler.options
    match run.stop_reason:
        case "timeout":
            reason = f"timed out after {show_ms(claim.timeout_ms or 0)}"
            if options.retries(TimeoutError(reason)):
                outcome = settlement_for_failure(claim, options, reason, status="timeout")
            else:
                outcome = dead(claim, reason, status="timeout")
            log.warning(f"attempt {reason}: {consequence(outcome)}", duration_ms=run.duration_ms)
            return outcome
        case "cancel":
            told = error is not None and not isinstance(error, asyncio.CancelledError)
            return canceled(claim, error_text(error) if told and error else None)
        case "stop" if run.begun:
            return released(claim, "the worker stopped before it ended")
        case _:
            return None


def settlement_for_bad_payload(claim: Claim, reason: str) -> Settlement:
    """Another attempt would fail the same way: the job is dead."""
    log.error("the job is dead: another try could not help", error=reason)
    return dead(claim, storable(reason))


def consequence(outcome: Settlement) -> str:
    """What follows from a failed attempt, for the log."""
    match outcome.to:
        case "scheduled":
            return f"it is tried again in {show_ms(outcome.delay_ms)}"
        case "running" | "queued" | "waiting":
            return "its handle decides how it goes on"
        case "failed" if outcome.turn is not None and outcome.turn.outcome == "stop":
            return "the machine stops: the job has failed"
        case "failed":
            return f"a new job tries it again in {show_ms(outcome.delay_ms)}"
        case to:
            return f"the job is {to}"


def settlement_for_error(claim: Claim, options: Options, error: BaseException) -> Settlement:
    """By the kind's policy; Retry, Snooze and Cancel decide for themselves."""
    match error:
        case Retry():
            return settlement_for_failure(claim, options, storable(str(error)), delay=error.delay)
        case Snooze():
            return _settlement_for_snooze(claim, error)
        case Cancel():
            return canceled(claim, storable(str(error)))
        case InvalidOutcome() | SecretMissing():
            # retried whatever the kind's retry_on says: the worker gets its secret, or another worker has it
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
    """A failed execution under the kind's own backoff function, if it has one that works."""
    if delay is None and options.backoff is not None:
        try:
            return failed(claim, error, status=status, backoff=options.backoff)
        except Exception as fault:
            log.warning(
                f"the backoff function of kind {claim.kind!r} failed; the default is used",
                error=first_line(error_text(fault)),
            )
    return failed(claim, error, status=status, delay=delay)


def _settlement_for_snooze(claim: Claim, error: Snooze) -> Settlement:
    settlement = snoozed(claim, error.delay)
    if claim.delivery == "at_most_once":
        # this job id was executed and may not be again: its retry is a new job, as after a failure
        return msgspec.structs.replace(settlement, to="failed", error=storable(str(error)))
    return settlement


def _settlement_by_message(run: Execution, error: CommandFailed | ConnectorFailed) -> Settlement:
    """With the error's own message: a traceback would not show where a program or a request failed."""
    reason = storable(str(error))
    if error.retry:
        delay = error.delay_s if isinstance(error, ConnectorFailed) else None
        outcome = settlement_for_failure(run.claim, run.handler.options, reason, delay=delay)
    else:
        outcome = dead(run.claim, reason)
    log.warning(f"attempt failed: {consequence(outcome)}", duration_ms=run.duration_ms, error=reason)
    return outcome
