"""Turns a URL into a store, without touching the database."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from headway.clock import Clock
from headway.errors import ConfigError
from headway.store.run import Store

_EXAMPLES = "use sqlite:///file.db, sqlite+stdlib:///file.db or postgresql://user@host/database"


def open_store(url: str, clock: Clock) -> Store:
    """The store that a URL names; nothing is connected to yet. Raises `ConfigError`."""
    if not isinstance(url, str):
        raise ConfigError(f"a database URL is a string, not {type(url).__name__}: {_EXAMPLES}")
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise ConfigError(f"{url!r} is not a database URL: {_EXAMPLES}")
    match scheme:
        case "sqlite" | "sqlite+stdlib":
            from headway.store.sqlite.store import SqliteStore

            return SqliteStore(_path(url), library="stdlib" if "+" in scheme else "apsw", clock=clock)
        case "postgresql" | "postgres":
            from headway.store.postgres.store import PostgresStore

            return PostgresStore(url)
        case "postgresql+psycopg" | "postgresql+asyncpg" | "postgresql+psycopg2":
            raise ConfigError(f"{scheme}:// is SQLAlchemy's way to name a driver: write postgresql:// here")
        case _:
            raise ConfigError(f"{scheme}:// is not a database that Headway knows: {_EXAMPLES}")


def _path(url: str) -> str:
    parts = urlsplit(url)
    if parts.netloc:
        raise ConfigError(
            f"{url!r} names a host: a SQLite URL has three slashes, sqlite:///file.db, or four for an absolute path"
        )
    if parts.query or parts.fragment:
        raise ConfigError(f"{url!r} has parameters, which a SQLite URL does not take: {_EXAMPLES}")
    path = unquote(parts.path.removeprefix("/"))
    if path in ("", ":memory:"):
        raise ConfigError(f"{url!r} names no file: work that must not be lost needs one, such as sqlite:///headway.db")
    return os.path.abspath(path)
