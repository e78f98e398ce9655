"""The raw limits: the same work by hand-written SQL on one connection, one statement after another.

The table has the columns that a queue cannot do without and three indexes: its primary key, the claim's, and one by
which finished jobs are listed and pruned; no attempts, no fencing, no policies. A drain is also measured on our own
jobs table, with all its indexes: what the database allows for this schema, and the limit that a drain is held to.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import apsw
import psycopg

from bench.jobs import payload
from bench.servers import path_of
from headway.model.ids import new_id

POSTGRES_BATCH = 200
SQLITE_BATCH = 100
BULK = 1_000

_POSTGRES_TABLE = """
create table raw_jobs (
  id uuid primary key,
  queue text not null,
  priority integer not null default 100,
  position bigint generated always as identity,
  status text not null default 'queued',
  worker_id uuid,
  started_at timestamptz,
  finished_at timestamptz,
  payload json not null
);
create index raw_claim on raw_jobs (queue, priority, position) where status = 'queued';
create index raw_ended on raw_jobs (status, finished_at)
"""
_POSTGRES_BULK = """
insert into raw_jobs (id, queue, payload)
select id, 'bench', payload from unnest(%s::uuid[], %s::json[]) as u (id, payload)
"""
_POSTGRES_ONE = "insert into raw_jobs (id, queue, payload) values (%s, 'bench', %s)"
_POSTGRES_CLAIM = """
with candidate as materialized (
  select id from raw_jobs where queue = 'bench' and status = 'queued' order by priority, position limit %s
  for update skip locked
)
update raw_jobs j set status = 'running', worker_id = %s, started_at = clock_timestamp()
from candidate c where j.id = c.id returning j.id, j.payload
"""
_POSTGRES_OWN_CLAIM = """
with candidate as materialized (
  select id from headway.jobs where queue = 'bench' and status = 'queued' and limited_by is null
  order by priority, position, id limit %s
  for update skip locked
)
update headway.jobs j
set status = 'running', fence = j.fence + 1, worker_id = %s, started_at = clock_timestamp(),
    attempt_started_at = clock_timestamp()
from candidate c where j.id = c.id returning j.id, j.payload, j.fence
"""
_POSTGRES_OWN_COMPLETE = (
    "update headway.jobs set status = 'succeeded', finished_at = clock_timestamp(), worker_id = null,"
    " attempt_started_at = null where id = any(%s::uuid[])"
)
_POSTGRES_COMPLETE = (
    "update raw_jobs set status = 'succeeded', finished_at = clock_timestamp() where id = any(%s::uuid[])"
)

_SQLITE_TABLE = """
pragma journal_mode = wal;
pragma synchronous = full;
create table raw_jobs (
  id text not null primary key,
  queue text not null,
  priority integer not null default 100,
  position integer not null,
  status text not null default 'queued',
  worker_id text,
  started_at integer,
  finished_at integer,
  payload text not null
) strict;
create index raw_claim on raw_jobs (queue, priority, position) where status = 'queued';
create index raw_ended on raw_jobs (status, finished_at)
"""
_SQLITE_INSERT = "insert into raw_jobs (id, queue, position, payload) values (?, 'bench', ?, ?)"
_SQLITE_CLAIM = """
update raw_jobs set status = 'running', worker_id = ?1, started_at = ?2 where rowid in (
  select rowid from raw_jobs where queue = 'bench' and status = 'queued' order by priority, position limit ?3
) returning rowid, payload
"""
_SQLITE_OWN_CLAIM = """
update jobs set status = 'running', fence = fence + 1, worker_id = ?1, started_at = ?2, attempt_started_at = ?2
where rowid in (
  select rowid from jobs where queue = 'bench' and status = 'queued' and limited_by is null
  order by priority, position, id limit ?3
) returning rowid, payload
"""
_SQLITE_OWN_COMPLETE = """
update jobs set status = 'succeeded', finished_at = ?, worker_id = null, attempt_started_at = null where rowid = ?
"""
_SQLITE_COMPLETE = "update raw_jobs set status = 'succeeded', finished_at = ? where rowid = ?"


_POSTGRES_STEPS = """
create table raw_machines (id uuid primary key, step integer not null, state json not null);
create table raw_steps (id uuid, step integer, state json, at timestamptz, primary key (id, step))
"""
_POSTGRES_STEP = """
with stepped as (
  update raw_machines m set step = m.step + 1, state = %s::json where m.id = any (%s::uuid[])
  returning m.id, m.step, m.state
)
insert into raw_steps (id, step, state, at) select id, step, state, clock_timestamp() from stepped
"""
_SQLITE_STEPS = """
create table raw_machines (id text not null unique, step integer not null, state text not null);
create table raw_steps (id text, step integer, state text, at integer, primary key (id, step)) without rowid
"""


class Raw(Protocol):
    """A plain table on one connection; each method gives how many a second."""

    def bulk(self, jobs: int) -> float: ...

    def drain(self, jobs: int) -> float:
        """Claim and complete what `bulk` put in."""
        ...

    def own_drain(self, jobs: int) -> float:
        """Claim and complete what the app enqueued, in Headway's own table."""
        ...

    def single(self, jobs: int) -> float: ...

    def steps(self, machines: int, each: int) -> float:
        """Commit that many steps of each machine: its row and a row of history."""
        ...

    def close(self) -> None: ...


