"""Redaction: removes secrets from a text, known values as well as what looks like a secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headway.secrets import patterns, values
from headway.secrets.values import Known

REDACTED = "[redacted]"

_MARGIN = 4_096


def redact(text: str, known: Known | None = None) -> str:
    """The text with "[redacted]" for each secret: known values, by default those of the process, and what looks like a
    secret.

    >>> redact("connecting to postgres://app:kj3h4@db/main with token=ab12")
    'connecting to postgres://app:[redacted]@db/main with token=[redacted]'
    """
    known = known or values.process()
    if not _may_hold_one(text, known.forms):
        return text
    found = spans(text, known)
    return _without(text, found) if found else text


def redact_head(text: str, limit: int, known: Known | None = None) -> str:
    """The first `limit` characters of the redacted text, without part of a secret at the cut."""
    known = known or values.process()
    margin = max(known.longest, _MARGIN)
    if len(text) <= limit + margin:
        return redact(text, known)[:limit]
    # a secret that the window cuts lies at its end, within the margin that is dropped
    return redact(text[: limit + 2 * margin], known)[:-margin][:limit]


def redact_tail(text: str, limit: int, known: Known | None = None) -> str:
    """The last `limit` characters, in the same way."""
    if limit <= 0:
        return ""
    known = known or values.process()
    margin = max(known.longest, _MARGIN)
    if len(text) <= limit + margin:
        return redact(text, known)[-limit:]
    return redact(text[-limit - 2 * margin :], known)[margin:][-limit:]


def spans(text: str, known: Known | None = None) -> list[tuple[int, int]]:
    """The spans of the secrets, in order, without overlaps."""
    forms = (known or values.process()).forms
    return list(_merged([*_exact(text, forms), *patterns.spans(text)]))


def _may_hold_one(text: str, forms: Iterable[str]) -> bool:
    """Whether it is worth looking for spans: most texts hold nothing that even begins like a secret."""
    for form in forms:
        if form in text:
            return True
    return patterns.may_hold_one(text)


def _exact(text: str, forms: Iterable[str]) -> Iterator[tuple[int, int]]:
    for form in forms:
        start = text.find(form)
        while start >= 0:
            yield start, start + len(form)
            start = text.find(form, start + 1)  # it may overlap itself


def _without(text: str, found: Iterable[tuple[int, int]]) -> str:
    pieces: list[str] = []
    written = 0
    for start, end in _merged(found):
        pieces += (text[written:start], REDACTED)
        written = end
    pieces.append(text[written:])
    return "".join(pieces)


def _merged(found: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Merge overlapping secrets: else the rest of the shorter one would show."""
    begin = end = -1
    for start, stop in sorted(found):
        if start > end:
            if begin >= 0:
                yield begin, end
            begin, end = start, stop
        elif stop > end:
            end = stop
    if begin >= 0:
        yield begin, end
