"""Django's connection as a port: `django.db.connection`, `connections["other"]`, and third-party backends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any

from headway.errors import ConfigError
from headway.store.foreign.placeholders import render
from headway.store.foreign.session import Guard
from headway.store.ops import Rows


class DjangoPort:
    """Goes through Django's own cursor, so that its execute wrappers, query log and atomic blocks see us."""

    def __init__(self, conn: Any, choose: Callable[[DjangoPort], Guard]) -> None:
        self._conn = conn
        self._choose = choose

    @property
    def in_transaction(self) -> bool:
        return bool(self._conn.in_atomic_block or not self._conn.get_autocommit())

    @property
    def driver(self) -> Any:
        """The driver's connection; None before the first statement."""
        return self._conn.connection

    def guard(self) -> Guard:
        if _loop_runs_here() and not os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE"):  # Django's own switch
            raise ConfigError(
                "conn= is Django's connection, which Django does not let async code use: put the transaction "
                "into a function that calls the blocking twin (enqueue), and await sync_to_async(function)()"
            )
        return self._choose(self)

    def run(self, sql: str, params: Sequence[Any]) -> Rows:
        with self._conn.cursor() as cursor:
            if params:
                cursor.execute(*render(sql, params, "format"))
            else:
                cursor.execute(sql)
            if cursor.description is None:
                return []
            return [tuple(row) for row in cursor.fetchall()]


def _loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
