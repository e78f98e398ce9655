"""Turns what PostgreSQL gives into the models' values, also what no verb of ours would have written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import psycopg
from psycopg.adapt import AdaptersMap, Buffer, Loader
from psycopg.pq import Format
from psycopg.types.string import TextLoader

from headway.clock import EARLIEST, LATEST
from headway.errors import InvalidPayload
from headway.model import codec
from headway.model.job import Job
from headway.model.status import whole_scope
from headway.store.ops import Row, Rows

_JSON_FIELDS = ("payload", "result", "meta", "state")
_FIELDS = Job.__struct_fields__
_OID = psycopg.adapters.types["timestamptz"].oid
_BASE = psycopg.adapters.get_loader(_OID, Format.TEXT)


class TimeLoader(Loader):
    """A time in UTC. A row with `infinity`, or with a year that Python does not have, must not stop its readers."""

    def __init__(self, oid: int, context: Any = None) -> None:
        super().__init__(oid, context)
        assert _BASE is not None
        self._loader = _BASE(oid, context)

    def load(self, data: Buffer) -> datetime:
        try:
            moment: datetime = self._loader.load(data).astimezone(UTC)
        except (psycopg.DataError, OverflowError, ValueError):
            text = bytes(data)
            return EARLIEST if text.startswith((b"-", b"0001")) or text.endswith(b"BC") else LATEST
        return moment


def register_text_loaders(adapters: AdaptersMap) -> None:
    """Ids travel as text, and JSON is decoded by its reader."""
    for name in ("uuid", "json", "jsonb"):
        adapters.register_loader(name, TextLoader)
    adapters.register_loader("timestamptz", TimeLoader)


def as_text(rows: Rows) -> Rows:
    """The rows of a library that decodes ids and JSON by itself, as ours have them."""
    return [tuple(_as_text(value) for value in row) for row in rows]


def _as_text(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else value


def utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def plain(value: Any) -> Any:
    """The value as the models have it, even from a library that decodes ids to UUIDs."""
    return str(value) if isinstance(value, UUID) else utc(value)


def shown(text: str | None) -> Any:
    """The value of a JSON text, or the text itself if it cannot be read: SQL may have written it."""
    try:
        return codec.read(text) if isinstance(text, str) else text
    except InvalidPayload:
        return text


def job(row: Row, raw: bool = False) -> Job:
    read = codec.as_stored if raw else codec.shown
    fields = dict(zip(_FIELDS, map(utc, row), strict=True))
    for name in _JSON_FIELDS:
        if isinstance(fields[name], str):  # not decoded yet
            fields[name] = read(fields[name], what=name)
    fields["unique_scope"] = whole_scope(fields["unique_scope"] or ())
    fields["awaiting"] = tuple(fields["awaiting"] or ())
    fields["tags"] = tuple(fields["tags"] or ())
    return Job(**fields)
