"""The text of an error as it is stored and logged: cut to size, without secrets, without the worker's own frames."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from headway.logs import known
from headway.secrets import redact, redact_head, redact_tail

ERROR_LIMIT = 16_384  # bytes
TRACE_AFTER = "\n\n"
"""Between an error's message and its traceback."""
_MESSAGE_LIMIT = 4_096
_TRACE_LIMIT = 262_144
_OWN_FOLDER = str(Path(__file__).parent)


def error_text(error: BaseException) -> str:
    """ "Type: message" and the traceback from the handler on: up to 16 KiB of text that a store can keep."""
    try:
        message = str(error)
    except Exception as fault:
        message = f"(its message raised {type(fault).__name__})"
    message = shown_message(message)
    head = storable(f"{type(error).__qualname__}: {message}" if message else type(error).__qualname__)
    try:
        trace = "".join(traceback.format_exception(*handler_exc_info(error)))
    except Exception as fault:
        trace = f"(no traceback: {type(fault).__name__})"
    return _cap(head, storable(_redacted(trace)))


def shown_message(message: str) -> str:
    """The beginning of an error's message, without secrets."""
    # before anything is cut: half of a secret would not be recognised
    shown = redact_head(message, _MESSAGE_LIMIT, known())
    return shown if len(message) <= _MESSAGE_LIMIT else shown + " …"


def first_line(text: str) -> str:
    return text.partition("\n")[0]


def storable(text: str) -> str:
    """The text without what a store cannot hold: lone surrogates and NUL become escapes."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def handler_exc_info(error: BaseException) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """The error as `exc_info`, without the frames of the worker that led to the handler."""
    start = trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER):
        trace = trace.tb_next
    return type(error), error, trace or start


def _redacted(trace: str) -> str:
    # of a huge traceback the end is kept
    return redact(trace, known()) if len(trace) <= _TRACE_LIMIT else redact_tail(trace, _TRACE_LIMIT, known())


def _cap(head: str, trace: str) -> str:
    room = ERROR_LIMIT - len(head.encode()) - 8
    encoded = trace.encode()
    if len(encoded) > room:
        # the end of a traceback says where it happened
        trace = "…" + encoded[-room:].decode(errors="ignore")
    return f"{head}\n\n{trace}".rstrip()
