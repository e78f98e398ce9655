"""Makes text safe for a terminal, where characters that control it, or reverse the reading direction, become escapes,
and for a spreadsheet."""

from __future__ import annotations

import re

# control characters but for newline and tab; marks and overrides of direction, which let a text read as another; line
# separators; what is invisible (BOM, annotations, tags); lone surrogates, which no stream takes
UNPRINTABLE = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff\\ufff9-\\ufffb"
    "\\U000e0000-\\U000e007f\\ud800-\\udfff"
)
_UNPRINTABLE = re.compile(f"[{UNPRINTABLE}]")
_AND_BREAKS = re.compile(f"[{UNPRINTABLE}\\n\\t]")
_UNSHOWN = "\\s\\0-\\x1f\\x7f-\\xa0\\xad\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f\\ufeff"
# what a spreadsheet takes for a formula, also after what it does not show, or for the end of a cell
_FORMULA = re.compile(f"[\\t\\r\\n]|[{_UNSHOWN}]*[-=+@＝＋－＠]")
# the same where a spreadsheet with another separator begins a cell; matches every separator: no text is read twice
_CELL_BEGINS = re.compile(f'([;\\t\\r\\n][{_UNSHOWN}"]*)([-=+@＝＋－＠])?')


def printable(text: str) -> str:
    """The text with such characters as escapes; newlines and tabs stay.

    >>> printable("a\\x1b[2J\\u202eb\\r\\nc")
    'a\\\\x1b[2J\\\\u202eb\\nc'
    """
    return _UNPRINTABLE.sub(_escape, text.replace("\r\n", "\n")) if _UNPRINTABLE.search(text) else text


def printable_line(text: str) -> str:
    """The same on one line."""
    return _AND_BREAKS.sub(_escape, text)


def is_printable_line(text: str) -> bool:
    """Whether nothing of the text would become an escape."""
    return _AND_BREAKS.search(text) is None


def printable_json(text: str) -> str:
    """Equivalent JSON text, with such characters as JSON escapes: they only occur in strings."""
    return _UNPRINTABLE.sub(_json_escape, text) if _UNPRINTABLE.search(text) else text


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[index : index + 2].hex()}" for index in range(0, len(units), 2))


def cell_text(text: str) -> str:
    """The text of a CSV cell, with an apostrophe before what a spreadsheet would take for a formula.

    >>> cell_text("=1+1"), cell_text("a;=1+1"), cell_text("a - b")
    ("'=1+1", "a;'=1+1", 'a - b')
    """
    text = _CELL_BEGINS.sub(lambda found: f"{found[1]}'{found[2]}" if found[2] else found[0], text)
    return f"'{text}" if _FORMULA.match(text) else text
