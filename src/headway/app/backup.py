"""The verb that copies a SQLite file while it is in use."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from headway.errors import NotAllowed
from headway.shell import quoted
from headway.store.run import Store
from headway.store.sqlite.engine.backup import Backup
from headway.store.sqlite.store import SqliteStore


class BackupVerbs:
    """They copy the whole database, whatever the tenant."""

    _store: Store

    def backup(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Backup:
        """Copy the SQLite file to another one while workers go on, check the copy, and only then give it its name.

        `force` overwrites; `progress(pages, of)` is called now and then. Raises `NotAllowed` if the path is taken, and
        on PostgreSQL, with the command of pg_dump.
        """
        if not isinstance(self._store, SqliteStore):
            raise NotAllowed(f"PostgreSQL has its own backups: {pg_dump(self._store, path)}")
        return self._store.back_up(os.fspath(path), force=force, tell=progress or _nobody)

    async def abackup(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Backup:
        """The same, in a thread."""
        return await asyncio.to_thread(lambda: self.backup(path, force=force, progress=progress))


def pg_dump(store: Store, path: str | os.PathLike[str]) -> str:
    """The command that backs up this PostgreSQL database; a password is not in it."""
    words = ["pg_dump", "--format=custom", "--schema=headway", f"--file={os.fspath(path)}", store.describe()]
    return quoted(words)


def _nobody(_pages: int, _of: int) -> None:
    """Is told nothing."""
