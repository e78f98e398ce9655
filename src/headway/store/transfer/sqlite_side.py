"""A SQLite file as a side of a transfer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headway.clock import SystemClock
from headway.model.ids import DEFAULT_TENANT_ID
from headway.store.ops import Batch, Row, Rows, Statement
from headway.store.run import drive
from headway.store.sqlite.engine.errors import MOVED
from headway.store.sqlite.engine.file import File
from headway.store.sqlite.store import SqliteStore
from headway.store.transfer.side import Counters, Note
from headway.store.transfer.tables import ARTIFACT_STORES, REST, SEALED, Catalogue, Dialect, Found, Layout
from headway.store.transfer.values import canonical, for_sqlite

_BUSY_MS = 60_000
_VERBS = ("insert", "update", "delete")
_FINISH = (
    # a claim of a queue with limits checks them only if this is set
    """
    insert into queues (name, guarded)
    select distinct queue, 1 from jobs
    where finished_at is null and (partition is not null or concurrency is not null or rate_count is not null)
    on conflict (name) do update set guarded = 1
    """,
    # a claim reads the inbox of a plain job only if this is set
    """
    update jobs set signaled = 1
    where finished_at is null and id in (select job_id from signals)
    """,
    # the first claims make the index of tenants complete
    "update queues set fair = 0 where fair = 1",
    f"update jobs set fair = 1 where finished_at is null and tenant_id <> '{DEFAULT_TENANT_ID}' and fair = 0",
)


class SqliteSide:
    dialect: Dialect = "sqlite"

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        file: File = store._opened().file
        self._file = file
        self._conn = file.open()
        self._conn.execute(f"pragma busy_timeout = {_BUSY_MS}")
        self._clock = SystemClock()

    def describe(self) -> str:
        return self.store.describe()

    def catalogue(self) -> Catalogue:
        made = self._run("select name from sqlite_master where type = 'table' and name like ?1 || '%'", (self._prefix,))
        found: Catalogue = {}
        for (name,) in made:
            plain = name.removeprefix(self._prefix)
            if plain in _schema_tables():
                rows = self._conn.execute('select name, type, "notnull", pk from pragma_table_info(?1)', (name,))
                found[plain] = {column: Found(type_, bool(required), key) for column, type_, required, key in rows}
        return found

    def read(self, layout: Layout, scope: str, after: Row | None, upto: Row | None, limit: int | None) -> list[Row]:
        keys = ", ".join(f't."{column.name}"' for column in layout.columns[: layout.keys])
        marks = ", ".join("?" * layout.keys)
        where = [scope] + ([f"({keys}) > ({marks})"] if after else []) + ([f"({keys}) <= ({marks})"] if upto else [])
        columns = ", ".join(f't."{column.name}"' for column in layout.columns)
        sql = f"select {columns} from {layout.name} as t where {' and '.join(where)} order by {keys} limit ?"
        params = (*for_sqlite(layout, after or ()), *for_sqlite(layout, upto or ()), -1 if limit is None else limit)
        return [canonical(layout, row) for row in self._run(sql, params)]

    def count(self, layout: Layout, scope: str) -> int:
        ((count,),) = self._run(f"select count(*) from {layout.name} as t where {scope}")
        return int(count)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        self._conn.execute("begin")
        try:
            yield
        finally:
            self._conn.execute("rollback")

    @contextmanager
    def writing(self, transfer_id: str) -> Iterator[None]:
        with self._errors():
            self._conn.execute("begin immediate")
            try:
                self._run("update store_transfers set writing = 1 where id = ?1", (transfer_id,))
                yield
                self._run("update store_transfers set writing = null where id = ?1", (transfer_id,))
                self._conn.execute("commit")
            except BaseException:
                if self._conn.in_transaction:
                    self._conn.execute("rollback")
                raise

    def insert(self, layout: Layout, rows: Sequence[Row]) -> None:
        columns = ", ".join(f'"{column.name}"' for column in layout.columns)
        marks = ", ".join("?" * len(layout.columns))
        sql = f"insert into {layout.name} ({columns}) values ({marks})"
        self._conn.run(Batch(sql, [for_sqlite(layout, row) for row in rows]))

    def delete(self, layout: Layout, keys: Sequence[Row]) -> None:
        where = " and ".join(f'"{column.name}" = ?' for column in layout.columns[: layout.keys])
        sql = f"delete from {layout.name} where {where}"
        self._conn.run(Batch(sql, [for_sqlite(layout, key) for key in keys]))

    def clear(self, layout: Layout, scope: str) -> None:
        self._run(f"delete from {layout.name} as t where {scope}")

    def update(self, layout: Layout, row: Row, names: Sequence[str]) -> None:
        values = {column.name: value for column, value in zip(layout.columns, row, strict=True)}
        given = ", ".join(f'"{name}" = ?' for name in names)
        where = " and ".join(f'"{column.name}" = ?' for column in layout.columns[: layout.keys])
        sql = f"update {layout.name} set {given} where {where}"
        self._run(sql, (*(values[name] for name in names), *row[: layout.keys]))

    def note(self) -> Note | None:
        rows = self._run("select id, role, peer, phase, history from store_transfers order by started_at desc limit 1")
        if not rows:
            return None
        transfer_id, role, peer, phase, history = rows[0]
        return Note(transfer_id, role, peer, phase, bool(history))

    def write_note(self, note: Note) -> None:
        now = self._clock.now()
        self._run(
            """
            insert into store_transfers (id, role, peer, phase, history, started_at, writing)
            values (?1, ?2, ?3, ?4, ?5, ?6, 1)
            on conflict (id) do update
            set phase = excluded.phase,
                finished_at = case when excluded.phase in ('done', 'aborted') then ?6 end
            """,
            (note.id, note.role, note.peer, note.phase, int(note.history), now),
        )

    def seal(self, note: Note) -> None:
        text = (
            f"{MOVED[0]} {note.peer}: use that one"
            if note.role == "source"
            else f"{MOVED[1]} from {note.peer}: it can be used when headway transfer has finished"
        ).replace("'", "''")
        self.unseal()
        for table, verb, name in self._triggers():
            self._run(
                f"create trigger {name} before {verb} on {table} when not exists (select 1 from store_transfers where "
                f"writing = 1) begin select raise(abort, '{text}'); end"
            )

    def unseal(self) -> None:
        for _, _, name in self._triggers():
            self._run(f"drop trigger if exists {name}")

    def running(self) -> int:
        ((count,),) = self._run("select count(*) from jobs where status = 'running'")
        return int(count)

    def artifact_stores(self) -> list[str]:
        return [name for (name,) in self._run(ARTIFACT_STORES)]

    def process_rest(self) -> int:
        ops = self.store.ops
        for op in (ops.process_arrivals(limit=500), ops.fold_stats(limit=10_000), ops.fold_errors(limit=10_000)):
            drive(op.steps(), self._conn.run)
        ((left,),) = self._run(REST)
        return int(left)

    def counters(self) -> Counters:
        ((position,),) = self._run("select value from counters where name = 'position'")
        return Counters(position)

    def finish(self, counters: Counters) -> None:
        self._run("update counters set value = max(value, ?1) where name = 'position'", (counters.position,))
        for sql in _FINISH:
            self._run(sql)

    def close(self) -> None:
        self._conn.close()

    @property
    def _prefix(self) -> str:
        return self.store.prefix

    def _triggers(self) -> list[tuple[str, str, str]]:
        return [(table, verb, f"{self._prefix}moved_{table}_{verb}") for table in SEALED for verb in _VERBS]

    def _run(self, sql: str, params: Sequence[object] = ()) -> Rows:
        return self._conn.run(Statement(sql, params))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._file.errors as error:
            raise self._file.explain(error) from error


def _schema_tables() -> set[str]:
    from headway.store.sqlite.engine.prefix import _made

    return {name for name, what in _made().items() if what == "table"}
