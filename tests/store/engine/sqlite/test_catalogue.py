"""What a file should have is read from the statements of its steps, whatever these make, change and drop."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from headway.store.sqlite.engine import catalogue
from headway.store.sqlite.engine.prefix import renamed

MADE = [
    "create table jobs (id integer primary key, kind text, queue text) strict",
    "create index jobs_due on jobs (kind)",
    "create trigger jobs_moves after insert on jobs begin select 1; end",
    "create table queues (name text primary key, unfair integer) strict",
]
LATER = {
    "an index is dropped": ["drop index jobs_due"],
    "an index is another one": ["drop index if exists jobs_due", "create index jobs_due on jobs (queue)"],
    "a trigger is dropped": ["drop trigger jobs_moves"],
    "a column is added": ["alter table jobs add column shade text", "create index jobs_fair on jobs (shade)"],
    "a column is dropped": ["alter table queues\n  drop column unfair"],
    "a column is added and dropped": ["alter table jobs add column shade text", "alter table jobs drop column shade"],
    "a table is dropped": ["drop table queues"],
    "a table is dropped with its index": ["drop table jobs"],
    "a table is made anew": [
        "alter table jobs add column shade text",
        "create table jobs_anew (id integer primary key, kind text not null) strict",
        "drop table jobs",
        "alter table jobs_anew rename to jobs",
        "create index jobs_due on jobs (kind)",
    ],
}


def catalogue_of(statements: list[str], prefix: str) -> dict[str, str]:
    with closing(sqlite3.connect(":memory:")) as conn:
        for sql in statements:
            conn.execute(renamed(sql, prefix) if prefix else sql)
        return dict(conn.execute("select name, sql from sqlite_master where sql is not null"))


@pytest.mark.parametrize("prefix", ["", "our_"])
@pytest.mark.parametrize("later", LATER.values(), ids=list(LATER))
def test_what_the_statements_leave_has_no_differences(later: list[str], prefix: str) -> None:
    assert catalogue.differences(prefix, catalogue_of([*MADE, *later], prefix), [*MADE, *later]) == []


@pytest.mark.parametrize(
    ("later", "says"),
    [
        ("alter table jobs add column shade text", "jobs lacks shade"),
        ("create index jobs_fair on jobs (queue)", "there is no index jobs_fair"),
    ],
)
def test_what_was_left_out_is_said(later: str, says: str) -> None:
    assert catalogue.differences("", catalogue_of(MADE, ""), [*MADE, later]) == [says]
