"""Turns a URL into a store, without touching the database."""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qsl, unquote, urlsplit

from headway.clock import Clock
from headway.errors import ConfigError
from headway.secrets import show_url
from headway.store.run import Store

DEFAULT_URL = "sqlite:///headway.db"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*\Z")
_EXAMPLES = "use sqlite:///file.db, sqlite+stdlib:///file.db or postgresql://user@host/database"


def open_store(url: str, clock: Clock, *, timeout_s: float) -> Store:
    """The store for a URL. Does not connect yet. Raises `ConfigError`."""
    scheme = check_url(url).partition("://")[0]
    match scheme:
        case "sqlite" | "sqlite+stdlib":
            from headway.store.sqlite.engine.connection import Library
            from headway.store.sqlite.store import SqliteStore

            path, prefix = _file(url)
            library: Library = "stdlib" if "+" in scheme else "apsw"
            return SqliteStore(path, library=library, clock=clock, timeout_s=timeout_s, prefix=prefix)
        case _:
            from headway.store.postgres.store import PostgresStore

            return PostgresStore(url, timeout_s=timeout_s)


def same_database(one: str, other: str) -> bool:
    """Whether two URLs name the same database, as far as the URLs alone can tell."""
    if one == other:
        return True
    try:
        return _database(one) == _database(other)
    except (ConfigError, ValueError):
        return False


def _database(url: str) -> tuple[str, ...]:
    if url.startswith("sqlite"):
        return ("sqlite", *_file(url))
    parts = urlsplit(url)
    return (parts.hostname or "", str(parts.port or 5432), unquote(parts.path), parts.query)


def check_url(url: str, source: str = "the database URL") -> str:
    """The URL; raises `ConfigError` for one of no database that there is a store for, and if it is empty: an unset
    variable must not send work to another database."""
    if not isinstance(url, str):
        raise ConfigError(f"a database URL is a string, not {type(url).__name__}: {_EXAMPLES}")
    if not url.strip():
        raise ConfigError(
            f"{source} is empty: {_EXAMPLES}; left out or unset, it comes from HEADWAY_URL, headway.toml, or is "
            "./headway.db"
        )
    scheme, separator, _ = url.partition("://")
    if not separator or not _SCHEME.match(scheme):
        raise ConfigError(f"{show_url(url)!r} is not a database URL: {_EXAMPLES}")
    match scheme:
        case "sqlite" | "sqlite+stdlib" | "postgresql" | "postgres":
            return url
        case "postgresql+psycopg" | "postgresql+asyncpg" | "postgresql+psycopg2":
            raise ConfigError(f"{scheme}:// is SQLAlchemy's way to name a driver: write postgresql:// here")
    raise ConfigError(f"{scheme}:// is not a database that Headway knows: {_EXAMPLES}")


def _file(url: str) -> tuple[str, str]:
    """The path of a SQLite file, and the prefix of its tables."""
    from headway.store.sqlite.engine.prefix import check_prefix

    parts = urlsplit(url)
    if parts.netloc:
        raise ConfigError(
            f"{show_url(url)!r} names a host: a SQLite URL has three slashes, sqlite:///file.db, or four for an "
            "absolute path"
        )
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    prefix = given.pop("prefix", "")
    if given or parts.fragment:
        raise ConfigError(
            f"{show_url(url)!r} has parameters that a SQLite URL does not take: there is ?prefix=headway_"
        )
    path = unquote(parts.path.removeprefix("/"))
    if path in ("", ":memory:"):
        raise ConfigError(
            f"{show_url(url)!r} names no file: work that must not be lost needs one, such as sqlite:///headway.db"
        )
    return os.path.abspath(path), check_prefix(prefix)
