"""Output: text of a program or a library that comes in pieces, let into a job's log in whole lines, without secrets."""

from __future__ import annotations

from collections.abc import Callable

from headway import secrets
from headway.secrets import Known

PIECE = 4_096
"""How long a line may get before a part of it is shown."""


class Output:
    """One stream of text. What a piece cuts in two, a line or a secret, waits for the rest of it."""

    __slots__ = ("_gap", "_keep", "_known", "_line", "_stream")

    def __init__(self, keep: Callable[[str], None], known: Callable[[], Known]) -> None:
        self._keep = keep
        self._known = known
        self._stream = secrets.Stream(known)
        self._line = 0  # characters since the last that was shown
        self._gap = 0  # characters that are still left out after a gap

    def write(self, text: str) -> None:
        """Add what comes next."""
        shown = self._stream.feed(text)
        newline = text.rfind("\n")
        self._line = self._line + len(text) if newline < 0 else len(text) - newline - 1
        if self._line >= PIECE:
            shown += self._stream.flush()
            self._line = 0
        if self._gap:
            shown = self._after_gap(shown)
        if shown:
            self._keep(shown)

    def skip(self, note: str) -> None:
        """Something is missing here: the note takes its place, and with it goes the unfinished line on either side,
        since the half of a secret would not be known as one."""
        self._stream = secrets.Stream(self._known)
        self._line = 0
        self._gap = self._known().longest + PIECE
        self._keep(f"\n{note}\n")

    def close(self) -> None:
        """There is no more."""
        rest = self._stream.close()
        self._stream = secrets.Stream(self._known)
        if self._gap:
            rest = self._after_gap(rest)
        if rest:
            self._keep(rest)

    def _after_gap(self, shown: str) -> str:
        """What is left once the line that began in the gap is gone, or as much as a secret can be. Of what was already
        redacted: a cut through the text itself could go through the next secret."""
        newline = shown.find("\n", max(0, self._gap - PIECE))
        cut = self._gap if newline < 0 else min(self._gap, newline + 1)
        self._gap = 0 if newline >= 0 else max(0, self._gap - len(shown))
        return shown[cut:]
