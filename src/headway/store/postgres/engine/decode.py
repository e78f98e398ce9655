"""Turns what PostgreSQL gives into the models' values, also what no verb of ours would have written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.pq import Format

from headway.clock import EARLIEST, LATEST
from headway.errors import InvalidPayload
from headway.model import codec
from headway.model.job import Job
from headway.model.status import whole_scope
from headway.store.ops import Row

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


def utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def plain(value: Any) -> Any:
    """The value as the models have it, even from a library that decodes ids to UUIDs."""
    return str(value) if isinstance(value, UUID) else utc(value)


def shown(text: str | None) -> Any:
    """The value of a JSON text, or the text itself if it cannot be read: SQL may have written it."""
    try:
        return None if text is None else codec.read(text)
    except InvalidPayload:
        return text


def job(row: Row) -> Job:
    fields = dict(zip(_FIELDS, map(utc, row), strict=True))
    for name in _JSON_FIELDS:
        fields[name] = codec.shown(fields[name], what=name)
    fields["unique_scope"] = whole_scope(fields["unique_scope"] or ())
    fields["awaiting"] = tuple(fields["awaiting"] or ())
    fields["tags"] = tuple(fields["tags"] or ())
    return Job(**fields)
