"""Masking: a payload for people, without the fields that are secret by their name or schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.secrets.names import is_secret_name
from headway.secrets.redaction import REDACTED
from headway.secrets.references import REFERENCE, is_reference
from headway.secrets.schema_marks import Node, marks

_NESTED = (dict, list, tuple)


def mask(payload: Any, schema: Mapping[str, Any] | None = None) -> Any:
    """The payload with "[redacted]" for each field that is secret; references stay, and what holds no secret is the
    same object. A schema marks fields by `writeOnly`, by `"format": "password"` or by `x-secret`.

    >>> mask({"user": "ann", "password": "hunter2", "token": {"$secret": "API_TOKEN"}})
    {'user': 'ann', 'password': '[redacted]', 'token': {'$secret': 'API_TOKEN'}}
    """
    node = marks(schema) if isinstance(schema, Mapping) else None
    return _mask(payload, node)


def _mask(value: Any, node: Node | None) -> Any:
    if node is not None and node.marked:
        return _veiled(value)
    if isinstance(value, dict):
        return value if REFERENCE in value and is_reference(value) else _masked_object(value, node)
    return _masked_list(value, node) if isinstance(value, list | tuple) else value


def _masked_object(value: dict[str, Any], node: Node | None) -> dict[str, Any]:
    shown: dict[str, Any] | None = None
    for name, member in value.items():
        inner = None if node is None else node.field(name)
        if is_secret_name(name):
            new = _veiled(member)
        elif inner is not None or isinstance(member, _NESTED):
            new = _mask(member, inner)
        else:
            continue
        if new is not member:
            if shown is None:
                shown = dict(value)
            shown[name] = new
    return value if shown is None else shown


def _masked_list(value: list[Any] | tuple[Any, ...], node: Node | None) -> Any:
    shown: list[Any] | None = None
    for index, member in enumerate(value):
        inner = None if node is None else node.item(index)
        if inner is None and not isinstance(member, _NESTED):
            continue
        new = _mask(member, inner)
        if new is not member:
            if shown is None:
                shown = list(value)
            shown[index] = new
    return value if shown is None else shown


def _veiled(value: Any) -> Any:
    """What is shown of a secret value: that there is one. References inside it stay visible."""
    if value is None or isinstance(value, bool) or value == "" or is_reference(value):
        return value
    if isinstance(value, dict) and _refers(value):
        return {name: _veiled(member) for name, member in value.items()}
    if isinstance(value, list | tuple) and _refers(value):
        return [_veiled(member) for member in value]
    return REDACTED


def _refers(value: Any) -> bool:
    if isinstance(value, dict):
        return REFERENCE in value or any(map(_refers, value.values()))
    return isinstance(value, list | tuple) and any(map(_refers, value))
