"""Masking: a payload as it is shown, without the fields that are secret by their name or by their schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from headway.secrets.names import is_secret_name
from headway.secrets.redaction import REDACTED
from headway.secrets.references import REFERENCE, is_reference

Schemas = tuple[Mapping[str, Any], ...]

_HERE = ("allOf", "anyOf", "oneOf")
_ALSO = ("if", "then", "else")


def mask(payload: Any, schema: Mapping[str, Any] | None = None) -> Any:
    """The payload with "[redacted]" for each field that is secret; references stay, and what holds no secret is the
    same object. A schema marks fields by `writeOnly`, by `"format": "password"` or by `x-secret`.

    >>> mask({"user": "ann", "password": "hunter2", "token": {"$secret": "API_TOKEN"}})
    {'user': 'ann', 'password': '[redacted]', 'token': {'$secret': 'API_TOKEN'}}
    """
    root = schema if isinstance(schema, Mapping) else None
    return _mask(payload, () if root is None else _expanded((root,), root), root)


def _mask(value: Any, schemas: Schemas, root: Mapping[str, Any] | None) -> Any:
    if any(map(_is_marked, schemas)):
        return _veiled(value)
    if isinstance(value, Mapping):
        if is_reference(value):
            return value
        shown = {name: _masked_field(name, member, schemas, root) for name, member in value.items()}
        return value if all(shown[name] is member for name, member in value.items()) else shown
    if isinstance(value, list | tuple):
        items = [_mask(member, _of_item(schemas, place, root), root) for place, member in enumerate(value)]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _masked_field(name: Any, member: Any, schemas: Schemas, root: Mapping[str, Any] | None) -> Any:
    if isinstance(name, str) and is_secret_name(name):
        return _veiled(member)
    return _mask(member, _of_field(schemas, str(name), root), root)


def _veiled(value: Any) -> Any:
    """What is shown of a secret: that there is one; and of what holds references, where those are."""
    if value is None or isinstance(value, bool) or value == "" or is_reference(value):
        return value
    if isinstance(value, Mapping) and _refers(value):
        return {name: _veiled(member) for name, member in value.items()}
    if isinstance(value, list | tuple) and _refers(value):
        return [_veiled(member) for member in value]
    return REDACTED


def _refers(value: Any) -> bool:
    if isinstance(value, Mapping):
        return REFERENCE in value or any(map(_refers, value.values()))
    return isinstance(value, list | tuple) and any(map(_refers, value))


def _is_marked(schema: Mapping[str, Any]) -> bool:
    return schema.get("writeOnly") is True or schema.get("format") == "password" or schema.get("x-secret") is True


def _of_field(schemas: Schemas, name: str, root: Mapping[str, Any] | None) -> Schemas:
    if root is None:
        return ()
    return _expanded(tuple(found for schema in schemas for found in _about_field(schema, name)), root)


def _about_field(schema: Mapping[str, Any], name: str) -> Iterator[Any]:
    known = False
    named = schema.get("properties")
    if isinstance(named, Mapping) and name in named:
        known = True
        yield named[name]
    patterned = schema.get("patternProperties")
    if isinstance(patterned, Mapping):
        for pattern, found in patterned.items():
            if _fits(pattern, name):
                known = True
                yield found
    if not known:
        yield schema.get("additionalProperties")
        yield schema.get("unevaluatedProperties")


def _of_item(schemas: Schemas, place: int, root: Mapping[str, Any] | None) -> Schemas:
    if root is None:
        return ()
    return _expanded(tuple(found for schema in schemas for found in _about_item(schema, place)), root)


def _about_item(schema: Mapping[str, Any], place: int) -> Iterator[Any]:
    items = schema.get("items")
    for listed in (schema.get("prefixItems"), items):
        if isinstance(listed, list) and place < len(listed):
            yield listed[place]
    yield items
    yield schema.get("additionalItems")
    yield schema.get("unevaluatedItems")
    yield schema.get("contains")


def _expanded(schemas: tuple[Any, ...], root: Mapping[str, Any]) -> Schemas:
    """These and all that hold for the same value: what they refer to, and what they are made of."""
    found: dict[int, Mapping[str, Any]] = {}
    waiting = list(schemas)
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, Mapping) or id(schema) in found:
            continue
        found[id(schema)] = schema
        waiting.extend(_referred(schema.get(keyword), root) for keyword in ("$ref", "$dynamicRef"))
        for keyword in _HERE:
            parts = schema.get(keyword)
            if isinstance(parts, list):
                waiting.extend(parts)
        waiting.extend(schema.get(keyword) for keyword in _ALSO)
        dependent = schema.get("dependentSchemas")
        if isinstance(dependent, Mapping):
            waiting.extend(dependent.values())
    return tuple(found.values())


def _referred(reference: object, root: Mapping[str, Any]) -> Any:
    """What a reference inside the schema points at: a path from its root, or an anchor."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        definitions = [schema for key in ("$defs", "definitions") for schema in dict(root.get(key) or {}).values()]
        anchored = (each for each in definitions if isinstance(each, Mapping))
        return next((each for each in anchored if pointer in (each.get("$anchor"), each.get("$dynamicAnchor"))), None)
    place: Any = root
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, Mapping):
            place = place.get(step)
        elif isinstance(place, list) and step.isdigit() and int(step) < len(place):
            place = place[int(step)]
        else:
            return None
    return place


def _fits(pattern: object, name: str) -> bool:
    try:
        return isinstance(pattern, str) and re.search(pattern, name) is not None
    except re.error:
        return False
