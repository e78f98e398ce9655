"""Turns what a handler raised into how its execution ended."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

import msgspec

from headway.define.options import Options
from headway.errors import InvalidOutcome, SecretMissing
from headway.logs import get_logger, known
from headway.model.duration import Duration
from headway.model.job import Claim, Settlement
from headway.model.outcome import Cancel, Retry, Snooze
from headway.model.retry import canceled, dead, failed, snoozed
from headway.model.status import AttemptStatus
from headway.secrets import redact, redact_head, redact_tail

log = get_logger("headway.worker")

ERROR_LIMIT = 16_384  # bytes
_MESSAGE_LIMIT = 4_096
_TRACE_LIMIT = 262_144
_OWN_FOLDER = str(Path(__file__).parent)


def judge(claim: Claim, options: Options, error: BaseException) -> Settlement:
    """What the kind's policy makes of an error; Retry, Snooze and Cancel say it themselves."""
    match error:
        case Retry():
            return fail(claim, options, clean(str(error)), delay=error.delay)
        case Snooze():
            return _snooze(claim, error)
        case Cancel():
            return canceled(claim, clean(str(error)))
        case InvalidOutcome() | SecretMissing():
            # a worker that lacks a secret is set right, or another one tries: no kind's retry_on knows of that
            return fail(claim, options, clean(str(error)))
    text = describe(error)
    return fail(claim, options, text) if options.retries(error) else dead(claim, text)


def fail(
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
                error=first_line(describe(fault)),
            )
    return failed(claim, error, status=status, delay=delay)


def describe(error: BaseException) -> str:
    """ "Type: message" and the traceback from the handler on: up to 16 KiB of text that a store can keep."""
    try:
        message = str(error)
    except Exception as fault:
        message = f"(its message raised {type(fault).__name__})"
    # before anything is cut: of a secret that is cut, no redaction would know the piece
    shown = redact_head(message, _MESSAGE_LIMIT, known())
    message = shown if len(message) <= _MESSAGE_LIMIT else shown + " …"
    head = clean(f"{type(error).__qualname__}: {message}" if message else type(error).__qualname__)
    try:
        trace = "".join(traceback.format_exception(*handlers_own(error)))
    except Exception as fault:
        trace = f"(no traceback: {type(fault).__name__})"
    return _cap(head, clean(_redacted(trace)))


def first_line(text: str) -> str:
    return text.partition("\n")[0]


def clean(text: str) -> str:
    """The text without what a store cannot keep: lone surrogates and NUL become escapes."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _snooze(claim: Claim, error: Snooze) -> Settlement:
    settlement = snoozed(claim, error.delay)
    if claim.delivery == "at_most_once":
        # this job id was executed and may not be again: its retry is a new job, as after a failure
        return msgspec.structs.replace(settlement, to="failed", error=clean(str(error)))
    return settlement


def handlers_own(error: BaseException) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """The error as `exc_info`, without the frames of the worker that led to the handler."""
    start = trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER):
        trace = trace.tb_next
    return type(error), error, trace or start


def _redacted(trace: str) -> str:
    # of a giant one, what is kept is its end
    return redact(trace, known()) if len(trace) <= _TRACE_LIMIT else redact_tail(trace, _TRACE_LIMIT, known())


def _cap(head: str, trace: str) -> str:
    room = ERROR_LIMIT - len(head.encode()) - 8
    encoded = trace.encode()
    if len(encoded) > room:
        # the end of a traceback is where it happened
        trace = "…" + encoded[-room:].decode(errors="ignore")
    return f"{head}\n\n{trace}".rstrip()
