"""Output: text that a program or library writes in pieces, shown in the job's log in whole lines, without secrets."""

from __future__ import annotations

from collections.abc import Callable

from headway import secrets
from headway.secrets import Known

PIECE = 4_096
"""How many characters of an unfinished line wait before they are shown."""


class Output:
    """One stream of text. A line or a secret that a piece cuts in two waits for the rest."""

    __slots__ = ("_gap", "_keep", "_known", "_line", "_stream")

    def __init__(self, keep: Callable[[str], None], known: Callable[[], Known]) -> None:
        self._keep = keep
        self._known = known
        self._stream = secrets.Stream(known)
        self._line = 0  # characters of the unfinished line
        self._gap = 0  # characters still to leave out after a gap

    def write(self, text: str) -> None:
        """Add the next piece."""
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
        """Text is missing here: the note replaces it, and the unfinished line on either side, since half of a secret
        would not be recognised."""
        self._stream = secrets.Stream(self._known)
        self._line = 0
        self._gap = self._known().longest + PIECE
        self._keep(f"\n{note}\n")

    def close(self) -> None:
        """The stream has ended: show the rest."""
        rest = self._stream.close()
        self._stream = secrets.Stream(self._known)
        if self._gap:
            rest = self._after_gap(rest)
        if rest:
            self._keep(rest)

    def _after_gap(self, shown: str) -> str:
        """The text without the line that began in the gap, or without as many characters as the longest secret has.
        Cuts redacted text: a cut through the original could split the next secret."""
        newline = shown.find("\n", max(0, self._gap - PIECE))
        cut = self._gap if newline < 0 else min(self._gap, newline + 1)
        self._gap = 0 if newline >= 0 else max(0, self._gap - len(shown))
        return shown[cut:]
