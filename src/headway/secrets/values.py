"""The exact values that must not be seen, in every form in which they may turn up."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import os
import re
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from headway.secrets.names import is_secret_name, is_secret_variable

SHORTEST = 4
"""Shorter values would be found in every text."""
SHORTEST_VARIABLE = 8
"""Of a variable that only looks like a secret."""

# what development settings are full of, and no secret; as exact values they would be hidden everywhere
_COMMON = re.compile(
    "admin123|anonymous|change-?it|change-?me|database|development|disabled|guestguest|insecure|localhost|minioadmin"
    "|notasecret|password1?|placeholder|postgres|postgresql|production|rabbitmq|required|testtest|undefined|username",
    re.IGNORECASE,
)
_USERINFO = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#:@]*:([^\s/]+)@")
_LINE = 16
_CORE = 8
_LONGEST = 262_144  # more than a variable can have

_lock = threading.Lock()
_given: dict[str, None] = {}  # resolved or added: these stay
_seen: object = None  # the environment at the last look
_forms: tuple[str, ...] = ()
_longest = 0


def add_value(value: str) -> None:
    """Redact this value from now on, in this process; shorter ones than four characters are ignored."""
    if value in _given or len(value.strip()) < SHORTEST:
        return
    with _lock:
        _given[value] = None
        _rebuild()


def forget() -> None:
    """Forget every value that was added or resolved: for tests."""
    with _lock:
        _given.clear()
        _rebuild()


def forms() -> tuple[str, ...]:
    """All texts that stand for a known value, the longest first; looks at the environment again if it changed."""
    if _environment() != _seen:
        with _lock:
            _rebuild()
    return _forms


def longest() -> int:
    """The length of the longest of them: no value that begins further before a boundary can reach over it."""
    forms()
    return _longest


def _environment() -> Any:
    # the raw mapping, where there is one: comparing it costs a fiftieth of decoding it
    return getattr(os.environ, "_data", None) or dict(os.environ)


def _rebuild() -> None:
    global _seen, _forms, _longest
    seen = dict(_environment())
    values = dict(_given)
    for name in list(os.environ):
        # another thread may take it away meanwhile
        values.update(dict.fromkeys(_of_variable(name, os.environ.get(name, ""))))
    found = {form for value in values for part in _parts(value) for form in _spellings(part)}
    _forms = tuple(sorted((form for form in found if len(form) >= SHORTEST), key=lambda form: (-len(form), form)))
    _longest = len(_forms[0]) if _forms else 0
    _seen = seen


def _of_variable(name: str, value: str) -> Iterator[str]:
    """What of a variable is secret: all of it by its name, or the password of a URL."""
    if len(value) < SHORTEST_VARIABLE:
        return
    userinfo = _USERINFO.match(value)
    if userinfo is not None:
        for password in {userinfo[1], unquote(userinfo[1])}:
            if _serious(password):
                yield password
    elif is_secret_variable(name) and _serious(value) and not _is_path(value):
        yield value


def _serious(value: str) -> bool:
    return len(value.strip()) >= SHORTEST_VARIABLE and _COMMON.fullmatch(value.strip()) is None


def _is_path(value: str) -> bool:
    """A name like SSL_KEY may be that of a file."""
    if not value.startswith(("/", "./", "~/")) or len(value) > 4_096:
        return False
    try:
        return os.path.exists(os.path.expanduser(value))
    except (OSError, ValueError):
        return False


def _parts(value: str) -> Iterator[str]:
    """The value, without the blanks around it, and what of it may turn up alone."""
    value = value[:_LONGEST].strip()
    yield value
    lines = value.splitlines()
    if len(lines) > 1:
        # such as a private key, of which a text may show some lines
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
    """The secret fields of credentials that are a JSON document."""
    if isinstance(document, dict):
        for name, value in document.items():
            if isinstance(value, str):
                if len(value) >= SHORTEST_VARIABLE and is_secret_name(str(name)):
                    yield value.strip()
                    yield from (line for line in value.splitlines() if len(line) >= _LINE and line[0] != "-")
            else:
                yield from _secrets_of(value)


def _spellings(value: str) -> Iterator[str]:
    """How programs write it: as it is, escaped as JSON, Python, URL or HTML, in hex, and in base64."""
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
            # inside of a longer text the ends of it depend on what stands around: only the core is certain
            coded = coder(bytes(shift) + raw).decode().rstrip("=")
            whole = (shift + len(raw)) * 8 // 6
            core = coded[-(-shift * 8 // 6) : whole]
            if len(core) >= _CORE:
                yield core


def _is_undecoded(value: str) -> bool:
    """Whether it holds bytes of the environment that are no UTF-8."""
    return any("\udc80" <= char <= "\udcff" for char in value) and not any("\ud800" <= c <= "\udc7f" for c in value)
