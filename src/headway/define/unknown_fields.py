"""Keeps the fields of a stored state that this code does not know, since a newer release wrote them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any

import msgspec

from headway.model.codec import is_model

_inspect = msgspec.inspect
_sorted = msgspec.json.Encoder(order="sorted")


class Part:
    """A part of a state that may hold unknown fields; compares stored JSON values with new ones."""

    def finds(self, value: Any) -> bool:
        """Whether the value holds an unknown field."""
        raise NotImplementedError

    def keep(self, before: Any, after: Any) -> Any:
        """The new value, with the unknown fields of the stored one."""
        raise NotImplementedError

    def known(self, value: Any) -> Any:
        """The value without unknown fields, as this code writes it."""
        raise NotImplementedError


class Fields(Part):
    """An object with named fields: a Struct, a dataclass, a TypedDict, a pydantic model."""

    def __init__(self, *, open_ended: bool = False) -> None:
        self.parts: dict[str, Part | None] = {}  # by the name in JSON; None: nothing unknown can be inside
        self._open_ended = open_ended

    def finds(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        if not self._open_ended and not self.parts.keys() >= value.keys():
            return True
        return any(part is not None and name in value and part.finds(value[name]) for name, part in self.parts.items())

    def keep(self, before: Any, after: Any) -> Any:
        if not isinstance(before, dict) or not isinstance(after, dict):
            return after
        for name, value in before.items():
            if name not in self.parts:
                if not self._open_ended:
                    after.setdefault(name, value)
                continue
            part = self.parts[name]
            if part is not None and name in after:
                after[name] = part.keep(value, after[name])
        return after

    def known(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: each if part is None else part.known(each)
            for name, each in value.items()
            if (part := self.parts.get(name)) is not None or self._open_ended or name in self.parts
        }


class Positions(Part):
    """A value with a part at each position: a tuple, a NamedTuple, an `array_like` Struct."""

    def __init__(self, *, grows: bool = False) -> None:
        self.parts: list[Part | None] = []
        self._grows = grows  # a newer release may have more at its end

    def finds(self, value: Any) -> bool:
        if not isinstance(value, list):
            return False
        if self._grows and len(value) > len(self.parts):
            return True
        return any(part is not None and part.finds(each) for part, each in zip(self.parts, value, strict=False))

    def keep(self, before: Any, after: Any) -> Any:
        if not isinstance(before, list) or not isinstance(after, list):
            return after
        pairs = zip(self.parts, before, after, strict=False)
        kept = [each if part is None else part.keep(stored, each) for part, stored, each in pairs]
        kept += after[len(kept) :]
        if self._grows and len(after) == len(self.parts):
            kept += before[len(self.parts) :]
        return kept

    def known(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [each if part is None else part.known(each) for part, each in zip(self.parts, value, strict=False)]


class Entries(Part):
    """A dict of parts, matched by key."""

    def __init__(self) -> None:
        self.part: Part | None = None

    def finds(self, value: Any) -> bool:
        return isinstance(value, dict) and any(map(self._part.finds, value.values()))

    def keep(self, before: Any, after: Any) -> Any:
        if not isinstance(before, dict) or not isinstance(after, dict):
            return after
        return {key: self._part.keep(before[key], each) if key in before else each for key, each in after.items()}

    def known(self, value: Any) -> Any:
        return {key: self._part.known(each) for key, each in value.items()} if isinstance(value, dict) else value

    @property
    def _part(self) -> Part:
        assert self.part is not None
        return self.part


class Items(Part):
    """A list of parts. Items with an `id` are matched by it. Of the others, an unchanged item is matched wherever it is
    now; a changed one at its position, if the list has the same length as before."""

    def __init__(self) -> None:
        self.part: Part | None = None

    def finds(self, value: Any) -> bool:
        return isinstance(value, list) and any(map(self._part.finds, value))

    def keep(self, before: Any, after: Any) -> Any:
        if not isinstance(before, list) or not isinstance(after, list):
            return after
        stored: defaultdict[bytes, deque[int]] = defaultdict(deque)
        for index, each in enumerate(before):
            stored[self._identity(each)].append(index)
        found: dict[int, int] = {}  # position now → position before
        for index, each in enumerate(after):
            if positions := stored.get(self._identity(each)):
                found[index] = positions.popleft()
        if len(before) == len(after):
            left = set(range(len(before))) - set(found.values())
            for index, each in enumerate(after):
                if index not in found and index in left and not (_has_id(each) or _has_id(before[index])):
                    found[index] = index
        return [
            self._part.keep(before[found[index]], each) if index in found else each for index, each in enumerate(after)
        ]

    def known(self, value: Any) -> Any:
        return list(map(self._part.known, value)) if isinstance(value, list) else value

    def _identity(self, item: Any) -> bytes:
        known = self._part.known(item)
        return _sorted.encode({"id": known["id"]} if _has_id(known) else known)

    @property
    def _part(self) -> Part:
        assert self.part is not None
        return self.part


class Choice(Part):
    """A union: the shape of the JSON, or its tag, selects the type."""

    def __init__(self) -> None:
        self.array: Part | None = None
        self.object: Part | None = None
        self.tag_field: str | None = None
        self.tagged: dict[Any, Part] = {}

    def finds(self, value: Any) -> bool:
        part = self._which(value)
        return part is not None and part.finds(value)

    def keep(self, before: Any, after: Any) -> Any:
        part = self._which(before)
        return after if part is None or part is not self._which(after) else part.keep(before, after)

    def known(self, value: Any) -> Any:
        part = self._which(value)
        return value if part is None else part.known(value)

    def _which(self, value: Any) -> Part | None:
        if isinstance(value, list):
            return self.array
        if not isinstance(value, dict):
            return None
        return self.object if self.tag_field is None else self.tagged.get(value.get(self.tag_field))

    @property
    def is_empty(self) -> bool:
        return self.array is None and self.object is None and not self.tagged


def part_of(type_: Any) -> Part | None:
    """The part for a type; None if it cannot have unknown fields, as a plain dict."""
    return _Inspector().of_type(type_)


def _has_id(item: Any) -> bool:
    return isinstance(item, dict) and item.get("id") is not None


class _Inspector:
    """Reads a type once; a type that contains itself becomes a part that contains itself."""

    def __init__(self) -> None:
        self._parts: dict[Any, Part] = {}
        self._infos: list[Any] = []  # kept alive: their ids are keys

    def of_type(self, type_: Any) -> Part | None:
        try:
            return self.of(_inspect.type_info(type_))
        except Exception:
            return None  # a type that only pydantic understands: there are no fields to keep

    def of(self, info: Any) -> Part | None:
        if isinstance(info, _inspect.Metadata):
            return self.of(info.type)
        found = self._parts.get(_key(info))
        if found is not None:
            return found
        match info:
            case _inspect.StructType() if info.array_like:
                return self._positions(info, (field.type for field in info.fields), Positions(grows=True))
            case _inspect.StructType():
                return self._struct(info)
            case _inspect.DataclassType() | _inspect.TypedDictType():
                return self._fields(info, Fields())
            case _inspect.NamedTupleType():
                return self._positions(info, (field.type for field in info.fields), Positions())
            case _inspect.TupleType():
                return self._positions(info, info.item_types, Positions())
            case _inspect.CustomType() if is_model(info.cls):
                return self._model(info)
            case _inspect.DictType():
                return self._collection(info, info.value_type, Entries())
            case (
                _inspect.ListType()
                | _inspect.VarTupleType()
                | _inspect.SetType()
                | _inspect.FrozenSetType()
                | _inspect.CollectionType()
            ):
                return self._collection(info, info.item_type, Items())
            case _inspect.UnionType():
                return self._union(info)
        return None

    def _remember(self, info: Any, part: Part) -> None:
        self._parts[_key(info)] = part
        self._infos.append(info)

    def _unless(self, empty: bool, info: Any, part: Part) -> Part | None:
        if empty:
            del self._parts[_key(info)]
        return None if empty else part

    def _struct(self, info: _inspect.StructType) -> Part:
        fields = Fields()
        if info.tag_field is not None:
            fields.parts[info.tag_field] = None
        return self._fields(info, fields)

    def _fields(self, info: Any, fields: Fields) -> Part:
        self._remember(info, fields)
        for field in info.fields:
            fields.parts[field.encode_name] = self.of(field.type)
        return fields

    def _positions(self, info: Any, types: Iterable[Any], positions: Positions) -> Part:
        self._remember(info, positions)
        positions.parts = [self.of(each) for each in types]
        return positions

    def _collection(self, info: Any, type_: Any, collection: Entries | Items) -> Part | None:
        self._remember(info, collection)
        collection.part = self.of(type_)
        return self._unless(collection.part is None, info, collection)

    def _union(self, info: _inspect.UnionType) -> Part | None:
        choice = Choice()
        self._remember(info, choice)
        for each in info.types:
            part = self.of(each)
            if part is None:
                continue
            if isinstance(part, Positions | Items):
                choice.array = part
            elif isinstance(each, _inspect.StructType) and each.tag_field is not None:
                choice.tag_field = each.tag_field
                choice.tagged[each.tag] = part
            else:
                choice.object = part
        return self._unless(choice.is_empty, info, choice)

    def _model(self, info: _inspect.CustomType) -> Part | None:
        model: Any = info.cls
        if getattr(model, "__pydantic_root_model__", False):
            return self.of_type(model.model_fields["root"].annotation)
        fields = Fields(open_ended=model.model_config.get("extra") == "allow")
        self._remember(info, fields)
        for name, field in model.model_fields.items():
            part = self.of_type(field.annotation)
            for each in (name, field.alias, field.serialization_alias, *_aliases(field.validation_alias)):
                if isinstance(each, str):
                    fields.parts[each] = part
        return fields


def _key(info: Any) -> Any:
    # pydantic's annotations are inspected again each time: only the class identifies the model
    return info.cls if isinstance(info, _inspect.CustomType) else id(info)


def _aliases(alias: Any) -> Iterable[Any]:
    choices = getattr(alias, "choices", None) or (alias,)
    return (each if isinstance(each, str) else getattr(each, "path", (None,))[0] for each in choices)
