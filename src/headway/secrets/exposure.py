"""Exposure: whether what is about to be stored holds the value of a secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from headway.secrets import values
from headway.secrets.references import Path

SHORTEST = 8
"""A shorter value counts only as a whole text: inside others, or as a number, it would be found by chance."""


def exposed(text: str, secrets: Mapping[str, str]) -> tuple[str, Path] | None:
    """The name of a secret whose value this JSON text holds, in a string, as a key or as a number, and where."""
    if not secrets:
        return None
    stripped = {name: value.strip() for name, value in secrets.items()}
    suspects = {name: value for name, value in stripped.items() if _may_hold(text, value)}
    return _find(msgspec.json.decode(text), suspects, ()) if suspects else None


def holds(text: str, value: str) -> bool:
    """Whether a text is, or contains, the value of a secret."""
    if len(value) < SHORTEST:
        return len(value) >= values.SHORTEST and text.strip() == value
    return value in text


def _may_hold(text: str, value: str) -> bool:
    # our own JSON escapes as little as possible; that of others may escape more
    return json.dumps(value, ensure_ascii=False)[1:-1] in text or "\\u" in text or "\\/" in text


def _find(value: Any, secrets: Mapping[str, str], path: Path) -> tuple[str, Path] | None:
    match value:
        case str():
            return next(((name, path) for name, each in secrets.items() if holds(value, each)), None)
        case bool() | None:
            return None
        case int() | float():
            text = msgspec.json.encode(value).decode()
            return next(
                ((name, path) for name, each in secrets.items() if len(each) >= SHORTEST and text == each), None
            )
        case dict():
            for key, member in value.items():
                found = _find(key, secrets, path) or _find(member, secrets, (*path, key))
                if found is not None:
                    return found
        case list():
            for index, member in enumerate(value):
                found = _find(member, secrets, (*path, index))
                if found is not None:
                    return found
    return None
