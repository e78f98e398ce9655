"""Output and errors of programs as workers report them, made safe to store and to show."""

from __future__ import annotations

import re

from headway.define.context import NOTE_LIMIT, TAIL_LIMIT
from headway.secrets import REDACTED, redact, redact_head, redact_tail
from headway.worker.error_text import storable

_LONGEST_ERROR = 65_536
_MARGIN = 16_384  # longer than what looks like a secret is
_REST_OF_SECRET = re.compile(r"\A[^\s\"'`,;&)\]}]+")


def quoted_error(text: str) -> str:
    """The text of an error without its secrets; what no store can keep, such as NUL, is escaped."""
    return redact_head(storable(text), _LONGEST_ERROR)


def quoted_note(text: str) -> str:
    return redact(storable(text))[:NOTE_LIMIT]


def quoted_log(before: str, text: str) -> tuple[str, int]:
    """The end of a log with the text that is new, and by how many characters it grew. A worker sends what its program
    wrote until then, so that one heartbeat may end within a secret, and the next begin there."""
    new = storable(text)
    if before.endswith(REDACTED):
        new = _REST_OF_SECRET.sub("", new)
    kept = max(0, len(before) - _MARGIN)  # what is there has no secrets but one whose end is new
    joined = before[:kept] + redact(before[kept:] + new)
    return cut_tail(joined), max(0, len(joined) - len(before))


def quoted_tail(text: str | None) -> str | None:
    """The end of what a program wrote."""
    return None if text is None else cut_tail(redact_tail(storable(text), TAIL_LIMIT))


def cut_tail(text: str) -> str:
    return text.encode()[-TAIL_LIMIT:].decode(errors="ignore")
