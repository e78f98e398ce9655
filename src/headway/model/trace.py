"""The trace that a job belongs to: every job has one, from its enqueue on.

What came with the job is kept as one text, `trace_id`: a W3C `traceparent`, which a space and a `tracestate` may
follow, or any other id. A job that came without takes its own id, whose 128 bits are a valid trace id: nothing is
stored for it.
"""

from __future__ import annotations

import re

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})(?P<trace>[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<more>-[!-~]*)?\Z"
)
_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}\Z")
_LONGEST_STATE = 512
_STATE = re.compile(r"[ -~\t]*\Z")


def trace_id(given: str | None, job_id: str) -> str:
    """The id of the trace, as log lines have it: 32 hex digits, or the caller's own id."""
    if given is None:
        return job_id.replace("-", "")
    found = _TRACEPARENT.match(given.partition(" ")[0])
    return given if found is None else found["trace"]


def traceparent(given: str | None, job_id: str) -> str:
    """The `traceparent` to hand on: the one that came, or one with the trace's id and a span named after the job."""
    given = given or ""
    parent = given.partition(" ")[0]
    if _TRACEPARENT.match(parent):
        return parent
    own = job_id.replace("-", "")
    return f"00-{given if _TRACE_ID.match(given) else own}-{own[16:]}-01"


def tracestate(given: str | None) -> str | None:
    """The `tracestate` that came with the `traceparent`."""
    parent, _, state = (given or "").partition(" ")
    return state if state and _TRACEPARENT.match(parent) else None


def is_traceparent(text: str | None) -> bool:
    """Whether this names a span to continue, and not only a trace."""
    return text is not None and _TRACEPARENT.match(text.partition(" ")[0]) is not None


def carried(parent: str | None, state: str | None = None) -> str | None:
    """What a job keeps of the two W3C headers; None where the first is not valid: the second means nothing alone."""
    if not parent or not is_traceparent(parent) or " " in parent:
        return None
    if not state or len(state) > _LONGEST_STATE or not _STATE.match(state):
        return parent
    return f"{parent} {state}"
