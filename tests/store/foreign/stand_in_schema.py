"""Stand-ins for Headway's schema and verbs, and what other connections see of them."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import psycopg

from headway.store.ops import Batch, Statement
from tests.connection_libraries import Apsw, Steps, User

SCHEMA = """
    create table orders (name text);
    create schema headway;
    create table headway.jobs (
        id uuid primary key, kind text, at timestamptz, payload json, size bigint,
        ratio float8, urgent boolean, due_at timestamptz, note text
    );
    create function headway.enqueue_many(
        ids uuid[], kinds text[], ats timestamptz[], payloads json[], sizes bigint[],
        a_ratio float8, is_urgent boolean, a_due_at timestamptz, a_note text
    ) returns table (job_id text, created boolean, the_size bigint) language plpgsql as $$
    begin
        insert into headway.jobs
            select j.id, j.kind, j.at, j.payload, j.size, a_ratio, is_urgent, a_due_at, a_note
            from unnest(ids, kinds, ats, payloads, sizes) j (id, kind, at, payload, size);
        if 'taken' = any(kinds) then
            raise exception 'a job with unique key w7 is in scope' using
                errcode = 'HW001', detail = '0198c0de-0000-7000-8000-00000000abcd';
        end if;
        if 'gone' = any(kinds) then
            raise exception 'no job 7' using errcode = 'HW003';
        end if;
        return query select i::text, true, s from unnest(ids, sizes) u (i, s);
    end $$;
"""

ENQUEUE = (
    "select * from headway.enqueue_many($1::uuid[], $2::text[], $3::timestamptz[], $4::json[], $5::bigint[],"
    " $6::float8, $7::boolean, $8::timestamptz, $9::text) where 7 % 4 = 3"
)


def enqueue(*kinds: str) -> Steps:
    """The stand-in for the real verb: as many jobs as kinds."""
    n = len(kinds)
    ids = [str(uuid.uuid4()) for _ in kinds]
    params = (ids, list(kinds), [None] * n, ["{}"] * n, list(range(n)), None, None, None, None)
    rows = yield Statement(ENQUEUE, params)
    return [row[0] for row in rows]


def kinds_in(database: psycopg.Connection[Any]) -> list[str]:
    return [kind for (kind,) in database.execute("select kind from headway.jobs order by size, kind")]


def orders_in(database: psycopg.Connection[Any]) -> list[str]:
    return [name for (name,) in database.execute("select name from orders order by name")]


TABLES = (
    "create table orders (name text)",
    "create table jobs (id text primary key, kind text, payload text, size integer, ratio real)",
)
INSERT = (
    "insert into jobs (id, kind, payload, size, ratio) values (?1, ?2, ?3, ?4 + 7 % 4, ?5) returning id, kind, size"
)


def insert(*kinds: str) -> Steps:
    """The stand-in for the real verb on SQLite: a batch, and a statement that uses a parameter twice."""
    rows = yield Batch(INSERT, [(f"id of {kind}", kind, '{"a": "50%"}', n, n / 4) for n, kind in enumerate(kinds)])
    again = yield Statement("select id, kind, size from jobs where kind = ?2 or kind = ?1 or kind = ?2", kinds[:2])
    assert sorted(again) == sorted(rows[:2])
    return rows


def column(user: User, path: Path, sql: str) -> list[Any]:
    """What another connection sees, of the caller's own library: a process uses one per file."""
    if isinstance(user, Apsw):
        with closing(apsw.Connection(str(path))) as conn:
            return [value for (value,) in conn.execute(sql)]
    with closing(sqlite3.connect(path)) as conn:
        return [value for (value,) in conn.execute(sql)]


def kinds_seen(user: User, path: Path) -> list[str]:
    return column(user, path, "select kind from jobs order by kind")


def orders_seen(user: User, path: Path) -> list[str]:
    return column(user, path, "select name from orders order by name")
