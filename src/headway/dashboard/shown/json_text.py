"""JSON as it is stored: numbers whole, keys in their order, long parts folded. Nothing of it is parsed into numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from markupsafe import Markup, escape

from headway.printable import printable

_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([{}\[\],:])|([^\s{}\[\],:"]+))', re.S)
_LONGEST = 200_000  # characters of JSON that are laid out; what is longer is shown as text, cut
_LONG_TEXT = 400
_FOLD_FROM = 12  # lines of an object or list that is inside another


def json_html(text: str | None) -> Markup:
    """JSON text as a page shows it; what is not JSON is shown as text."""
    if text is None:
        return Markup('<span class="muted">none</span>')
    if len(text) > _LONGEST:
        more = f"… {len(text) - _LONGEST:,} more characters"
        return Markup("{}<span class=muted>{}</span>").format(printable(text[:_LONGEST]), more)
    try:
        tokens = list(_tokens(text))
        lines = _lines(tokens)
    except ValueError:
        return escape(printable(text))
    return _folded(lines)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    end = len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError("not JSON")
        string, mark, word = found.groups()
        at = found.end()
        yield ("s", string) if string else ("mark", mark) if mark else ("word", word)


class _Line:
    __slots__ = ("closes", "depth", "html", "opens")

    def __init__(self, depth: int) -> None:
        self.depth, self.html = depth, Markup("")
        self.opens = self.closes = False


def _lines(tokens: list[tuple[str, str]]) -> list[_Line]:
    """One line for each member, as `json.dumps(indent=2)` has it."""
    lines, depth = [_Line(0)], 0
    for index, (kind, text) in enumerate(tokens):
        line = lines[-1]
        following = tokens[index + 1][1] if index + 1 < len(tokens) else ""
        if kind == "mark" and text in "{[":
            line.html += text
            depth += 1
            if following not in "}]" or not following:
                line.opens = True
                lines.append(_Line(depth))
        elif kind == "mark" and text in "}]":
            depth -= 1
            if depth < 0:
                raise ValueError("not JSON")
            if tokens[index - 1][1] not in "{[" or tokens[index - 1][0] != "mark":
                lines.append(_Line(depth))
                lines[-1].closes = True
            lines[-1].html += text
        elif kind == "mark" and text == ",":
            line.html += ","
            lines.append(_Line(depth))
        elif kind == "mark":
            line.html += ": "
        elif kind == "s":
            line.html += _string(text, is_key=following == ":")
        else:
            shape = "n" if text[0] in "-0123456789" else "w"
            line.html += Markup('<span class="{}">{}</span>').format(shape, printable(text))
    return lines


def _string(text: str, *, is_key: bool) -> Markup:
    shown = printable(text)
    if is_key:
        return Markup('<span class="k">{}</span>').format(shown)
    if len(shown) <= _LONG_TEXT:
        return Markup('<span class="s">{}</span>').format(shown)
    head = Markup('<details><summary><span class="s">{}</span>… {} more characters</summary>').format(
        shown[:_LONG_TEXT], f"{len(shown) - _LONG_TEXT:,}"
    )
    return head + Markup('<span class="s">{}</span></details>').format(shown[_LONG_TEXT:])


def _folded(lines: list[_Line]) -> Markup:
    """The lines, with long parts inside others folded."""
    closing: dict[int, int] = {}
    open_at: list[int] = []
    for index, line in enumerate(lines):
        if line.closes and open_at:
            closing[open_at.pop()] = index
        if line.opens:
            open_at.append(index)
    parts: list[Markup] = []
    ends: set[int] = set()
    for index, line in enumerate(lines):
        if index in ends:
            parts.append(Markup("</details>"))
        parts.append(Markup("  ") * line.depth + line.html)
        end = closing.get(index)
        if line.opens and line.depth > 0 and end is not None and end - index > _FOLD_FROM:
            parts.append(Markup("<details><summary> {} lines</summary>\n").format(end - index - 1))
            ends.add(end)
        elif index + 1 < len(lines):
            parts.append(Markup("\n"))
    return Markup("").join(parts)


def as_text(value: Any) -> str | None:
    """The JSON text of a value that came from the API: stored text as it is."""
    if value is None:
        return None
    return bytes(value).decode() if isinstance(value, msgspec.Raw) else msgspec.json.encode(value).decode()
