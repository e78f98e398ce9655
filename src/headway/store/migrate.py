"""Migrations of either store: what is installed, what would be done, and doing it, even on a caller's connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from headway.errors import ConfigError
from headway.store.foreign import postgres_session, sqlite_session
from headway.store.foreign.identify import is_sqlite
from headway.store.ops import Op, Statement, Steps
from headway.store.postgres.engine import migrate as postgres
from headway.store.run import Store, adrive, drive
from headway.store.sqlite.engine import migrate as sqlite
from headway.store.sqlite.engine.prefix import check_prefix, renamed, under
from headway.store.sqlite.engine.verbs import SqliteOp
from headway.store.sqlite.store import SqliteStore
from headway.store.steps import Part

if TYPE_CHECKING:
    from headway.store.postgres.store import PostgresStore


def latest(store: Store) -> int:
    """The version that this library needs."""
    return sqlite.VERSION if isinstance(store, SqliteStore) else postgres.VERSION


def current(store: Store) -> int:
    """The version that the database has; 0 if it has no schema."""
    if isinstance(store, SqliteStore):
        return store.run(SqliteOp(sqlite.installed, writes=False, absent=0))
    return _postgres(store).run_script(Op(postgres.installed, writes=False))


def usable(store: Store) -> int:
    """The same, or this library's version where a newer one says that this library works on it."""
    if isinstance(store, SqliteStore):
        return store.run(store.ops.version())
    return _postgres(store).run_script(Op(postgres.version, writes=False))


def plan(store: Store, to: int | None = None) -> list[Part]:
    """What `apply` would do now, part by part; empty if there is nothing to do."""
    if isinstance(store, SqliteStore):
        parts = store.run(SqliteOp(lambda: sqlite.planned(to), writes=False, absent=sqlite.plan(sqlite.NOTHING, to)))
        return [_renamed(part, store.prefix) for part in parts]
    return _postgres(store).run_script(Op(lambda: postgres.plan(to), writes=False))


def _renamed(part: Part, prefix: str) -> Part:
    if not prefix:
        return part
    statements, record = (tuple(renamed(sql, prefix) for sql in texts) for texts in (part.statements, part.record))
    return replace(part, statements=statements, record=record)


def apply(store: Store, to: int | None = None, *, retention_ms: Mapping[str, int] | None = None) -> list[str]:
    """Bring the schema to a version (default: this library's), up or down; gives what was done. Each part of it is
    committed by itself and recorded: a migration that was ended goes on where it was. The retention is what logins of
    workers have to keep at least."""
    if isinstance(store, SqliteStore):
        return store.migrate(to)
    done = _postgres(store).migrate(to)
    if retention_ms is not None and to in (None, latest(store)):
        text = msgspec.json.encode(retention_ms).decode()
        keep = Statement("select headway.set_usual_retention($1::jsonb)", [text])
        _postgres(store).run_script(Op(lambda: _only(keep), writes=True))
    return done


def _only(statement: Statement) -> Steps[None]:
    yield statement


def roles(store: Store) -> list[str]:
    """Create the roles of workers and applications with their grants; gives their names. `ConfigError` on SQLite."""
    return _postgres(store).run_script(Op(postgres.roles, writes=True))


def roles_sql(store: Store) -> str:
    """The SQL text of `roles`."""
    _postgres(store)
    return postgres.roles_sql()


def migrate(conn: Any, to: int | None = None, *, prefix: str = "") -> list[str]:
    """Bring the schema to this library's version inside the caller's transaction; gives what was done.

    For the host's own migrations. Alembic: `headway.migrate(op.get_bind())`. Django: in a `RunPython`,
    `headway.migrate(schema_editor.connection)`. Takes what `conn=` takes, of PostgreSQL or SQLite; an async connection
    goes to `amigrate`. `prefix` is the one of the app's URL, of a SQLite file that has one.
    """
    if is_sqlite(conn):
        with sqlite_session(conn) as execute:
            return drive(sqlite.migration(to), under(check_prefix(prefix), execute))
    _no_prefix(prefix)
    with postgres_session(conn) as execute:
        return drive(postgres.migrate(to), execute)


async def amigrate(conn: Any, to: int | None = None, *, prefix: str = "") -> list[str]:
    """The same on an async connection: of asyncpg, psycopg or SQLAlchemy."""
    if is_sqlite(conn):
        async with sqlite_session(conn) as execute:
            return await adrive(sqlite.migration(to), under(check_prefix(prefix), execute))
    _no_prefix(prefix)
    async with postgres_session(conn) as execute:
        return await adrive(postgres.migrate(to), execute)


def _no_prefix(prefix: str) -> None:
    if prefix:
        raise ConfigError("on PostgreSQL Headway has a schema of its own: its tables need no prefix")


def _postgres(store: Store) -> PostgresStore:
    from headway.store.postgres.store import PostgresStore

    if not isinstance(store, PostgresStore):
        raise ConfigError("a SQLite file has no roles: who can open the file can do everything")
    return store
