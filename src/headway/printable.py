"""Makes text safe for a terminal: characters that control it, or reverse the reading direction, become escapes."""

from __future__ import annotations

import re

# control characters but for newline and tab; marks and overrides of direction, which let a text read as another; line
# separators; what is invisible (BOM, annotations, tags); lone surrogates, which no stream takes
_CLASS = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff\\ufff9-\\ufffb"
    "\\U000e0000-\\U000e007f\\ud800-\\udfff"
)
_UNPRINTABLE = re.compile(f"[{_CLASS}]")
_AND_BREAKS = re.compile(f"[{_CLASS}\\n\\t]")


def printable(text: str) -> str:
    """The text with such characters as escapes; newlines and tabs stay.

    >>> printable("a\\x1b[2J\\u202eb\\r\\nc")
    'a\\\\x1b[2J\\\\u202eb\\nc'
    """
    return _UNPRINTABLE.sub(_escape, text.replace("\r\n", "\n")) if _UNPRINTABLE.search(text) else text


def printable_line(text: str) -> str:
    """The same on one line."""
    return _AND_BREAKS.sub(_escape, text)


def printable_json(text: str) -> str:
    """Equivalent JSON text, with such characters as JSON escapes: they only occur in strings."""
    return _UNPRINTABLE.sub(_json_escape, text) if _UNPRINTABLE.search(text) else text


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[index : index + 2].hex()}" for index in range(0, len(units), 2))
