"""Payload templates: `{{event.a.b}}` is looked up, typed and put in; there is no code in it, and no second pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from headway.errors import RenderError
from headway.model.codec import DEEPEST
from headway.secrets import REFERENCE, first_reference

# linear: what is between braces holds none, and is no longer than a path can be
_PLACE = re.compile(r"\\\{\{|\{\{([^{}]{0,1024})\}\}")
_PATH = re.compile(r"\s*([A-Za-z_][\w-]*(?:\.[\w-]+){0,31})(\?)?\s*\Z")
_REFERENCE = f'"{REFERENCE}"'.encode()
_MISSING = object()


def placeholders(template: Any) -> list[str]:
    """The paths that a template looks up, for a check before it is stored; raises `RenderError` for what is no path.

    >>> placeholders({"to": "{{event.user.mail}}", "subject": "Hello {{event.user.name?}}"})
    ['event.user.mail', 'event.user.name']
    """
    return [_path(inner)[0] for text in _texts(template) for inner in _inners(text)]


def render(template: Any, names: Mapping[str, Any], *, limit: int) -> Any:
    """The template with every placeholder filled: a text that is only a placeholder becomes the value, as it is; inside
    a longer text it becomes text (a list or object as JSON, null as nothing). `\\{{` stands for two braces.

    Raises `RenderError` for a path that leads nowhere (`{{event.a?}}` may: null), and for more than `limit` bytes.
    """
    return _Rendering(names, limit).fill(template, "$", 0)


class _Rendering:
    def __init__(self, names: Mapping[str, Any], limit: int) -> None:
        self._names = names
        self._limit = limit
        self._left = limit
        self._sizes: dict[str, int] = {}

    def fill(self, value: Any, where: str, depth: int) -> Any:
        if depth > DEEPEST:
            raise RenderError(f"the payload template is nested deeper than {DEEPEST} levels at {where[:80]}…")
        match value:
            case str():
                return self._text(value, where)
            case dict():
                _check_reference(value)
                return {name: self.fill(inner, f"{where}.{name}", depth + 1) for name, inner in value.items()}
            case list():
                return [self.fill(inner, f"{where}[{index}]", depth + 1) for index, inner in enumerate(value)]
        return value

    def _text(self, text: str, where: str) -> Any:
        alone = _PLACE.fullmatch(text)
        if alone is not None and alone[1] is not None:
            return self._value(alone[1], where)
        if "{{" not in text:
            return text
        _check_closed(text)
        return _PLACE.sub(lambda match: "{{" if match[1] is None else _shown(self._value(match[1], where)), text)

    def _value(self, inner: str, where: str) -> Any:
        path, optional = _path(inner)
        value = _look_up(self._names, path)
        if value is _MISSING:
            if optional:
                return None
            raise RenderError(
                f"{where}: {{{{{path}}}}} leads nowhere{_nearest(self._names, path)}; write {{{{{path}?}}}} where it "
                "may be missing"
            )
        if path not in self._sizes:
            text = msgspec.json.encode(value)
            # the sender of an event may not choose which secrets the job is given
            if _REFERENCE in text and first_reference(value) is not None:
                raise RenderError(
                    f'{where}: {{{{{path}}}}} holds a reference to a secret ("$secret"), and those are only taken '
                    "from the payload template itself"
                )
            self._sizes[path] = len(text)
        # the sum, and before it is built: a few placeholders can stand for more than memory has
        self._left -= self._sizes[path]
        if self._left < 0:
            raise RenderError(f"{where}: the payload would have more than {self._limit:,} bytes")
        return value


def _check_reference(value: Mapping[str, Any]) -> None:
    name = value.get(REFERENCE)
    if isinstance(name, str) and "{{" in name:
        raise RenderError(f'"$secret": {name[:80]!r} is looked up, and the name of a secret must be written out')


def _look_up(value: Any, path: str) -> Any:
    """By keys of objects and positions in lists, nothing else."""
    for step in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(step, _MISSING)
        elif isinstance(value, list) and step.isascii() and step.isdigit() and len(step) < 10:
            value = value[int(step)] if int(step) < len(value) else _MISSING
        else:
            return _MISSING
        if value is _MISSING:
            return value
    return value


def look_up(names: Mapping[str, Any], path: str) -> tuple[bool, Any]:
    """Whether a path leads somewhere, and to what."""
    value = _look_up(names, path)
    return (False, None) if value is _MISSING else (True, value)


def _shown(value: Any) -> str:
    match value:
        case str():
            return value
        case None:
            return ""
    return msgspec.json.encode(value).decode()


def _path(inner: str) -> tuple[str, bool]:
    match = _PATH.match(inner)
    if match is None:
        shown = inner if len(inner) < 80 else inner[:80] + "…"
        raise RenderError(
            f"{{{{{shown}}}}} is no path: write names with dots, like {{{{event.folder.id}}}}; there are no filters, "
            "there is no code, and \\{{ stands for two braces"
        )
    return match[1], match[2] is not None


def _inners(text: str) -> Iterator[str]:
    for match in _PLACE.finditer(text):
        if match[1] is not None:
            yield match[1]
    _check_closed(text)


def _check_closed(text: str) -> None:
    if "{{" in _PLACE.sub("", text):
        raise RenderError("a text has {{ without }}, or braces inside: write \\{{ where two braces are meant")


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    if depth > DEEPEST:
        raise RenderError(f"the payload template is nested deeper than {DEEPEST} levels")
    match value:
        case str():
            yield value
        case dict():
            _check_reference(value)
            for inner in value.values():
                yield from _texts(inner, depth + 1)
        case list():
            for inner in value:
                yield from _texts(inner, depth + 1)


def _nearest(names: Mapping[str, Any], path: str) -> str:
    """What is there instead, as far as the path leads."""
    steps = path.split(".")
    for count in range(len(steps) - 1, -1, -1):
        found, value = look_up(names, ".".join(steps[:count])) if count else (True, names)
        if found:
            parent = ".".join(steps[:count]) or "here"
            if isinstance(value, Mapping):
                return f": {parent} has {_some(value)}"
            return f": {parent} is {type(value).__name__} and has nothing inside"
    return ""


def _some(value: Mapping[str, Any]) -> str:
    names = [str(name)[:40] for name in list(value)[:8]]
    return (", ".join(names) + (", …" if len(value) > 8 else "")) or "nothing"
