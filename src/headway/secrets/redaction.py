"""Redaction: a text without the secrets that are in it, whether they are known or only look like one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from headway.secrets import patterns, values

REDACTED = "[redacted]"

_MARGIN = 4_096
# what JSON text is made of, as far as it can hold a value: strings, numbers
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*')


def redact(text: str) -> str:
    """The text with "[redacted]" for each secret: known values, and what looks like one.

    >>> redact("connecting to postgres://app:kj3h4@db/main with token=ab12")
    'connecting to postgres://app:[redacted]@db/main with token=[redacted]'
    """
    found = spans(text)
    return _without(text, found) if found else text


def redact_values(text: str) -> str:
    """The text without known values; what only looks like a secret stays."""
    found = list(_exact(text, values.forms()))
    return _without(text, found) if found else text


def redact_json(text: str) -> str:
    """JSON text without known values, still JSON: in strings they become "[redacted]", and a number that is one
    becomes that string. What only looks like a secret stays: a program may need it."""
    forms = values.forms()
    plain = [form for form in forms if form in text]
    if not forms or not (plain or _escapes_more(text)):
        return text

    def clean(match: re.Match[str]) -> str:
        token = match[0]
        if token[0] != '"':
            return f'"{REDACTED}"' if token in plain else token
        if "\\" not in token:
            inner = token[1:-1]
            return f'"{_without(inner, _exact(inner, plain))}"'
        text: str = json.loads(token, strict=False)
        found = list(_exact(text, forms))
        return json.dumps(_without(text, found), ensure_ascii=False) if found else token

    return _TOKEN.sub(clean, text)


def redact_head(text: str, limit: int) -> str:
    """The first `limit` characters of what the text becomes, and no piece of a secret at the cut."""
    margin = _margin()
    if len(text) <= limit + margin:
        return redact(text)[:limit]
    # a secret that is cut ends the window, so it is within the margin that falls away
    return redact(text[: limit + 2 * margin])[:-margin][:limit]


def redact_tail(text: str, limit: int) -> str:
    """The last `limit` characters, in the same way."""
    if limit <= 0:
        return ""
    margin = _margin()
    if len(text) <= limit + margin:
        return redact(text)[-limit:]
    return redact(text[-limit - 2 * margin :])[margin:][-limit:]


def spans(text: str) -> list[tuple[int, int]]:
    """Where the secrets stand, in order, without overlaps."""
    return list(_merged([*_exact(text, values.forms()), *patterns.spans(text)]))


def _margin() -> int:
    return max(values.longest(), _MARGIN)


def _exact(text: str, forms: Iterable[str]) -> Iterator[tuple[int, int]]:
    for form in forms:
        start = text.find(form)
        while start >= 0:
            yield start, start + len(form)
            start = text.find(form, start + 1)  # it may overlap itself


def _without(text: str, found: Iterable[tuple[int, int]]) -> str:
    pieces: list[str] = []
    place = 0
    for start, end in _merged(found):
        pieces += (text[place:start], REDACTED)
        place = end
    pieces.append(text[place:])
    return "".join(pieces)


def _merged(found: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Overlapping secrets as one: what is left of the shorter one would show a piece of it."""
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


def _escapes_more(text: str) -> bool:
    """Whether it has escapes that our own JSON would not, which may hide a value."""
    return "\\u" in text or "\\/" in text
