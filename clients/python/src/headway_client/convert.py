"""Values as JSON, and JSON as values: dataclasses, TypedDicts, and pydantic models where the user has them."""

from __future__ import annotations

import dataclasses
import math
import re
import types
import typing
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from headway_client.annotations import fields_of
from headway_client.errors import ConfigError

_ISO_DURATION = re.compile(
    r"([+-]?)P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?\Z", re.IGNORECASE
)


def to_json(value: Any) -> Any:
    """What `json.dumps` can write; raises `TypeError` or `ValueError` for what has no JSON."""
    match value:
        case float() if not math.isfinite(value):
            raise ValueError(f"{value} has no JSON: give a number, or None")
        case None | bool() | int() | float() | str() if not isinstance(value, Enum):
            return value
        case Enum():
            return to_json(value.value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return _iso_duration(value)
        case UUID() | Decimal():
            return str(value)
        case Mapping():
            return {str(name): to_json(each) for name, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [to_json(each) for each in value]
    if hasattr(value, "model_dump"):
        return to_json(value.model_dump(mode="json"))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON: give a dict, a dataclass or a pydantic model")


def is_model(kind: Any) -> bool:
    """Whether a whole payload fits into it."""
    kind = _plain(kind)
    return (
        kind is dict
        or typing.is_typeddict(kind)
        or hasattr(kind, "model_validate")
        or (isinstance(kind, type) and dataclasses.is_dataclass(kind))
    )


def check_model(hint: Any, kind: str) -> None:
    """Raises `ConfigError` for a class into which no payload can be read."""
    if typing.is_typeddict(hint) or (isinstance(hint, type) and dataclasses.is_dataclass(hint)):
        try:
            fields_of(hint)
        except TypeError as error:
            raise ConfigError(f"the handler of {kind}: {error}") from error
    for inner in typing.get_args(hint):
        check_model(inner, kind)


def from_json(value: Any, kind: Any) -> Any:
    """The value as this type, as far as it is known here; raises `TypeError` or `ValueError` if it does not fit."""
    if kind in (Any, None, typing.Union) or value is None:
        return value
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = fields_of(kind)
        return kind(**{name: from_json(each, hints.get(name, Any)) for name, each in value.items()})
    if typing.is_typeddict(kind):
        hints = fields_of(kind)
        return {name: from_json(each, hints.get(name, Any)) for name, each in value.items()}
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        options = [each for each in args if each is not type(None)]
        return from_json(value, options[0]) if len(options) == 1 else value
    if origin is tuple and isinstance(value, list) and args[-1:] != (...,):
        return tuple(from_json(each, inner) for each, inner in zip(value, args, strict=True))
    if origin in (list, tuple, set, frozenset, Sequence) and isinstance(value, list):
        inner = args[0] if args else Any
        return (list if origin is Sequence else origin)(from_json(each, inner) for each in value)
    if origin is dict and isinstance(value, dict):
        inner = args[1] if len(args) == 2 else Any
        return {name: from_json(each, inner) for name, each in value.items()}
    if kind in (datetime, date, time) and isinstance(value, str):
        return kind.fromisoformat(value)
    if kind is timedelta:
        return _timedelta(value)
    if kind in (UUID, Decimal) or (isinstance(kind, type) and issubclass(kind, Enum)):
        return kind(value)
    return value


def _plain(kind: Any) -> Any:
    return typing.get_origin(kind) or kind


def _iso_duration(value: timedelta) -> str:
    """As the engine and pydantic write it.

    >>> _iso_duration(timedelta(minutes=3)), _iso_duration(timedelta(milliseconds=-1500))
    ('PT180S', '-PT1.5S')
    """
    micros = abs(value) // timedelta(microseconds=1)
    seconds = f"{micros // 1_000_000}.{micros % 1_000_000:06}".rstrip("0").rstrip(".")
    return f"{'-' if value < timedelta() else ''}PT{seconds}S"


def _timedelta(value: Any) -> timedelta:
    """
    >>> _timedelta("P1DT1H0.5S"), _timedelta(90)
    (datetime.timedelta(days=1, seconds=3600, microseconds=500000), datetime.timedelta(seconds=90))
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return timedelta(seconds=value)
    found = _ISO_DURATION.match(str(value))
    if found is None or not any(found.groups()[1:]):
        raise ValueError(f"{value!r} is not a duration such as PT90S")
    weeks, days, hours, minutes, seconds = (float(each or 0) for each in found.groups()[1:])
    given = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return -given if found[1] == "-" else given
