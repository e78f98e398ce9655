"""A PostgreSQL database as a side of a transfer. It needs the owner's login: it writes tables and makes triggers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import psycopg

from headway.errors import NotAllowed, StoreBusy
from headway.model.ids import DEFAULT_TENANT_ID
from headway.store.ops import Batch, Row, Rows, Statement
from headway.store.postgres.engine.arrays import literal
from headway.store.postgres.engine.errors import translated
from headway.store.postgres.engine.pool import parameters
from headway.store.postgres.store import PostgresStore
from headway.store.run import drive
from headway.store.transfer.side import Counters, Note, named
from headway.store.transfer.tables import ARTIFACT_STORES, REST, SEALED, Catalogue, Dialect, Found, Layout
from headway.store.transfer.values import canonical, cast_key, read_postgres, written_postgres

_LARGEST = 4 * 1024 * 1024  # characters of one insert
_CATALOGUE = """
select c.relname, a.attname, t.typname, a.attnotnull, a.attgenerated = '',
       coalesce(array_position(array(select unnest(i.indkey::smallint[])), a.attnum), 0)
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  join pg_type t on t.oid = a.atttypid
  left join pg_index i on i.indrelid = c.oid and i.indisprimary
 where c.relnamespace = 'headway'::regnamespace and c.relkind = 'r'
 order by c.relname, a.attnum
