"""A database that served one test comes to the next as new, whatever the first one did to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.postgres_databases import ReusedDatabases

CHANGES = {
    "view": "create view public.dead as select * from headway.jobs where status = 'dead'",
    "column": "alter table headway.jobs add column note text",
    "index": "create index on headway.jobs (created_at)",
    "dropped index": "do $$ begin execute (select format('drop index headway.%I', min(relname::text)) from pg_class"
    " join pg_index on indexrelid = oid where relnamespace = 'headway'::regnamespace and not indisunique); end $$",
    "function": "create function headway.f() returns int language sql as 'select 1'",
    "changed function": "do $$ begin execute format('alter function %s cost 77', (select min(oid::regprocedure::text)"
    " from pg_proc where pronamespace = 'headway'::regnamespace and prokind = 'f')); end $$",
    "comment": "comment on table headway.jobs is 'headway schema version 99'",
    "grant": "grant select on headway.jobs to public",
    "row-level security": "alter table headway.jobs disable row level security",
    "setting": "do $$ begin execute format('alter database %I set work_mem = ''5MB''', current_database()); end $$",
    "statistics": "analyze headway.jobs",
    "schema": "drop schema headway cascade",
}


@pytest.fixture
def reused(databases: Any, postgres_template: str) -> Iterator[ReusedDatabases]:
    reused = ReusedDatabases(databases, postgres_template)
    yield reused
    reused.close()


def lent_twice(reused: ReusedDatabases, first: Any) -> tuple[str, str]:
    """The database that `first` was done to, and the one that comes next."""
    spare, url = reused.lend(), reused.lend()
    first(url)
    reused.give_back(url)
    reused.give_back(spare)
    again = reused.lend()
    reused.give_back(again)
    return url, again


def contents(url: str) -> dict[str, Any]:
    with psycopg.connect(url) as conn:
        tables = conn.execute(
            "select relname from pg_class where relnamespace = 'headway'::regnamespace and relkind = 'r' order by 1"
        ).fetchall()
        rows = {name: conn.execute(f"select t::text from headway.{name} t order by 1").fetchall() for (name,) in tables}
        sequences = "select schemaname, sequencename, last_value from pg_sequences order by 1, 2"
        rows["sequences"] = conn.execute(sequences).fetchall()
        rows["now"] = conn.execute("select pg_get_functiondef('headway.now()'::regprocedure)").fetchall()
        return rows


def test_rows_sequences_and_the_held_time_are_put_back(reused: ReusedDatabases, databases: Any, postgres_template: str):
    def use(url: str) -> None:
        app = Headway(url)
        app.enqueue("mail", {"n": 1}, tenant="acme", train="t")
        app.close()
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("update headway.tenants set created_at = created_at + interval '1 day'")
            conn.execute(
                "create or replace function headway.now() returns timestamptz language sql volatile"
                " as $$ select timestamptz '2031-01-01Z' $$"
            )

    name = databases.create(postgres_template)
    fresh = contents(databases.url(name))
    databases.drop(name)
    url, again = lent_twice(reused, use)
    assert again == url
    assert contents(again) == fresh


@pytest.mark.parametrize("change", CHANGES)
def test_a_database_of_which_more_than_rows_changed_is_not_lent_again(reused: ReusedDatabases, change: str):
    def use(url: str) -> None:
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute(CHANGES[change])

    url, again = lent_twice(reused, use)
    assert again != url


def test_tables_of_the_test_are_dropped(reused: ReusedDatabases):
    def use(url: str) -> None:
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("create table public.orders (id bigint primary key, job_id uuid references headway.jobs)")

    url, again = lent_twice(reused, use)
    assert again == url
    with psycopg.connect(url) as conn:
        assert conn.execute("select to_regclass('public.orders')").fetchone() == (None,)


def test_an_app_leaves_its_sessions_to_the_next_unless_they_ended(reused: ReusedDatabases):
    url = reused.lend()

    def session() -> int:
        app = Headway(url)
        app.counts()
        conn = app.store._pool.acquire()  # type: ignore[attr-defined]
        app.store._pool.release(conn)  # type: ignore[attr-defined]
        app.close()
        return int(conn.info.backend_pid)

    first = session()
    assert session() == first
    reused.side(url).execute("select pg_terminate_backend(%s, 10000)", (first,))
    assert session() != first
    reused.give_back(url)


def test_a_database_in_which_somebody_is_still_at_work_is_not_lent_again(reused: ReusedDatabases):
    left: list[psycopg.Connection[Any]] = []
    url, again = lent_twice(reused, lambda url: left.append(psycopg.connect(url)))
    assert again != url
    left.pop().close()
