"""PostgreSQL databases for tests: fresh ones, and ones that serve test after test and are emptied in between."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from tests import postgres_clock
from tests.warm_sessions import Sessions, keep_sessions, keep_sessions_no_more


class Databases:
    """Makes and drops databases on one server; new ones are copies of a template, which takes some 20 ms."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._admin = psycopg.connect(server, autocommit=True)

    def url(self, name: str) -> str:
        return urlunsplit(urlsplit(self.server)._replace(path=f"/{name}"))

    def create(self, template: str = "template0") -> str:
        name = f"headway_test_{uuid.uuid4().hex[:16]}"
        self._admin.execute(f"create database {name} template {template} strategy file_copy")
        # who waits for a lock that nobody will let go fails its test instead of stopping the run
        self._admin.execute(f"alter database {name} set lock_timeout = '15s'")
        return name

    def plan_once(self, name: str) -> None:
        """Have its sessions plan a statement once, not anew for each of the first five times, which are most of all."""
        self._admin.execute(f"alter database {name} set plan_cache_mode = force_generic_plan")

    def drop(self, name: str) -> None:
        self._admin.execute(f"drop database if exists {name} with (force)")

    def close(self) -> None:
        self._admin.close()


class ReusedDatabases:
    """Lends databases with the schema. One that comes back is emptied and lent again, unless more than rows changed.

    Making and dropping a database takes some 80 ms, emptying one takes 2. Tests need not say what they do to theirs:
    changed tables, functions, grants, comments or settings, open sessions and gathered statistics all show, and
    such a database is dropped instead.
    """

    _LOANS = 100  # then dead rows would begin to slow a database down

    def __init__(self, databases: Databases, template: str, prepare: Callable[[str], Any] | None = None) -> None:
        """`prepare` is called with the URL of each new one: what it does belongs to the database as new."""
        self._databases = databases
        self._template = template
        self._prepare = prepare
        self._idle: deque[_Reused] = deque()
        self._lent: dict[str, _Reused] = {}

    def lend(self) -> str:
        """The URL of a database with the schema and no rows but those that come with it."""
        found = self._reusable() or self._create()
        found.loans += 1
        self._lent[found.url] = found
        keep_sessions(found.url, found.sessions)
        return found.url

    def give_back(self, url: str) -> None:
        keep_sessions_no_more(url)
        self._idle.append(self._lent.pop(url))

    def side(self, url: str) -> psycopg.Connection[Any]:
        """The connection to a lent database that will empty it; fixtures may use it beside the test's own."""
        return self._lent[url].conn

    def close(self) -> None:
        for database in (*self._idle, *self._lent.values()):
            self._drop(database)

    def _reusable(self) -> _Reused | None:
        # two take turns, so that the sessions of the last test have the time of the next one to go away
        while len(self._idle) >= 2:
            found = self._idle.popleft()
            if found.loans < self._LOANS and found.emptied():
                return found
            self._drop(found)
        return None

    def _create(self) -> _Reused:
        name = self._databases.create(self._template)
        self._databases.plan_once(name)  # tests of plans make databases of their own
        url = self._databases.url(name)
        if self._prepare is not None:
            self._prepare(url)
        return _Reused(name, url)

    def _drop(self, database: _Reused) -> None:
        database.sessions.close()
        database.conn.close()
        database.eraser.close()
        self._databases.drop(database.name)


