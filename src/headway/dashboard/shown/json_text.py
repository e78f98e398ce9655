"""JSON as it is stored: numbers whole, keys in their order, long parts folded. Nothing of it is parsed into numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from markupsafe import Markup, escape

from headway.printable import printable
from headway.secrets import REDACTED, is_secret_name, redact
from headway.secrets.references import REFERENCE

_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([{}\[\],:])|([^\s{}\[\],:"]+))', re.S)
_LONGEST = 200_000  # characters of JSON that are laid out whole
_BEGINNING = 20_000  # of what is longer
_LONG_TEXT = 400
_REDACTED, _REFERENCE = f'"{REDACTED}"', f'"{REFERENCE}"'
_HARMLESS = ("null", "true", "false", '""')
_FOLD_FROM = 12  # lines of an object or list that is inside another


def json_html(text: str | None) -> Markup:
    """JSON text as a page shows it, of a long one the beginning; what is not JSON is shown as text."""
    if text is None:
        return Markup('<span class="muted">none</span>')
    if len(text) > _LONGEST:
        more = f"{len(text) - _BEGINNING:,} more characters"
        return json_beginning(text[:_BEGINNING]) + Markup('\n<span class="muted">… {}</span>').format(more)
    try:
        lines = _lines(_masked(text))
    except ValueError:
        return escape(printable(redact(text)))
    return _folded(lines)


def json_beginning(text: str) -> Markup:
    """The same of JSON that was cut anywhere: a token that is not whole is left out."""
    try:
        return _folded(_lines(_masked(text, cut=True)))
    except ValueError:
        return escape(printable(redact(text)))


def masked_json(text: str) -> str:
    """The same JSON with "[redacted]" for what is, or looks like, a secret; what is not JSON as text without them."""
    try:
        tokens = _masked(text)
    except ValueError:
        return redact(text)
    return "".join(f"{part} " if part in (",", ":") else part for _, part in tokens)


def is_long(text: str | None) -> bool:
    """Whether a page shows only its beginning."""
    return text is not None and len(text) > _LONGEST


def _tokens(text: str, *, cut: bool) -> Iterator[tuple[str, str]]:
    at = 0
    end = len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            if cut and text[at:].lstrip().startswith('"'):
                return
            raise ValueError("not JSON")
        string, mark, word = found.groups()
        at = found.end()
        yield ("s", string) if string else ("mark", mark) if mark else ("word", word)


def _masked(text: str, *, cut: bool = False) -> list[tuple[str, str]]:
    """The tokens, without what a name or the look of a value says is secret. References to secrets stay."""
    tokens = list(_tokens(text, cut=cut))
    if _may_hold_secrets(text):
        tokens = [("s", redact(part)) if kind == "s" else (kind, part) for kind, part in tokens]
    shown: list[tuple[str, str]] = []
    at = 0
    while at < len(tokens):
        shown.append(tokens[at])
        at += 1
        named = len(shown) > 1 and shown[-1] == ("mark", ":") and is_secret_name(_name(shown[-2][1]))
        if named and at < len(tokens):
            end = _end_of_value(tokens, at, cut=cut)
            value = tokens[at:end]
            hidden = value[0][1] not in _HARMLESS and [part for _, part in value[:2]] != ["{", _REFERENCE]
            shown += [("masked", _REDACTED)] if hidden else value
            at = end
    return shown


def _may_hold_secrets(text: str) -> bool:
    return redact(text) != text


def _name(token: str) -> str:
    try:
        return str(msgspec.json.decode(token))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return token.strip('"')


def _end_of_value(tokens: list[tuple[str, str]], at: int, *, cut: bool) -> int:
    depth = 0
    for index in range(at, len(tokens)):
        kind, part = tokens[index]
        if kind == "mark":
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(part, 0)
        if depth < 0:
            raise ValueError("not JSON")
        if depth == 0:
            return index + 1
    if cut:
        return len(tokens)
    raise ValueError("not JSON")


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
        elif kind == "masked":
            line.html += Markup('<span class="masked">{}</span>').format(text)
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
    if len(shown) <= _LONG_TEXT * 5 // 4:  # nobody unfolds a word
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


def kept_secrets(text: str, stored: str | None) -> str:
    """A payload that a person filled in, with the stored values for what was masked and left alone."""
    if stored is None or REDACTED not in text:
        return text
    given, before = _members(text), _members(stored)
    if given is None or before is None:
        return text
    masked = _members(masked_json(stored)) or {}
    kept = {
        name: before[name] if name in before and value == masked.get(name) != before[name] else value
        for name, value in given.items()
    }
    return _object(kept)


def without_redacted(text: str) -> str:
    """An object without the members that stand for secrets which are not shown."""
    found = _members(text)
    return text if found is None else _object({name: value for name, value in found.items() if REDACTED not in value})


def _object(members: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{msgspec.json.encode(name).decode()}: {value}" for name, value in members.items()) + "}"


def _members(text: str) -> dict[str, str] | None:
    """The members of a JSON object, each as its own text."""
    try:
        found = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return None
    return {name: bytes(value).decode().strip() for name, value in found.items()}
