"""The values that must not be shown, in every form in which they may turn up."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from headway.secrets.names import is_secret_name, is_secret_variable

SHORTEST = 4
"""Shorter values would be found in every text."""
SHORTEST_VARIABLE = 8
"""The same for a variable that only looks like a secret."""
OURS = "HEADWAY_"
"""The prefix of Headway's own variables."""

# common in development settings and not secret: hiding them would garble every text
_COMMON = re.compile(
    "admin123|anonymous|change-?it|change-?me|database|development|disabled|guestguest|headway|insecure|localhost"
    "|minioadmin|notasecret|password1?|placeholder|postgres|postgresql|production|rabbitmq|required|testtest|undefined"
    "|username",
    re.IGNORECASE,
)
_USERINFO = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#:@]*:([^\s/]+)@")
_LINE = 16
_CORE = 8
_LONGEST = 262_144  # longer than a variable can be


class Known:
    """Values to hide, as all texts that they may appear as, longest first."""

    __slots__ = ("forms", "longest")

    def __init__(self, values: Iterable[str] = ()) -> None:
        found = {form for value in values for form in _forms_of(value)}
        self.forms = tuple(sorted(found, key=lambda form: (-len(form), form)))
        self.longest = len(self.forms[0]) if self.forms else 0
        """The length of the longest: no value that starts further before a cut can cross it."""


_lock = threading.Lock()
_own: dict[str, None] = {}  # the engine's: passwords of its databases
_resolved: dict[str, None] = {}  # given to any execution of this process
_views: dict[str, tuple[Any, Known]] = {}  # by name, with the environment that it was made from
_revision = 0  # of the engine's values


def add_own(value: str) -> None:
    """From now on hide this value of the engine everywhere; well-known values are ignored."""
    global _revision
    if value not in _own and _is_worth_hiding(value):
        with _lock:
            _own[value] = None
            _views.clear()
            _revision += 1


def add_resolved(value: str) -> None:
    """From now on hide this value in what the process itself logs."""
    if value not in _resolved and len(value.strip()) >= SHORTEST:
        with _lock:
            _resolved[value] = None
            _views.clear()


def forget() -> None:
    """Forget every value that was added: for tests."""
    global _revision
    with _lock:
        _own.clear()
        _resolved.clear()
        _views.clear()
        _revision += 1


def revision() -> int:
    """Changes with the engine's values."""
    return _revision


def own() -> Known:
    """What is hidden everywhere: the engine's own values."""
    return _view("own", own_values)


def process() -> Known:
    """What is hidden in lines that the process logs outside any job: also the secrets of its environment and all that
    its executions were given."""
    return _view("process", lambda: [*_own, *_resolved, *(value for _, value in guessed())])


def own_values() -> list[str]:
    return [*_own, *(value for name, value in guessed() if name.upper().startswith(OURS) or name == "PGPASSWORD")]


def environment() -> Any:
    """The environment, to see whether it changed. The raw mapping if there is one: comparing it costs a fiftieth of
    decoding it."""
    return getattr(os.environ, "_data", None) or dict(os.environ)


def guessed() -> Iterator[tuple[str, str]]:
    """Variables that look like secrets, with the secret part: all of it, by the name, or the password of a URL."""
    for name in list(os.environ):
        # another thread may delete it meanwhile
        for value in guess(name, os.environ.get(name, "")):
            yield name, value


def guess(name: str, value: str) -> Iterator[str]:
    """The secret part of this variable, as far as it can be recognised."""
    if len(value) < SHORTEST_VARIABLE:
        return
    userinfo = _USERINFO.match(value)
    if userinfo is not None:
        for password in {userinfo[1], unquote(userinfo[1])}:
            if _is_serious(password):
                yield password
    elif is_secret_variable(name) and _is_serious(value) and not _is_path(value):
        yield value


def _view(name: str, values: Any) -> Known:
    found = _views.get(name)
    if found is None or found[0] != environment():
        with _lock:
            seen = dict(environment())
            found = _views[name] = (seen, Known(values()))
    return found[1]


def _is_serious(value: str) -> bool:
    return len(value.strip()) >= SHORTEST_VARIABLE and _is_worth_hiding(value)


def _is_worth_hiding(value: str) -> bool:
    return len(value.strip()) >= SHORTEST and _COMMON.fullmatch(value.strip()) is None


def _is_path(value: str) -> bool:
    """Whether it is the path of a file, as SSL_KEY may hold."""
    if not value.startswith(("/", "./", "~/")) or len(value) > 4_096:
        return False
    try:
        return os.path.exists(os.path.expanduser(value))
    except (OSError, ValueError):
        return False


@lru_cache(maxsize=256)
def _forms_of(value: str) -> tuple[str, ...]:
    found = {form for part in _parts(value) for form in _spellings(part)}
    return tuple(form for form in found if len(form) >= SHORTEST)


def _parts(value: str) -> Iterator[str]:
    """The value, stripped, and its parts that may turn up alone."""
    value = value[:_LONGEST].strip()
    yield value
    lines = value.splitlines()
    if len(lines) > 1:
        # such as a private key: a text may show single lines of it
        for line in lines:
            if len(line.strip()) >= _LINE and not line.startswith("-----"):
                yield line.strip()
    if value.startswith("{"):
        with contextlib.suppress(ValueError, RecursionError):
            yield from _secrets_of(json.loads(value))
    elif (userinfo := _USERINFO.match(value)) is not None:
        yield userinfo[1]
        yield unquote(userinfo[1])


def _secrets_of(document: Any) -> Iterator[str]:
    """The secret fields of credentials in a JSON document."""
    if isinstance(document, dict):
        for name, value in document.items():
            if isinstance(value, str):
                if len(value) >= SHORTEST_VARIABLE and is_secret_name(str(name)):
                    yield value.strip()
                    yield from (line for line in value.splitlines() if len(line) >= _LINE and line[0] != "-")
            else:
                yield from _secrets_of(value)


def _spellings(value: str) -> Iterator[str]:
    """How programs write it: plain, escaped as JSON, Python, URL or HTML, in hex, and in base64."""
    raw = value.encode("utf-8", "surrogateescape" if _is_undecoded(value) else "replace")
    yield value
    yield value.encode("utf-8", "backslashreplace").decode()
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield json.dumps(json.dumps(value)[1:-1])[1:-1]
    yield repr(value)[1:-1]
    yield repr(raw)[2:-1]
    yield html.escape(value)
    for safe in ("", "/"):
        quoted = quote(raw, safe=safe)
        yield quoted
        yield re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), quoted)
    yield quote_plus(raw)
    if len(raw) >= 6:
        yield raw.hex()
        yield raw.hex().upper()
    for coder in (base64.b64encode, base64.urlsafe_b64encode):
        yield coder(raw).decode().rstrip("=")
        for shift in (0, 1, 2):
            # inside a longer text both ends depend on what is around: only the middle is certain
            coded = coder(bytes(shift) + raw).decode().rstrip("=")
            whole = (shift + len(raw)) * 8 // 6
            core = coded[-(-shift * 8 // 6) : whole]
            if len(core) >= _CORE:
                yield core


def _is_undecoded(value: str) -> bool:
    """Whether it holds bytes of the environment that are not UTF-8."""
    return any("\udc80" <= char <= "\udcff" for char in value) and not any("\ud800" <= c <= "\udc7f" for c in value)
