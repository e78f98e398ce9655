"""References: `{"$secret": "NAME"}` in a payload stands for the worker's environment variable NAME."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, TypeGuard

import msgspec

from headway.errors import ConfigError, InvalidPayload, SecretMissing
from headway.secrets.values import add_value

REFERENCE = "$secret"
Path = tuple[str | int, ...]

_MARK = f'"{REFERENCE}"'
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PATTERN = re.compile(r"[A-Za-z0-9_*?]+\Z")
_OURS = "HEADWAY_"

_allowed: tuple[str, ...] | None = None


def allow(patterns: Iterable[str] | None) -> None:
    """Give only what fits these names or patterns ("SMTP_*"), in this process; None: all. Raises `ConfigError`."""
    global _allowed
    if patterns is None:
        _allowed = None
        return
    if isinstance(patterns, str) or not isinstance(patterns, Iterable):
        raise ConfigError(f'[secrets] allow = {patterns!r} is no list of names: give ["SMTP_*", "API_TOKEN"]')
    given = tuple(patterns)
    for pattern in given:
        if not isinstance(pattern, str) or not _PATTERN.match(pattern):
            raise ConfigError(f"[secrets] allow: {pattern!r} is no name of a variable, nor a pattern like SMTP_*")
    _allowed = given


def get(name: str) -> str:
    """The value of the variable, which is redacted from now on; raises `SecretMissing`, `InvalidPayload`.

    What the variables of Headway itself say is never given.
    """
    fault = _name_fault(name)
    if fault is not None:
        raise InvalidPayload(f"the secret {fault}")
    if _allowed is not None and not any(fnmatchcase(name, pattern) for pattern in _allowed):
        raise SecretMissing(
            f"the secret {name} is not given to jobs here: add it to allow under [secrets] in the worker's headway.toml"
        )
    value = os.environ.get(name)
    if value is None:
        raise SecretMissing(
            f"the secret {name} is not set here: set the environment variable {name} for this worker and restart it"
        )
    add_value(value)
    return value


def resolve(value: Any) -> Any:
    """The value with each reference replaced by what it stands for; what holds none is the same object.

    Raises `SecretMissing` for a variable that this worker does not have, and `InvalidPayload` with the path of a
    reference that is none.
    """
    return _resolve(value, ())


def resolve_text(text: str) -> str:
    """The same with JSON text."""
    if _MARK not in text:
        return text
    value = msgspec.json.decode(text)
    resolved = resolve(value)
    return text if resolved is value else msgspec.json.encode(resolved).decode()


def paths(text: str) -> tuple[Path, ...]:
    """Where in this JSON text references stand; raises `InvalidPayload` with the path of one that is none."""
    if _MARK not in text:
        return ()
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return ()  # whoever reads it says so
    return tuple(_find(value, ()))


def check(value: Any) -> None:
    """Raises `InvalidPayload` with the path of a reference that is none."""
    for _ in _find(value, ()):
        pass


def is_reference(value: object) -> TypeGuard[Mapping[str, str]]:
    """Whether it is one, and well formed."""
    return isinstance(value, Mapping) and REFERENCE in value and _fault(value) is None


def show(path: Path) -> str:
    """A path for a message."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def _resolve(value: Any, path: Path) -> Any:
    if isinstance(value, dict):
        if REFERENCE in value:
            return get(_name_in(value, path))
        made = {name: _resolve(member, (*path, name)) for name, member in value.items()}
        return value if all(made[name] is member for name, member in value.items()) else made
    if isinstance(value, list):
        items = [_resolve(member, (*path, place)) for place, member in enumerate(value)]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _find(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, Mapping):
        if REFERENCE in value:
            _name_in(value, path)
            yield path
            return
        for name, member in value.items():
            yield from _find(member, (*path, name))
    elif isinstance(value, list | tuple):
        for place, member in enumerate(value):
            yield from _find(member, (*path, place))


def _name_in(reference: Mapping[str, Any], path: Path) -> str:
    fault = _fault(reference)
    if fault is not None:
        raise InvalidPayload(f'{show(path)} {fault}: a secret is {{"$secret": "NAME"}}, of an environment variable')
    return str(reference[REFERENCE])


def _fault(reference: Mapping[str, Any]) -> str | None:
    if len(reference) > 1:
        others = ", ".join(str(name) for name in reference if name != REFERENCE)
        return f'has {others} beside "$secret"'
    return _name_fault(reference[REFERENCE])


def _name_fault(name: object) -> str | None:
    if not isinstance(name, str):
        return f"is named by a {type(name).__name__}, not by a text"
    if len(name) > 256 or not _NAME.match(name):
        return f"{name[:64]!r} is no name of an environment variable"
    if name.upper().startswith(_OURS):
        return f"{name} is a setting of Headway, which jobs do not get"
    return None
