"""A program's output as text: live in the job's log, and its tails at the end."""

from __future__ import annotations

import codecs

from headway import secrets
from headway.define.context import Context
from headway.secrets import Known

_MARGIN = 4_096
_utf8 = codecs.getincrementaldecoder("utf-8")


class LiveOutput:
    """One output of a running program, on its way from bytes into the job's log."""

    def __init__(self, ctx: Context, name: str) -> None:
        self._ctx = ctx
        self._name = name
        self._decoder = _utf8("backslashreplace")

    def write(self, skipped: int, data: bytes) -> None:
        if skipped:
            self._decoder.reset()
            self._ctx.output_gap(f"[… {skipped:,} bytes of {self._name} not shown]", stream=self._name)
        self._ctx.output(_storable(self._decoder.decode(data)), stream=self._name)

    def close(self) -> None:
        self._ctx.output(self._decoder.decode(b"", final=True), stream=self._name)


def _storable(text: str) -> str:
    return text.replace("\0", "\\x00")


def tail(data: bytes, size: int, limit: int, known: Known) -> str:
    """The end of an output as text of at most `limit` bytes, without secrets, even one that the cut split."""
    text = secrets.redact(_storable(data.decode("utf-8", "backslashreplace")), known)
    if size > len(data):
        text = text[margin(known) :]
    encoded = text.encode()
    return text if len(encoded) <= limit else encoded[len(encoded) - limit :].decode(errors="ignore")


def margin(known: Known) -> int:
    """How many characters at the start of a tail are dropped, since the cut may have split a secret there."""
    return max(known.longest, _MARGIN)
