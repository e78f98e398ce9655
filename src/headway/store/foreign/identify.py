"""Tells which library an object given as `conn=` is of, without importing any library for it."""

from __future__ import annotations

from typing import Any

from headway.errors import ConfigError

_LIBRARIES = frozenset(
    {
        "aiosqlite",
        "apsw",
        "asyncpg",
        "django",
        "psycopg",
        "psycopg2",
        "psycopg_pool",
        "sqlalchemy",
        "sqlite3",
    }
)

_HINTS = {
    "Engine": "an engine has no transaction: pass a connection or session of it",
    "AsyncEngine": "an engine has no transaction: pass a connection or session of it",
    "sessionmaker": "a session factory has no transaction: pass a session of it",
    "async_sessionmaker": "a session factory has no transaction: pass a session of it",
    "str": "a URL has no transaction: pass an open connection",
    "Path": "a path has no transaction: pass an open connection",
}


def library_of(conn: object) -> str | None:
    """The top-level module that the object's type, or a base of it, comes from: `psycopg`, `sqlalchemy`, …"""
    for cls in type(conn).__mro__:
        root = cls.__module__.partition(".")[0]
        if root in _LIBRARIES:
            return root
    return None


def describe(conn: object) -> str:
    """The object for people: `a psycopg.Connection`, `a str`."""
    cls = type(conn)
    name = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def refusal(conn: object, *, store: str, accepted: str) -> ConfigError:
    """The error for an object that cannot be `conn=`: what it is, why not, and what can be."""
    names = [cls.__name__ for cls in type(conn).__mro__]
    hint = next((_HINTS[name] for name in names if name in _HINTS), None)
    if hint is None and any("Pool" in name for name in names):
        hint = "a pool has no transaction: pass a connection of it"
    if hint is None and any("Cursor" in name for name in names):
        hint = "pass the cursor's connection"
    because = f" ({hint})" if hint else ""
    return ConfigError(f"conn= cannot be {describe(conn)}{because}; on {store} it takes {accepted}")


def is_django(conn: Any) -> bool:
    """Whether it is Django's connection for a database: the wrapper, or the proxy `django.db.connection`."""
    return library_of(conn) == "django" and hasattr(conn, "vendor") and hasattr(conn, "alias")


def is_sqlite(conn: Any) -> bool:
    """Whether it is a connection or session to a SQLite file."""
    match library_of(conn):
        case "apsw" | "sqlite3" | "aiosqlite":
            return True
        case "sqlalchemy":
            bind = conn.get_bind() if hasattr(conn, "get_bind") else conn
            return str(getattr(bind.dialect, "name", "")) == "sqlite"
        case "django" if is_django(conn):
            return bool(conn.vendor == "sqlite")
        case _:
            return False
