"""The pool of read connections: a few stay open, and none waits for the writer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headway.errors import StoreUnavailable
from headway.store.ops import Steps
from headway.store.run import drive
from headway.store.sqlite.engine.connection import Connection
from headway.store.sqlite.engine.errors import Patience, is_busy
from headway.store.sqlite.engine.file import File, Identity

T = TypeVar("T")

_KEPT = 4
_FIRST_PATIENCE_S = 0.5
_THREADS = 4


class Readers:
    """A pool of read connections, and the threads that read for event loops."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._idle: deque[tuple[Connection, Identity | None]] = deque()
        self._threads: ThreadPoolExecutor | None = None

    def run(self, steps: Callable[[], Steps[T]]) -> T:
        """Run an op's steps on one snapshot."""
        patience: Patience | None = None
        while True:
            try:
                with self._file.gate:
                    return self._read(steps)
            except self._file.errors as error:
                patience = patience or Patience(self._file.patience_s)
                if not (is_busy(error) and patience.wait()):
                    raise self._file.explain(error) from error

    async def arun(self, steps: Callable[[], Steps[T]]) -> T:
        """The same in a thread."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="headway-sqlite-reader")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.run, steps)

    def stop(self) -> None:
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()
        self.disconnect()

    def disconnect(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop()[0].close()

    def _read(self, steps: Callable[[], Steps[T]]) -> T:
        conn, identity = self._take()
        try:
            conn.execute("begin")
            value = drive(steps(), conn.run)
            conn.execute("commit")
        except Exception:
            conn.close()  # rolls back; its state is unknown, so it is not used again
            raise
        if len(self._idle) < _KEPT:
            self._idle.append((conn, identity))
        else:
            conn.close()
        return value

    def _open(self) -> tuple[Connection, Identity | None]:
        try:
            return self._file.open(_FIRST_PATIENCE_S), self._file.identity()
        except StoreUnavailable:
            # the caller's own open transaction may be creating the schema: until it commits, there are no jobs
            if self._file.is_blank():
                return self._file.open_empty(), None
        return self._file.open(), self._file.identity()

    def _take(self) -> tuple[Connection, Identity | None]:
        identity = self._file.identity()
        while True:
            try:
                conn, opened = self._idle.pop()
            except IndexError:
                return self._open()
            if opened == identity:
                return conn, opened
            conn.close()
