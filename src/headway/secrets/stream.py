"""Stream: redacts text that comes in pieces, wherever the cuts fall."""

from __future__ import annotations

from collections.abc import Callable

from headway.secrets import values
from headway.secrets.redaction import redact, spans
from headway.secrets.values import Known

LINE = 8_192
"""How many characters of an unfinished line are held back."""
_MOST = 65_536


class Stream:
    """Gives text once it is certain: whole lines, without the beginning of what may become a secret.

    >>> stream = Stream()
    >>> stream.feed("one\\ntwo tok"), stream.feed("en=ab12\\nthr"), stream.close()
    ('one\\n', 'two token=[redacted]\\n', 'thr')
    """

    def __init__(self, known: Callable[[], Known] = values.process) -> None:
        self._known = known
        self._held = ""

    def feed(self, text: str) -> str:
        """Take more text; gives what may be shown now."""
        self._held += text
        cut = self._held.rfind("\n") + 1
        if len(self._held) - cut > LINE:
            cut = len(self._held)
        return self._give(cut)

    def flush(self) -> str:
        """Show the unfinished line, as for a prompt or a progress bar, except what may become a known value."""
        return self._give(len(self._held))

    def close(self) -> str:
        """The rest."""
        rest, self._held = self._held, ""
        return redact(rest, self._known())

    def _give(self, cut: int) -> str:
        held = self._held
        if not cut:
            return ""
        known = self._known()
        cut = min(cut, _begun(held, known))
        for start, end in spans(held, known):
            if start < cut and (end > cut or end == len(held)):
                cut = start  # it may go on
        if not cut and len(held) > _MOST:
            cut = len(held)
        self._held = held[cut:]
        return redact(held[:cut], known) if cut else ""


def _begun(text: str, known: Known) -> int:
    """Where a known value starts that the end of the text cuts; the text's length if there is none."""
    end = len(text)
    for form in known.forms:
        start = text.find(form[0], max(0, len(text) - len(form) + 1))
        while 0 <= start < end:
            if form.startswith(text[start:]):
                end = start
                break
            start = text.find(form[0], start + 1)
    return end
