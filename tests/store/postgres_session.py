"""A PostgreSQL transaction that stays open while others go on."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.types.string import TextLoader


class Session:
    """A PostgreSQL transaction that stays open, in which ops run, also in the background."""

    def __init__(self, store: Any, conn: psycopg.Connection[Any], isolation: str | None = None) -> None:
        self._store = store
        self.conn = conn
        if isolation is not None:
            self.conn.isolation_level = psycopg.IsolationLevel[isolation]
        for name in ("uuid", "json", "jsonb"):  # as on the store's own connections
            self.conn.adapters.register_loader(name, TextLoader)
        self.pid = self.conn.info.backend_pid

    def run(self, op: Any) -> Any:
        return self._store.run_in(self.conn, op)

    def start(self, op: Any) -> Future[Any]:
        """Run an op in a thread, commit, and give its result later."""

        def work() -> None:
            try:
                answer = self.run(op)
                self.conn.commit()
                future.set_result(answer)
            except BaseException as error:
                with suppress(psycopg.Error):  # of a session that the test has closed
                    self.conn.rollback()
                future.set_exception(error)

        future: Future[Any] = Future()
        threading.Thread(target=work, daemon=True).start()
        return future

    def blocked(self) -> bool:
        """Whether this session waits for another's lock."""
        ((pids,),) = self._store.side.execute("select pg_blocking_pids(%s)", (self.pid,)).fetchall()
        return bool(pids)

    def commit(self) -> None:
        self.conn.commit()

    def rollback(self) -> None:
        self.conn.rollback()
