"""How definitions, templates and triggers travel: as JSON to the functions, as rows back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headway.model.connector import ConnectorChange
from headway.model.definition import DefinitionChange
from headway.model.template import TemplateChange
from headway.model.trigger import TriggerChange
from headway.store.ops import Row
from headway.store.postgres.engine.decode import plain, shown

_JSON = frozenset(
    {"schema", "policy", "enqueuer_may", "payload", "options", "when", "headers", "events"}
)  # sent as they were written


def value_text(struct: msgspec.Struct) -> str:
    return msgspec.json.encode(_plain(struct)).decode()


def values_text(structs: Sequence[msgspec.Struct]) -> str:
    return msgspec.json.encode([_plain(struct) for struct in structs]).decode()


def change_text(change: DefinitionChange | TemplateChange | TriggerChange | ConnectorChange) -> str:
    given = _plain(change)
    if not given.get("reset", True):
        del given["reset"]
    return msgspec.json.encode(given).decode()


def fields_of(struct: type[msgspec.Struct], row: Row) -> dict[str, Any]:
    fields = dict(zip(struct.__struct_fields__, map(plain, row), strict=True))
    for name in _JSON & fields.keys():
        fields[name] = shown(fields[name])
    return fields


def _plain(struct: msgspec.Struct) -> dict[str, Any]:
    """The fields of a struct that are set; JSON text as JSON."""
    return {
        name: msgspec.Raw(value.encode()) if name in _JSON and isinstance(value, str) else value
        for name in struct.__struct_fields__
        if (value := getattr(struct, name)) is not msgspec.UNSET
    }
