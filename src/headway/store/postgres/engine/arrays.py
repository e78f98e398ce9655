"""Array literals, made in one go: psycopg would quote the items of a list one by one, in Python."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from headway.errors import InvalidPayload


def literal(value: Any) -> Any:
    """The parameter to send: a list of strings or integers becomes one array literal."""
    if type(value) is not list or not value:
        return value
    kinds = set(map(type, value))
    if kinds == {str}:
        return _texts(value)
    if kinds == {int}:
        return "{" + ",".join(map(str, value)) + "}"
    if kinds <= {str, type(None)}:
        return "{" + ",".join("null" if item is None else _texts([item])[1:-1] for item in value) + "}"
    return value


def _texts(values: list[str]) -> str:
    joined = "\0".join(values)
    if joined.count("\0") != len(values) - 1:
        raise InvalidPayload("a value has a NUL character, which PostgreSQL cannot keep")
    return '{"' + joined.replace("\\", r"\\").replace('"', r"\"").replace("\0", '","') + '"}'


def column(items: Sequence[Any], name: str, unset: Any) -> list[Any] | None:
    """A field of all items, or None, which costs nothing, if all have the default."""
    values = list(map(attrgetter(name), items))
    if values.count(unset) == len(values):
        return None
    if name in ("unique_scope", "after", "replace"):
        return [",".join(value) or None for value in values]
    return values