class _Reused:
    """A database, the connection that empties it, and what it looked like when it was new."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url
        self.loans = 0
        self.sessions = Sessions(url)
        self.conn = psycopg.connect(url, autocommit=True, application_name="test fixtures", prepare_threshold=1)
        # neither triggers nor foreign keys; for good, because a session that turns them off forgets its plans
        self.eraser = psycopg.connect(
            url,
            autocommit=True,
            application_name="test fixtures",
            options="-c session_replication_role=replica",
            prepare_threshold=1,
        )
        tables = [table for (table,) in self.conn.execute(_TABLES)]
        self._seeds = {table: rows for table in tables if (rows := self._copied(table))}
        self._signatures = sql.SQL("select {}").format(sql.SQL(", ").join(map(_signature, self._seeds))).as_bytes()
        self._empty = (
            sql.SQL("with {} select setval(seqrelid::regclass, seqstart, false) from pg_sequence")
            .format(
                sql.SQL(", ").join(  # one statement, which is planned once
                    sql.SQL("{} as ({})").format(sql.Identifier(f"part {n}"), part)
                    for n, part in enumerate(
                        [
                            *(_delete(table) for table in tables if table not in self._seeds),
                            sql.SQL(postgres_clock.RELEASE),
                        ]
                    )
                )
            )
            .as_bytes()
        )
        self._seeded = self._row(self._signatures)
        self._functions, _, self._catalogue = self._state()

    def emptied(self) -> bool:
        """Put everything back as it was new; False if that takes more than rows."""
        try:
            return self._put_back()
        except psycopg.Error:
            return False

    def _put_back(self) -> bool:
        end = time.monotonic() + 0.1
        while True:
            functions, sessions, catalogue = self._state()
            if sessions == 0:
                break
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        if catalogue != self._catalogue:
            self._drop_tables_of_test()
            if self._state()[2] != self._catalogue:
                return False
        if functions != self._functions:
            self.conn.execute("; ".join(self._functions))
        self.eraser.execute(self._empty, prepare=True)
        if self._row(self._signatures) != self._seeded:
            self._seed()
        return True

    def _drop_tables_of_test(self) -> None:
        """What an application under test has beside Headway's schema."""
        for (table,) in self.conn.execute(_TABLES_OF_TEST).fetchall():
            self.conn.execute(sql.SQL("drop table if exists public.{} cascade").format(sql.Identifier(table)))

    def _state(self) -> tuple[list[str], int, list[str]]:
        """The functions that tests replace; how many sessions others have; the versions of all else that is defined."""
        ours = [self.conn.info.backend_pid, self.eraser.info.backend_pid, *self.sessions.backends()]
        return cast("tuple[list[str], int, list[str]]", self._row(_STATE, ours))

    def _row(self, query: bytes | str, *params: Any) -> tuple[Any, ...]:
        row = self.conn.execute(query, params or None).fetchone()
        assert row is not None
        return row

    def _copied(self, table: str) -> bytes:
        with self.conn.cursor().copy(sql.SQL("copy headway.{} to stdout").format(sql.Identifier(table))) as copy:
            return b"".join(copy)

    def _seed(self) -> None:
        with self.eraser.transaction():
            for (table, rows), signature, wanted in zip(
                self._seeds.items(), self._row(self._signatures), self._seeded, strict=True
            ):
                if signature != wanted:
                    self.eraser.execute(_delete(table))
                    into = sql.SQL("copy headway.{} from stdin").format(sql.Identifier(table))
                    with self.eraser.cursor().copy(into) as copy:
                        copy.write(rows)
        self._seeded = self._row(self._signatures)


def _delete(table: str) -> sql.Composed:
    return sql.SQL("delete from headway.{}").format(sql.Identifier(table))


def _signature(table: str) -> sql.Composed:
    """Which versions of which rows are there: a row that is written has another xmin."""
    versions = sql.SQL("(select (count(*), sum(xmin::text::bigint))::text from headway.{})")
    return versions.format(sql.Identifier(table))


_TABLES = (
    "select relname from pg_class where relnamespace = 'headway'::regnamespace and relkind in ('r', 'p') order by 1"
)

_TABLES_OF_TEST = "select tablename from pg_tables where schemaname = 'public'"


def _versions(catalogue: str, where: str, more: str = "") -> str:
    return f"(select (count(*), sum(xmin::text::bigint){more})::text from {catalogue} where {where})"


_REPLACED = "array['headway.now', 'headway.piece', 'headway.claim_bytes']::regproc[]"
_FIRST = 16_384  # the server's own objects have smaller ids
_HERE = "(select oid from pg_database where datname = current_database())"
_CATALOGUE = [
    # statistics too: a fresh database has none, and plans depend on them
    _versions("pg_class", f"oid >= {_FIRST} and relpersistence <> 't'", ", sum(reltuples), sum(relpages)"),
    _versions("pg_proc", f"oid >= {_FIRST} and oid <> all({_REPLACED})"),
    _versions("pg_namespace", f"oid >= {_FIRST} and nspname !~ '^pg_(toast_)?temp_'"),
    *(
        _versions(catalogue, f"{key} >= {_FIRST}")
        for catalogue, key in {
            "pg_attribute": "attrelid",
            "pg_attrdef": "adrelid",
            "pg_constraint": "oid",
            "pg_default_acl": "oid",
            "pg_description": "objoid",
            "pg_extension": "oid",
            "pg_index": "indexrelid",
            "pg_policy": "polrelid",
            "pg_rewrite": "oid",
            "pg_trigger": "oid",
            "pg_type": "oid",
        }.items()
    ),
    _versions("pg_database", f"oid = {_HERE}"),
    _versions("pg_db_role_setting", f"setdatabase = {_HERE}"),
]
_STATE = f"""
select (select array_agg(pg_get_functiondef(f) order by f) from unnest({_REPLACED}) f),
       (select count(*)
          from pg_stat_get_activity(null)
         where datid = {_HERE} and backend_type = 'client backend' and pid <> all(%s))
     + (select count(*) from pg_prepared_xacts where database = current_database()),
       array[{", ".join(_CATALOGUE)}]
"""