def open_raw(url: str) -> Raw:
    return _Sqlite(url) if url.startswith("sqlite") else _Postgres(url)


def steps(url: str, machines: int, each: int) -> float:
    limit = open_raw(url)
    try:
        return limit.steps(machines, each)
    finally:
        limit.close()


class _Postgres:
    def __init__(self, url: str) -> None:
        self._conn = psycopg.connect(url, autocommit=True)
        self._conn.execute(_POSTGRES_TABLE)

    def bulk(self, jobs: int) -> float:
        ids, payloads = [new_id() for _ in range(jobs)], [payload(n) for n in range(jobs)]
        batches = [(ids[n : n + BULK], payloads[n : n + BULK]) for n in range(0, jobs, BULK)]
        return _rate(jobs, lambda: [self._conn.execute(_POSTGRES_BULK, batch) for batch in batches])

    def drain(self, jobs: int) -> float:
        return self._drain(jobs, _POSTGRES_CLAIM, _POSTGRES_COMPLETE)

    def own_drain(self, jobs: int) -> float:
        return self._drain(jobs, _POSTGRES_OWN_CLAIM, _POSTGRES_OWN_COMPLETE)

    def _drain(self, jobs: int, claim: str, complete: str) -> float:
        def work() -> None:
            worker, claimed = new_id(), 0
            while claimed < jobs:
                rows = self._conn.execute(claim, (POSTGRES_BATCH, worker)).fetchall()
                self._conn.execute(complete, ([row[0] for row in rows],))
                claimed += len(rows)

        return _rate(jobs, work)

    def single(self, jobs: int) -> float:
        rows = [(new_id(), payload(n)) for n in range(jobs)]
        return _rate(jobs, lambda: [self._conn.execute(_POSTGRES_ONE, row) for row in rows])

    def steps(self, machines: int, each: int) -> float:
        ids = [new_id() for _ in range(machines)]
        self._conn.execute(_POSTGRES_STEPS)
        self._conn.execute("insert into raw_machines select unnest(%s::uuid[]), 0, '{}'", (ids,))
        batches = [ids[n : n + POSTGRES_BATCH] for n in range(0, machines, POSTGRES_BATCH)] * each
        state = payload(7)
        return _rate(machines * each, lambda: [self._conn.execute(_POSTGRES_STEP, (state, batch)) for batch in batches])

    def close(self) -> None:
        self._conn.close()


class _Sqlite:
    def __init__(self, url: str) -> None:
        self._path = path_of(url)
        self._conn = apsw.Connection(f"{self._path}.raw")
        # a statement that gives rows ends only when they are read
        self._conn.execute(_SQLITE_TABLE).fetchall()

    def bulk(self, jobs: int) -> float:
        rows = [(new_id(), n, payload(n)) for n in range(jobs)]

        def work() -> None:
            for n in range(0, jobs, SQLITE_BATCH):
                with self._conn:
                    self._conn.executemany(_SQLITE_INSERT, rows[n : n + SQLITE_BATCH])

        return _rate(jobs, work)

    def drain(self, jobs: int) -> float:
        return self._drain(self._conn, jobs, _SQLITE_CLAIM, _SQLITE_COMPLETE)

    def own_drain(self, jobs: int) -> float:
        conn = apsw.Connection(str(self._path))
        conn.execute("pragma synchronous = full").fetchall()
        try:
            return self._drain(conn, jobs, _SQLITE_OWN_CLAIM, _SQLITE_OWN_COMPLETE)
        finally:
            conn.close()

    def _drain(self, conn: apsw.Connection, jobs: int, claim: str, complete: str) -> float:
        def work() -> None:
            worker, claimed = new_id(), 0
            while claimed < jobs:
                now = time.time_ns() // 1_000
                with conn:
                    found = conn.execute(claim, (worker, now, SQLITE_BATCH)).fetchall()
                with conn:
                    conn.executemany(complete, [(now, row[0]) for row in found])
                claimed += len(found)

        return _rate(jobs, work)

    def single(self, jobs: int) -> float:
        rows = [(new_id(), n, payload(n)) for n in range(jobs)]
        return _rate(jobs, lambda: [self._conn.execute(_SQLITE_INSERT, row) for row in rows])

    def steps(self, machines: int, each: int) -> float:
        ids, state = [new_id() for _ in range(machines)], payload(7)
        self._conn.execute(_SQLITE_STEPS).fetchall()
        self._conn.executemany("insert into raw_machines values (?, 0, '{}')", [(one,) for one in ids])

        def work() -> None:
            for step in range(1, each + 1):
                for n in range(0, machines, SQLITE_BATCH):
                    batch, now = ids[n : n + SQLITE_BATCH], time.time_ns() // 1_000
                    with self._conn:
                        self._conn.executemany(
                            "update raw_machines set step = ?, state = ? where id = ?",
                            [(step, state, one) for one in batch],
                        )
                        self._conn.executemany(
                            "insert into raw_steps values (?, ?, ?, ?)", [(one, step, state, now) for one in batch]
                        )

        return _rate(machines * each, work)

    def close(self) -> None:
        self._conn.close()


def _rate(count: int, work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)
