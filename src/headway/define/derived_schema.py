"""The JSON Schema of a typed handler's payloads, for callers without its code: forms are made from it, and an enqueue
refuses what the code could not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import inspect

_PLAIN: dict[type[inspect.Type], str] = {
    inspect.StrType: "string",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
}
_LONGEST_DEFAULT = 1_000  # bytes of JSON


def derived_schema(members: Sequence[tuple[str, Any, Any]]) -> dict[str, Any] | None:
    """The schema of an object with these members: name, type, and the default (`UNSET`: it is required; None: it has
    one that is not shown). Gives None without any members.

    It claims only what a decoder of these types enforces, too, and so nothing of a type that several forms of JSON can
    make.

    >>> derived_schema([("to", str, msgspec.UNSET), ("copies", int, 1)])["properties"]
    {'to': {'type': 'string'}, 'copies': {'type': 'integer', 'default': 1}}
    """
    if not members:
        return None
    properties = {name: _member(inspect.type_info(type_), default) for name, type_, default in members}
    return _object(properties, [name for name, _, default in members if default is msgspec.UNSET])


def schema_of_fields(type_: Any) -> dict[str, Any] | None:
    """The schema of a Struct's or dataclass's JSON; None for other types."""
    info = inspect.type_info(type_)
    if not isinstance(info, (inspect.StructType, inspect.DataclassType)) or not info.fields:
        return None
    properties = {each.encode_name: _member(each.type, _default(each)) for each in info.fields}
    return _object(properties, [each.encode_name for each in info.fields if each.required])


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def _default(field: inspect.Field) -> Any:
    return msgspec.UNSET if field.default is msgspec.NODEFAULT else field.default


def _member(info: inspect.Type, default: Any) -> dict[str, Any]:
    schema = _schema(info)
    if default is msgspec.UNSET or default is None:
        return schema
    try:
        text = msgspec.json.encode(default)
    except (TypeError, ValueError, msgspec.MsgspecError):
        return schema
    return schema if len(text) > _LONGEST_DEFAULT else {**schema, "default": msgspec.json.decode(text)}


def _schema(info: inspect.Type) -> dict[str, Any]:
    if type(info) in _PLAIN:
        return {"type": _PLAIN[type(info)]}
    match info:
        case inspect.Metadata(type=inner):
            return _schema(inner)
        case inspect.LiteralType(values=values):
            return {"enum": list(values)}
        case inspect.EnumType(cls=cls):
            return {"enum": [each.value for each in cls]}
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return {"type": "array", "items": _schema(item)}
        case inspect.DictType():
            return {"type": "object"}
        case inspect.UnionType(types=types):
            return _union([each for each in types if not isinstance(each, inspect.NoneType)], len(types))
    return {}


def _union(types: list[inspect.Type], of: int) -> dict[str, Any]:
    """That of an optional value; a value of several types is described by none."""
    inner: Mapping[str, Any] = _schema(types[0]) if len(types) == 1 else {}
    if of == len(types) or not inner:
        return {}
    return {**inner, "type": [inner["type"], "null"]} if "type" in inner else {"enum": [*inner["enum"], None]}
