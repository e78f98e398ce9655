"""The database file in this process: opens it, and keeps it closed across forks."""

from __future__ import annotations

import os
import stat
import threading
import weakref
from collections.abc import Callable
from contextlib import closing
from types import TracebackType

from headway.errors import StoreError
from headway.logs import get_logger
from headway.store.run import drive
from headway.store.sqlite.engine import migrate
from headway.store.sqlite.engine.connection import Connection, Library, connect, library_errors
from headway.store.sqlite.engine.errors import PATIENCE_S, Patience, explain, is_busy
from headway.store.sqlite.engine.prefix import prefixed, under

log = get_logger("headway.store")

Identity = tuple[int, int]

_files: weakref.WeakSet[File] = weakref.WeakSet()
_files_lock = threading.Lock()


class File:
    """Opens connections to one file with one library; the first one creates the schema in a new file."""

    def __init__(self, path: str, library: Library, patience_s: float = PATIENCE_S, prefix: str = "") -> None:
        self.path = path
        self.prefix = prefix
        self.patience_s = patience_s
        self.library: Library = library
        self.errors = library_errors(library)
        self.gate = Gate()
        self._opened: Identity | None = None
        self._log: Identity | None = None  # the -wal of that file

    def open(self, patience_s: float | None = None) -> Connection:
        """A connection to a file with this version of the schema."""
        return self._patiently(self._open, patience_s)

    def open_bare(self) -> Connection | None:
        """A connection to the file as it is; None where there is none."""
        if not os.path.exists(self.path):
            return None
        return self._patiently(lambda: self._connect(create=False))

    def open_for_migration(self) -> Connection:
        """A connection to the file, created if it does not exist; its schema may have any version."""
        return self._patiently(lambda: self._connect(create=True))

    def is_blank(self) -> bool:
        """Whether no schema was committed to the file yet; needs no lock."""
        try:
            with closing(connect(self.path, self.library, create=False)) as conn:
                return drive(migrate.read_version(), under(self.prefix, conn.run)) == 0
        except self.errors:
            return False

    def open_empty(self) -> Connection:
        """A connection to an empty store that nobody else sees."""
        conn = prefixed(connect("", self.library), self.prefix)
        migrate.migrate(conn)
        return conn

    def closed(self) -> None:
        """Note that this process has no open connection any more."""
        self._opened = self._log = None

    def identity(self) -> Identity | None:
        """Which file is at the path now. A commit to a file that was moved away or deleted is lost."""
        return _identity(self.path)

    def explain(self, error: Exception) -> StoreError:
        """The library's error in our words."""
        return explain(error, self.path, self.patience_s)

    def _patiently(self, open_: Callable[[], Connection], patience_s: float | None = None) -> Connection:
        patience = Patience(self.patience_s if patience_s is None else patience_s)
        while True:
            try:
                return open_()
            except self.errors as error:
                if not (is_busy(error) and patience.wait()):
                    raise self.explain(error) from error

    def _open(self) -> Connection:
        conn = self._connect(create=True)
        try:
            migrate.ensure(conn, self.path, self.prefix)
        except BaseException:
            conn.close()
            raise
        self._log = _identity(f"{self.path}-wal")  # not earlier: the first read or write creates it
        return conn

    def _connect(self, *, create: bool) -> Connection:
        _check_place(self.path)
        self._check_moved()
        self._claim()
        conn = connect(self.path, self.library, create=create)
        try:
            conn.execute(
                "pragma busy_timeout = 0"
            )  # `Patience` waits instead, and is fairer than SQLite's growing pauses
            ((mode,),) = conn.execute("pragma journal_mode")
            if mode != "wal":
                ((mode,),) = conn.execute("pragma journal_mode = wal")
            if mode != "wal":
                raise StoreError(
                    f"{self.path} cannot have a write-ahead log (its journal mode stays {mode}): "
                    "its file system has no shared memory; put the file on a local disk"
                )
            conn.execute("pragma synchronous = full")
            conn.execute("pragma foreign_keys = off")
            conn.execute("pragma cache_size = -16000")
            conn.execute("pragma temp_store = memory")
            conn.execute("pragma journal_size_limit = 67108864")
        except BaseException:
            conn.close()
            raise
        self._claim()
        return prefixed(conn, self.prefix)

    def _check_moved(self) -> None:
        """Log that the file was deleted or replaced while this process had it open."""
        found = self.identity()
        if self._opened is None or found == self._opened:
            return
        if found is None:
            log.warning(
                "the database file was deleted while it was in use, and its jobs with it: a new one is made",
                database=self.path,
            )
        else:
            log.warning(
                "the database file was replaced while it was in use: the new one is used from now on",
                database=self.path,
                old_log=self._rename_log(),
            )
        self._opened = self._log = None

    def _rename_log(self) -> str | None:
        """Rename the old file's log: SQLite would take it for the new file's, and write pages of one into the other.
        Gives its new name, for somebody who moved the old file and wants its last transactions."""
        own = f"{self.path}-wal"
        if self._log is None or _identity(own) != self._log:
            return None
        renamed = f"{own}.replaced-{self._log[1]}"
        try:
            os.rename(own, renamed)
            if _identity(renamed) != self._log:  # another process renamed it first, and this is the new file's log
                os.rename(renamed, own)
                return None
            os.rename(f"{self.path}-shm", f"{self.path}-shm.replaced-{self._log[1]}")
        except FileNotFoundError:
            return None
        return renamed

    def _claim(self) -> None:
        """Note which library this process uses for the file; refuse a second one."""
        identity = self.identity()
        if identity is None:
            return
        with _files_lock:
            for other in _files:
                if other._opened == identity and other.library != self.library:
                    raise StoreError(
                        f"{self.path} is open in this process with {other.library} already, and cannot be "
                        f"opened with {self.library} too: two SQLite libraries on one file in one process "
                        "lose committed data. Use one of sqlite:///… and sqlite+stdlib:///… throughout"
                    )
            self._opened = identity
            _files.add(self)


class Gate:
    """Counts the threads that read, so that a fork can wait until there are none."""

    def __init__(self) -> None:
        self._free = threading.Condition(threading.Lock())
        self._inside = 0

    def __enter__(self) -> None:
        with self._free:
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._free:
            self._inside -= 1
            if not self._inside:
                self._free.notify_all()

    def shut(self, timeout: float) -> bool:
        """Let no thread in until `open`; False if one is still inside after the timeout."""
        self._free.acquire()
        return self._free.wait_for(lambda: not self._inside, timeout)

    def open(self) -> None:
        self._free.release()


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _check_place(path: str) -> None:
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise StoreError(f"{path} cannot be created: there is no directory {folder}. Make it with: mkdir -p {folder}")
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise StoreError(f"{path} is not a file: give Headway the path of a file to keep its jobs in")
