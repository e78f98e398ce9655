"""Reads timestamps, also those that no datetime can hold."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.pq import Format

from headway.clock import EARLIEST, LATEST

_OID = psycopg.adapters.types["timestamptz"].oid
_BASE = psycopg.adapters.get_loader(_OID, Format.TEXT)


class TimeLoader(Loader):
    """A moment in UTC. One row with `infinity`, or of a year that Python does not have, must not stop its readers."""

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
