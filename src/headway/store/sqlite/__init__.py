"""The embedded store: one SQLite file, many processes, nothing to install or start."""

from headway.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
