"""Finds what answers a path: fixed paths by a lookup, others by a pattern among those that begin alike."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from headway.api.routes import PREFIX

Endpoint = Callable[[Request], Awaitable[Response]]
Methods = dict[str, Endpoint]

_BEGINNING = PREFIX.count("/") + 2  # parts of a path that say which patterns to try: "", api, v1, jobs
_PARAMETER = re.compile(r"{(\w+)}")
_SLASH = re.compile(rb"%2f", re.IGNORECASE)
_SENT_SLASH = "\ufdd0"  # a slash that was sent as %2F belongs to a name; no text has this character


class Router:
    """The endpoints by path and method. HEAD is answered as GET is; the server leaves out the body."""

    def __init__(self) -> None:
        self._fixed: dict[str, Methods] = {}
        self._patterns: dict[str, list[tuple[re.Pattern[str], Methods, bool]]] = {}
        self._by_path: dict[str, Methods] = {}

    def add(self, method: str, path: str, endpoint: Endpoint) -> None:
        methods = self._by_path.get(path)
        if methods is None:
            methods = self._by_path[path] = {}
            if "{" in path:
                # /trains/a/hold is what is done to the train a; of the train a/hold, the path is /trains/a%2Fhold
                ends_key = "{key}/" in path
                others = self._patterns.setdefault(_beginning(path), [])
                others.insert(0 if ends_key else len(others), (_pattern(path), methods, ends_key))
            else:
                self._fixed[path] = methods
        methods[method] = endpoint
        if method == "GET":
            methods["HEAD"] = endpoint

    def find(self, method: str, path: str) -> tuple[Endpoint | None, Mapping[str, str], set[str]]:
        """What answers, the parameters of the path, and the methods that the path has: none if it is not there."""
        fixed = self._fixed.get(path)
        if fixed is not None:
            return fixed.get(method), {}, set(fixed)
        allowed: set[str] = set()
        for pattern, methods, ends_key in self._patterns.get(_beginning(path), ()):
            found = pattern.fullmatch(path)
            if found is not None:
                allowed |= set(methods)
                if method in methods:
                    given = {name: value.replace(_SENT_SLASH, "/") for name, value in found.groupdict().items()}
                    return methods[method], given, allowed
                if ends_key:
                    break
        return None, {}, allowed


def sent_path(scope: Scope) -> str:
    """The path, decoded, in which a slash that was sent as %2F separates nothing: names may have slashes."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%2" in raw and _SLASH.search(raw):
        return unquote(_SLASH.sub(_SENT_SLASH.encode(), raw).decode(errors="replace"))
    path: str = scope["path"]
    return path


def _beginning(path: str) -> str:
    return "/".join(path.split("/", _BEGINNING)[:_BEGINNING])


def _pattern(path: str) -> re.Pattern[str]:
    """A parameter is one part of the path; a key, such as a train's, may also be several."""
    parts = _PARAMETER.split(path)  # text, name, text, name, …
    names = [f"(?P<{name}>{'.+' if name == 'key' else '[^/]+'})" for name in parts[1::2]]
    texts = [re.escape(text) for text in parts[::2]]
    return re.compile("".join(text + name for text, name in zip(texts, [*names, ""], strict=True)), re.DOTALL)