"""
_OWNER = "select pg_has_role(c.relowner, 'usage') from pg_class c where c.oid = 'headway.jobs'::regclass"
_ALONE = "select pg_try_advisory_lock(hashtextextended('headway.transfer', (select i.secret from install i)))"


class PostgresSide:
    dialect: Dialect = "postgres"

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        with self._errors():
            store.run(store.ops.version())  # refuses a schema that is not this library's
            self._conn = psycopg.connect(**parameters(store._url) | {"autocommit": True})
            self._cursor = psycopg.RawCursor(self._conn)
            self._run("set search_path = headway, pg_catalog, pg_temp")
            if not self._run(_OWNER)[0][0]:
                raise NotAllowed(
                    f"a transfer writes tables and makes triggers: connect to {self.describe()} as its owner"
                )
            if not self._run(_ALONE)[0][0]:
                raise StoreBusy(f"another transfer with {self.describe()} is running")

    def describe(self) -> str:
        return self.store.describe()

    def catalogue(self) -> Catalogue:
        found: Catalogue = {}
        for table, column, type_, required, stored, key in self._run(_CATALOGUE):
            columns = found.setdefault(table, {})
            if stored:
                columns[column] = Found(type_, required, key)
        return found

    def read(self, layout: Layout, scope: str, after: Row | None, upto: Row | None, limit: int | None) -> list[Row]:
        key_columns = layout.columns[: layout.keys]
        keys = ", ".join(f't."{column.name}"' for column in key_columns)
        where = [scope]
        params: list[str] = []
        for bound, sign in ((after, ">"), (upto, "<=")):
            if bound:
                marks = [cast_key(column, f"${len(params) + n}") for n, column in enumerate(key_columns, 1)]
                where.append(f"({keys}) {sign} ({', '.join(marks)})")
                params += [str(value) for value in bound]
        columns = ", ".join(read_postgres(layout, column) for column in layout.columns)
        sql = f"select {columns} from {layout.name} as t where {' and '.join(where)} order by {keys}"
        rows = self._run(sql if limit is None else f"{sql} limit {int(limit)}", params)
        return [canonical(layout, row) for row in rows]

    def count(self, layout: Layout, scope: str) -> int:
        return int(self._run(f"select count(*) from {layout.name} as t where {scope}")[0][0])

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self._errors():
            self._run("begin isolation level repeatable read read only")
            try:
                yield
            finally:
                self._run("rollback")

    @contextmanager
    def writing(self, transfer_id: str) -> Iterator[None]:
        with self._errors(), self._conn.transaction():
            self._run("select set_config('headway.transfer', $1, true)", [transfer_id])
            yield

    def insert(self, layout: Layout, rows: Sequence[Row]) -> None:
        values = written_postgres(layout)
        names = ", ".join(f'"{name}"' for name in values)
        types = ", ".join(f'"{column.name}" text' for column in layout.columns)
        sql = (
            f"insert into {layout.name} ({names}) overriding system value "
            f"select {', '.join(values.values())} from json_to_recordset($1::json) as x ({types})"
        )
        for text in _texts([named(layout, row) for row in rows]):
            self._run(sql, [text])

    def delete(self, layout: Layout, keys: Sequence[Row]) -> None:
        columns = layout.columns[: layout.keys]
        types = ", ".join(f'"{column.name}" text' for column in columns)
        where = " and ".join(f't."{column.name}" = {cast_key(column, f"x.{_q(column.name)}")}' for column in columns)
        rows = [dict(zip((column.name for column in columns), key, strict=True)) for key in keys]
        for text in _texts(rows):
            self._run(
                f"delete from {layout.name} t using json_to_recordset($1::json) as x ({types}) where {where}", [text]
            )

    def clear(self, layout: Layout, scope: str) -> None:
        self._run(f"delete from {layout.name} as t where {scope}")

    def update(self, layout: Layout, row: Row, names: Sequence[str]) -> None:
        values = written_postgres(layout)
        given = ", ".join(f'"{name}" = {values[name]}' for name in names)
        columns = layout.columns[: layout.keys]
        types = ", ".join(f'"{column.name}" text' for column in layout.columns)
        where = " and ".join(f't."{column.name}" = {values[column.name]}' for column in columns)
        (text,) = _texts([named(layout, row)])
        self._run(
            f"update {layout.name} t set {given} from json_to_recordset($1::json) as x ({types}) where {where}", [text]
        )

    def note(self) -> Note | None:
        rows = self._run(
            "select id::text, role, peer, phase, history from store_transfers order by started_at desc limit 1"
        )
        return Note(*rows[0]) if rows else None

    def write_note(self, note: Note) -> None:
        self._run(
            """
            insert into store_transfers as t (id, role, peer, phase, history, started_at)
            values ($1::uuid, $2, $3, $4, $5::boolean, clock_timestamp())
            on conflict (id) do update
            set phase = excluded.phase,
                finished_at = case when excluded.phase in ('done', 'aborted') then clock_timestamp() end
            """,
            [note.id, note.role, note.peer, note.phase, note.history],
        )

    def seal(self, note: Note) -> None:  # noqa: ARG002 - the function reads the note
        # waits for every transaction that has written to a table: none is left that knows no seal. Not for long, since
        # others queue behind a lock that is waited for
        self._run("set local lock_timeout = '500ms'")
        self._run(f"lock table {', '.join(SEALED)} in share row exclusive mode")
        for name in SEALED:
            self._run(
                f"create or replace trigger moved before insert or update or delete on {name} "
                "for each statement execute function refuse_moved()"
            )

    def unseal(self) -> None:
        for name in SEALED:
            self._run(f"drop trigger if exists moved on {name}")

    def running(self) -> int:
        return int(self._run("select count(*) from jobs where status = 'running'")[0][0])

    def artifact_stores(self) -> list[str]:
        return [name for (name,) in self._run(ARTIFACT_STORES)]

    def process_rest(self) -> int:
        def execute(request: Statement | Batch) -> Rows:
            assert isinstance(request, Statement)
            return self._run(request.sql, [literal(param) for param in request.params])

        ops = self.store.ops
        for op in (ops.process_arrivals(limit=500), ops.fold_stats(limit=10_000), ops.fold_errors(limit=10_000)):
            drive(op.steps(), execute)
        return int(self._run(REST)[0][0])

    def counters(self) -> Counters:
        last, called = self._run("select last_value, is_called from position")[0]
        return Counters(last if called else 0)

    def finish(self, counters: Counters) -> None:
        own = self.counters()
        if counters.position > own.position:
            self._run("select setval('headway.position', $1::bigint)", [counters.position])
        for table, column in (("signals", "seq"), ("audit", "id")):
            self._run(
                f"select setval(pg_get_serial_sequence('headway.{table}', '{column}'), max({column})) from {table} "
                f"having max({column}) is not null"
            )

        # the first claims make the index of tenants complete
        self._run("update queues set fair = false where fair")
        self._run(
            "update jobs set fair = true where finished_at is null and tenant_id <> $1::uuid and fair is not true",
            [DEFAULT_TENANT_ID],
        )

    def close(self) -> None:
        with suppress(psycopg.Error):
            # the server notices a closed connection a moment later, which another transfer would find locked
            self._run("select pg_advisory_unlock_all()")
        self._conn.close()

    def _run(self, sql: str, params: Sequence[Any] = ()) -> Rows:
        self._cursor.execute(sql, list(params) or None, prepare=False)
        return self._cursor.fetchall() if self._cursor.description else []

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise translated(error, self.describe()) from error


def _q(name: str) -> str:
    return f'"{name}"'


def _texts(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The rows as JSON arrays that one statement can take."""
    part: list[str] = []
    size = 0
    for row in rows:
        text = msgspec.json.encode(row).decode()
        if part and size + len(text) > _LARGEST:
            yield f"[{','.join(part)}]"
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield f"[{','.join(part)}]"
