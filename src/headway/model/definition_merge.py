"""What is stored of a kind: what the code declares, under what operators changed.

Rows are dicts of columns, as SQLite stores them; `change_definition` and `declare` of PostgreSQL have the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from headway.model.definition import FIELDS, Definition, NewDefinition

COLUMNS = (*(name for name in Definition.__struct_fields__ if name != "tenant_ids"), "code")
CHANGEABLE = (*FIELDS, "active")
_NOTHING = msgspec.Raw(b"null")


class _Code(msgspec.Struct, frozen=True, kw_only=True):
    """The last declared values of the fields that an operator may change."""

    description: str
    schema: msgspec.Raw = _NOTHING
    timeout_ms: int | None
    max_attempts: int
    queue: str
    enqueuer_may: msgspec.Raw
    tenants: tuple[str, ...] | None = None

    def values(self) -> dict[str, Any]:
        schema = bytes(self.schema).decode()
        return {name: getattr(self, name) for name in FIELDS} | {
            "schema": None if schema == "null" else schema,
            "enqueuer_may": bytes(self.enqueuer_may).decode(),
            "tenants": _listed(self.tenants),
        }


_decode_code = msgspec.json.Decoder(_Code).decode


def declared(row: Mapping[str, Any] | None, said: NewDefinition, now: int) -> dict[str, Any]:
    """The row after a worker declared the kind: its values, except those that an operator changed."""
    row = row or unwritten(said.kind, now)
    kept = _changed(row)
    return {**row, **{name: value for name, value in _said(said).items() if name not in kept}}


def changed(
    row: Mapping[str, Any] | None, kind: str, values: Mapping[str, Any], reset: Iterable[str], now: int
) -> dict[str, Any]:
    """The row after an operator set these values, and let the fields of `reset` follow the code again."""
    row = row or unwritten(kind, now)
    names = (_changed(row) - set(reset)) | (values.keys() & set(FIELDS))
    text = msgspec.json.encode([name for name in FIELDS if name in names]).decode()
    if "tenants" in values:
        values = {**values, "tenants": _listed(values["tenants"])}
    return {**row, **_back_to_code(row, reset), **values, "changed": text}


def unwritten(kind: str, now: int) -> dict[str, Any]:
    """The row of a kind that has none."""
    said = _said(NewDefinition(kind=kind))
    row = {"kind": kind, "active": 1, "changed": "[]", "revision": 0, "created_at": now, "updated_at": now}
    row = said | row | {"origin": "stored", "code": None}
    return {name: row[name] for name in COLUMNS}


def _said(said: NewDefinition) -> dict[str, Any]:
    """The declared values, as stored."""
    values = msgspec.structs.asdict(said) | {
        "computed": int(said.computed),
        "origin": "code",
        "tenants": _listed(said.tenants),
    }
    code = _Code(
        description=said.description,
        schema=_NOTHING if said.schema is None else msgspec.Raw(said.schema.encode()),
        timeout_ms=said.timeout_ms,
        max_attempts=said.max_attempts,
        queue=said.queue,
        enqueuer_may=msgspec.Raw(said.enqueuer_may.encode()),
        tenants=said.tenants,
    )
    return values | {"code": msgspec.json.encode(code).decode()}


def _listed(tenants: Iterable[str] | None) -> str | None:
    return None if tenants is None else msgspec.json.encode(list(tenants)).decode()


def _back_to_code(row: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """The declared values of these fields; defaults if nothing was declared."""
    said = row["code"]
    code = _said(NewDefinition(kind=row["kind"])) if said is None else _decode_code(said).values()
    return {name: code[name] for name in fields}


def _changed(row: Mapping[str, Any]) -> set[str]:
    return set(msgspec.json.decode(row["changed"]))
