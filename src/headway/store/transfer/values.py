"""Values as both stores have them: ids as text, times in microseconds, JSON and lists as text, bytes in hex."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from headway.store.ops import Row
from headway.store.transfer.tables import PAUSER, Column, Layout

_LISTS = ("_text", "_uuid", "_int4", "_int8")
_decode = msgspec.json.decode
_encode = msgspec.json.Encoder(order="deterministic").encode

# PostgreSQL's expression of each type, to read a column and to write the text `{x}`
_READ = {
    "uuid": "{c}::text",
    "timestamptz": "(extract(epoch from {c}) * 1000000)::bigint",
    "json": "{c}::text",
    "jsonb": "{c}::text",
    "bytea": "encode({c}, 'hex')",
    "bool": "{c}::integer",
    "float4": "{c}::text::float8",
    **dict.fromkeys(_LISTS, "array_to_json({c})::text"),
}
_WRITE = {
    "uuid": "{x}::uuid",
    # in two parts: an interval is multiplied as a double, which has no microseconds for the year 9000
    "timestamptz": "timestamptz 'epoch' + ({x}::bigint / 1000000) * interval '1 second'"
    " + ({x}::bigint % 1000000) * interval '1 microsecond'",
    "json": "{x}::json",
    "jsonb": "{x}::jsonb",
    "bytea": "decode({x}, 'hex')",
    "bool": "{x}::integer::boolean",
    "float4": "{x}::real",
    "float8": "{x}::float8",
    "int2": "{x}::smallint",
    "int4": "{x}::integer",
    "int8": "{x}::bigint",
    "text": "{x}",
    **{
        name: "case when {x} is not null then array(select e from json_array_elements_text({x}::json) as e)::"
        + name.removeprefix("_")
        + "[] end"
        for name in _LISTS
    },
}
_BUCKET = "(select json_agg(json_build_array(s, n)) from unnest(t.starts, t.counts) as u (s, n))::text"

_BUCKET_PART = """
case when x.starts is not null then array(select (e ->> {n})::{type} from json_array_elements(x.starts::json) as e) end
"""


def read_postgres(layout: Layout, column: Column) -> str:
    """The expression that reads a column of `t`."""
    if (layout.name, column.name) == ("buckets", "starts"):
        return _BUCKET
    return _READ.get(column.type, "{c}").replace("{c}", f't."{column.name}"')


def written_postgres(layout: Layout) -> dict[str, str]:
    """The expressions that write a row of texts `x`, by column."""
    found = {}
    for column in layout.columns:
        text = f'x."{column.name}"'
        value = _WRITE[column.type].replace("{x}", text)
        if column.flattened:
            value = f"nullif({value}, {'false' if column.type == 'bool' else chr(39) + '{}' + chr(39)})"
        found[column.name] = value
    if layout.name == "buckets":
        found["starts"] = _BUCKET_PART.replace("{n}", "0").replace("{type}", "bigint")
        found["counts"] = _BUCKET_PART.replace("{n}", "1").replace("{type}", "integer")
    if layout.name in ("attempts", "flow_journal"):
        found["tenant_id"] = "(select j.tenant_id from headway.jobs j where j.id = x.job_id::uuid)"
    return found


def cast_key(column: Column, parameter: str) -> str:
    """A parameter that is compared with a key of PostgreSQL."""
    return _WRITE[column.type].replace("{x}", f"{parameter}::text")


def canonical(layout: Layout, row: Row) -> Row:
    """The row in the form that both stores share."""
    return tuple([_canonical(column, value) for column, value in zip(layout.columns, row, strict=True)])


def _canonical(column: Column, value: Any) -> Any:
    if value is None:
        if not column.flattened:
            return None
        return "[]" if column.type in _LISTS else 0
    match column.type:
        case "bool":
            return int(bool(value))
        case "float4":
            return float(f"{value:.6g}")
        case "jsonb" | "_text" | "_uuid" | "_int4" | "_int8":
            return _encode(_decode(value)).decode()
        case "bytea" if isinstance(value, bytes):
            return value.hex()
        case _:
            return value


def for_sqlite(layout: Layout, row: Row) -> Row:
    """A row in the common form, or its key, as SQLite stores it."""
    return tuple(
        bytes.fromhex(value) if column.type == "bytea" and value is not None else value
        for column, value in zip(layout.columns, row, strict=False)
    )


def arriving(layout: Layout, row: Row) -> Row:
    """The source's row as the target stores it: queues that the transfer paused run there."""
    if layout.name != "queues":
        return row
    names = [column.name for column in layout.columns]
    if row[names.index("paused_by")] != PAUSER:
        return row
    return tuple(None if name in ("paused_at", "paused_by") else value for name, value in zip(names, row, strict=True))


class Digest:
    """Counts rows, and digests them in their order."""

    def __init__(self) -> None:
        self.rows = 0
        self._hash = hashlib.sha256()

    def add(self, row: Row) -> None:
        self.rows += 1
        self._hash.update(_encode(row))

    @property
    def hex(self) -> str:
        return self._hash.hexdigest()
