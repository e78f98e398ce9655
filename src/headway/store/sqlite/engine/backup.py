"""Copies the file while it is in use, by SQLite's online backup, and proves that the copy is whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, suppress

import msgspec

from headway.errors import NotAllowed, StoreError
from headway.store.sqlite.engine.connection import Connection, connect
from headway.store.sqlite.engine.file import File

_TABLES = "select name from sqlite_master where type = 'table' and name not like 'sqlite\\_%' escape '\\' order by name"
_BUSY_MS = 60_000

Tell = Callable[[int, int], None]  # pages copied, and pages in all


class Backup(msgspec.Struct, frozen=True):
    """A copy that was checked: `rows` are those of each table, as in the file at that moment."""

    path: str
    bytes: int
    rows: dict[str, int]


def back_up(file: File, path: str, *, force: bool, tell: Tell) -> Backup:
    """Copy one state of the file to `path`, readable by this user alone. It is there when it is whole, or not at all.

    Raises `NotAllowed` if something is there already, unless `force`; `StoreError` if the copy fails its checks.
    """
    path = os.path.abspath(path)
    if not force and os.path.lexists(path):
        raise NotAllowed(f"{path} exists already: name another file, or overwrite it with force=True (--force)")
    if os.path.exists(path) and os.path.samefile(path, file.path):
        raise NotAllowed(f"{path} is the database itself: name another file")
    part = f"{path}.part-{os.getpid()}"
    try:
        with closing(connect(file.path, file.library, create=False)) as conn:
            rows = _copy(conn, part, file, tell)
        size = os.path.getsize(part)
        _sync(part)
        if force:
            os.replace(part, path)
        else:
            _place(part, path)
        _sync(os.path.dirname(path))
    except (OSError, file.errors) as error:
        raise StoreError(f"the backup to {path} failed: {error}. The database was not touched") from error
    finally:
        for name in (part, f"{part}-wal", f"{part}-shm", f"{part}-journal"):
            with suppress(OSError):
                os.unlink(name)
    return Backup(path, size, rows)


def _copy(conn: Connection, part: str, file: File, tell: Tell) -> dict[str, int]:
    conn.execute(f"pragma busy_timeout = {_BUSY_MS}")
    conn.execute("begin")  # one snapshot: what others write meanwhile neither enters the copy nor starts it again
    try:
        rows = _counts(conn)
        with closing(connect(part, file.library)) as copy:
            conn.copy_into(copy, tell)
            copy.execute("pragma journal_mode = delete")  # one file; opened by Headway it has a log again
            found = copy.execute("pragma integrity_check")
            if found != [("ok",)]:
                raise StoreError(f"the copy of {file.path} is damaged, and so the file may be: {found[0][0]}")
            if _counts(copy) != rows:
                raise StoreError(f"the copy of {file.path} lacks rows: it was discarded")
    finally:
        conn.execute("rollback")
    return rows


def _counts(conn: Connection) -> dict[str, int]:
    names = [name for (name,) in conn.execute(_TABLES)]
    quoted = {name: name.replace('"', '""') for name in names}
    return {name: conn.execute(f'select count(*) from "{quoted[name]}"')[0][0] for name in names}  # noqa: S608


def _place(part: str, path: str) -> None:
    """Give the file its name, unless somebody has taken that meanwhile."""
    try:
        os.link(part, path)
    except FileExistsError as error:
        raise NotAllowed(
            f"{path} exists already: name another file, or overwrite it with force=True (--force)"
        ) from error


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
