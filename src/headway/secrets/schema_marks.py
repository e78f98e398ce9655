"""Which fields of a payload its schema marks as secret, found in time linear in the schema and in the payload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

_SAME_VALUE = ("if", "then", "else")
_SAME_VALUE_LISTS = ("allOf", "anyOf", "oneOf")
_REFERENCES = ("$ref", "$dynamicRef")
_REST = ("additionalProperties", "unevaluatedProperties")
_ITEMS = ("items", "additionalItems", "unevaluatedItems", "contains")
_MANY = 1_000

Schema = Mapping[str, Any]

_compiled: dict[int, tuple[Schema, Node | None]] = {}


class Node:
    """What a schema says of one value in a payload: whether it is marked, and the nodes of the values inside.

    Schemas that lead to no mark are left out; None: no mark here or inside.
    """

    __slots__ = ("_fields", "_items", "_nodes", "_schemas", "marked")

    def __init__(self, schemas: tuple[Schema, ...], nodes: _Nodes) -> None:
        self.marked = any(map(_is_marked, schemas))
        self._schemas = schemas
        self._nodes = nodes
        self._fields: dict[str, Node | None] = {}
        self._items: dict[int, Node | None] = {}

    def field(self, name: str) -> Node | None:
        if name in self._fields:
            return self._fields[name]
        found = self._nodes.of(each for schema in self._schemas for each in _of_field(schema, name))
        if len(self._fields) < _MANY:
            self._fields[name] = found
        return found

    def item(self, index: int) -> Node | None:
        if index > self._nodes.longest:
            index = self._nodes.longest  # the items after the listed ones share one node
        if index not in self._items:
            self._items[index] = self._nodes.of(each for schema in self._schemas for each in _of_item(schema, index))
        return self._items[index]


def marks(schema: Schema) -> Node | None:
    """The node of a whole payload; None for a schema that marks nothing."""
    found = _compiled.get(id(schema))
    if found is None or found[0] is not schema:
        if len(_compiled) >= _MANY:
            _compiled.clear()
        found = _compiled[id(schema)] = (schema, _Nodes(schema).of((schema,)))
    return found[1]


class _Nodes:
    """The nodes of one schema, made on demand."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._anchors = _anchors(root)
        self._live, self.longest = self._explore()
        self._made: dict[frozenset[int], Node | None] = {}

    def of(self, schemas: Any) -> Node | None:
        """The node of a value to which these schemas apply, with all that they refer to or combine."""
        found: dict[int, Schema] = {}
        waiting = list(schemas)
        while waiting:
            schema = waiting.pop()
            if id(schema) in self._live and id(schema) not in found:
                found[id(schema)] = schema
                waiting.extend(self._same_value(schema))
        key = frozenset(found)
        if key not in self._made:
            if len(self._made) >= _MANY:
                self._made.clear()
            self._made[key] = Node(tuple(found.values()), self) if found else None
        return self._made[key]

    def _explore(self) -> tuple[set[int], int]:
        """The schemas that lead to a mark, and how many items the longest list of schemas has."""
        leads_here: dict[int, list[int]] = {}
        live: list[int] = []
        longest = 0
        seen: set[int] = set()
        waiting: list[Any] = [self._root]
        while waiting:
            schema = waiting.pop()
            if not isinstance(schema, Mapping) or id(schema) in seen:
                continue
            seen.add(id(schema))
            if _is_marked(schema):
                live.append(id(schema))
            longest = max([longest, *(len(each) for each in _lists(schema))])
            for following in (*self._same_value(schema), *_inside(schema)):
                if isinstance(following, Mapping):
                    leads_here.setdefault(id(following), []).append(id(schema))
                    waiting.append(following)
        found = set(live)
        while live:
            for before in leads_here.get(live.pop(), ()):
                if before not in found:
                    found.add(before)
                    live.append(before)
        return found, longest

    def _same_value(self, schema: Schema) -> Iterator[Any]:
        for keyword in _REFERENCES:
            if keyword in schema:
                yield _referred(schema[keyword], self._root, self._anchors)
        for keyword in _SAME_VALUE_LISTS:
            if isinstance(schema.get(keyword), list):
                yield from schema[keyword]
        for keyword in _SAME_VALUE:
            yield schema.get(keyword)
        dependent = schema.get("dependentSchemas")
        if isinstance(dependent, Mapping):
            yield from dependent.values()


def _is_marked(schema: Schema) -> bool:
    return schema.get("writeOnly") is True or schema.get("format") == "password" or schema.get("x-secret") is True


def _inside(schema: Schema) -> Iterator[Any]:
    for keyword in ("properties", "patternProperties"):
        named = schema.get(keyword)
        if isinstance(named, Mapping):
            yield from named.values()
    for keyword in (*_REST, *_ITEMS):
        yield schema.get(keyword)
    for listed in _lists(schema):
        yield from listed


def _lists(schema: Schema) -> Iterator[list[Any]]:
    for keyword in ("prefixItems", "items"):
        if isinstance(schema.get(keyword), list):
            yield schema[keyword]


def _of_field(schema: Schema, name: str) -> Iterator[Any]:
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
        for keyword in _REST:
            yield schema.get(keyword)


def _of_item(schema: Schema, index: int) -> Iterator[Any]:
    for listed in _lists(schema):
        if index < len(listed):
            yield listed[index]
    for keyword in _ITEMS:
        yield schema.get(keyword)


def _anchors(root: Schema) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    for key in ("$defs", "definitions"):
        definitions = root.get(key)
        for schema in definitions.values() if isinstance(definitions, Mapping) else ():
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(schema, Mapping) and isinstance(schema.get(keyword), str):
                    found.setdefault(schema[keyword], schema)
    return found


def _referred(reference: object, root: Schema, anchors: Mapping[str, Schema]) -> Any:
    """What a reference inside the schema points at: a path from its root, or an anchor."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        return anchors.get(pointer)
    found: Any = root
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(step)
        elif isinstance(found, list) and step.isdecimal() and len(step) < 10 and int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return found


def _fits(pattern: object, name: str) -> bool:
    """By an engine with linear time, since anybody may have written the pattern. A pattern that it does not support
    matches every name: better hidden than shown."""
    check = _pattern(pattern) if isinstance(pattern, str) else None
    return check is None or bool(check.is_valid(name))


@lru_cache(maxsize=1_000)
def _pattern(pattern: str) -> Any:
    import jsonschema_rs

    options = jsonschema_rs.RegexOptions(size_limit=100_000, dfa_size_limit=100_000)
    try:
        return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options)
    except (ValueError, jsonschema_rs.ValidationError):
        return None
