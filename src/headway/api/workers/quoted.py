"""Output and errors of programs as workers report them, made safe to store and to show."""

from __future__ import annotations

from headway.define.context import NOTE_LIMIT, TAIL_LIMIT
from headway.secrets import redact, redact_head, redact_tail
from headway.worker.error_text import storable

_LONGEST_ERROR = 65_536


def quoted_error(text: str) -> str:
    """The text of an error without its secrets; what no store can keep, such as NUL, is escaped."""
    return redact_head(storable(text), _LONGEST_ERROR)


def quoted_note(text: str) -> str:
    return redact(storable(text))[:NOTE_LIMIT]


def quoted_log(text: str) -> str:
    return redact(storable(text))


def quoted_tail(text: str | None) -> str | None:
    """The end of what a program wrote."""
    return None if text is None else cut_tail(redact_tail(storable(text), TAIL_LIMIT))


def cut_tail(text: str) -> str:
    return text.encode()[-TAIL_LIMIT:].decode(errors="ignore")
