"""References: `{"$secret": "NAME"}` in a payload stands for the worker's environment variable NAME."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

import msgspec

from headway.errors import InvalidPayload
from headway.secrets.values import OURS

REFERENCE = "$secret"
Path = tuple[str | int, ...]

_MARK = f'"{REFERENCE}"'
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def secret(name: str) -> str:
    """A reference to the worker's environment variable `name`, for a payload: `send.enqueue(token=secret("TOKEN"))`.

    It is the dict `{"$secret": "TOKEN"}`, which becomes the text where the job runs; so that is its type for type
    checkers. Raises `InvalidPayload` for what cannot name one.
    """
    reference: Any = {REFERENCE: name}
    _name_in(reference, ())
    return reference  # type: ignore[no-any-return]


def resolve(value: Any, get: Callable[[str], str]) -> Any:
    """The value with each reference replaced by what `get` gives for its name; what holds none is the same object.

    Raises what `get` raises, and `InvalidPayload` with the path of a malformed reference.
    """
    return _resolve(value, (), get)


def resolve_text(text: str, get: Callable[[str], str]) -> str:
    """The same with JSON text."""
    if _MARK not in text:
        return text
    value = msgspec.json.decode(text)
    resolved = resolve(value, get)
    return text if resolved is value else msgspec.json.encode(resolved).decode()


def paths(text: str) -> tuple[Path, ...]:
    """The paths of the references in this JSON text; raises `InvalidPayload` with the path of a malformed one."""
    if _MARK not in text:
        return ()
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return ()  # not JSON: its reader says so
    return tuple(_find(value, ()))


def check(value: Any) -> None:
    """Raises `InvalidPayload` with the path of a malformed reference."""
    for _ in _find(value, ()):
        pass


def check_none(text: str, what: str) -> None:
    """Raises `InvalidPayload` for a reference in this JSON text, which comes from outside: the sender of an event or a
    signal must not choose which secrets the following jobs get."""
    path = first_reference(msgspec.json.decode(text)) if _may_refer(text) else None
    if path is not None:
        raise InvalidPayload(
            f'{what}: {show(path)} is a reference to a secret ("$secret"), and only the payloads of jobs, templates '
            "and triggers may hold one"
        )


def refers(text: str) -> bool:
    """Whether this JSON text holds a reference, well formed or not."""
    return _may_refer(text) and first_reference(msgspec.json.decode(text)) is not None


def first_reference(value: Any) -> Path | None:
    """The path of the first reference in this value, well formed or not; None without one."""
    if isinstance(value, dict):
        if REFERENCE in value:
            return ()
        members: Any = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    else:
        return None
    for step, member in members:
        if isinstance(member, dict | list) and (rest := first_reference(member)) is not None:
            return (step, *rest)
    return None


def is_reference(value: object) -> TypeGuard[Mapping[str, str]]:
    """Whether it is a well-formed reference."""
    return isinstance(value, Mapping) and REFERENCE in value and _fault(value) is None


def show(path: Path) -> str:
    """A path for a message."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def _resolve(value: Any, path: Path, get: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        if REFERENCE in value:
            return get(_name_in(value, path))
        made = {name: _resolve(member, (*path, name), get) for name, member in value.items()}
        return value if all(made[name] is member for name, member in value.items()) else made
    if isinstance(value, list):
        items = [_resolve(member, (*path, index), get) for index, member in enumerate(value)]
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
        for index, member in enumerate(value):
            yield from _find(member, (*path, index))


def _may_refer(text: str) -> bool:
    return _MARK in text or "\\u" in text  # what others wrote may be escaped


def _name_in(reference: Mapping[str, Any], path: Path) -> str:
    fault = _fault(reference)
    if fault is not None:
        raise InvalidPayload(f'{show(path)} {fault}: a secret is {{"$secret": "NAME"}}, of an environment variable')
    return str(reference[REFERENCE])


def _fault(reference: Mapping[str, Any]) -> str | None:
    if len(reference) > 1:
        others = ", ".join(str(name) for name in reference if name != REFERENCE)
        return f'has {others} beside "$secret"'
    return name_fault(reference[REFERENCE])


def name_fault(name: object) -> str | None:
    if not isinstance(name, str):
        return f"is named by a {type(name).__name__}, not by a text"
    if len(name) > 256 or not _NAME.match(name):
        return f"{name[:64]!r} is not the name of an environment variable"
    if name.upper().startswith(OURS):
        return f"{name} is a setting of Headway, which jobs do not get"
    return None
