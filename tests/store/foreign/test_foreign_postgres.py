"""What `conn=` promises on PostgreSQL, for every library: jobs exist exactly if the caller commits."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from headway import errors
from headway.store.ops import Batch, Statement
from tests.connection_libraries import (
    AlchemyAsyncSession,
    AlchemyConnection,
    Asyncpg,
    Boom,
    Django,
    Psycopg,
    Steps,
    User,
    alchemy_url,
    django_postgres,
)
from tests.store.foreign.stand_in_schema import ENQUEUE, enqueue, kinds_in, orders_in


def test_postgres_jobs_exist_exactly_when_the_caller_commits(
    postgres_user: User, database: psycopg.Connection[Any]
) -> None:
    postgres_user.execute("insert into orders values ('first')")
    ids = postgres_user.do(enqueue("welcome", "invoice"))
    assert len(set(ids)) == 2
    assert kinds_in(database) == []
    postgres_user.commit()
    assert kinds_in(database) == ["welcome", "invoice"]
    assert orders_in(database) == ["first"]


@pytest.mark.parametrize("refusable", [True, False])
def test_postgres_jobs_vanish_when_the_caller_rolls_back(
    postgres_user: User, database: psycopg.Connection[Any], refusable: bool
) -> None:
    postgres_user.do(enqueue("welcome"), refusable=refusable)
    postgres_user.execute("insert into orders values ('first')")
    postgres_user.rollback()
    assert kinds_in(database) == []
    assert orders_in(database) == []


def test_postgres_refusal_leaves_the_callers_transaction_usable(
    postgres_user: User, database: psycopg.Connection[Any]
) -> None:
    postgres_user.execute("insert into orders values ('first')")
    with pytest.raises(errors.Duplicate, match=r"^a job with unique key w7 is in scope$") as caught:
        postgres_user.do(enqueue("welcome", "taken"))
    assert caught.value.job_id == "0198c0de-0000-7000-8000-00000000abcd"
    with pytest.raises(errors.NotAllowed, match="no job 7"):
        postgres_user.do(enqueue("gone"))
    postgres_user.do(enqueue("invoice"))
    postgres_user.execute("insert into orders values ('second')")
    postgres_user.commit()
    assert kinds_in(database) == ["invoice"]
    assert orders_in(database) == ["first", "second"]


def test_postgres_op_that_breaks_half_way_leaves_nothing(
    postgres_user: User, database: psycopg.Connection[Any]
) -> None:
    def half() -> Steps:
        yield from enqueue("welcome")
        raise Boom

    postgres_user.execute("insert into orders values ('first')")
    with pytest.raises(Boom):
        postgres_user.do(half())
    postgres_user.commit()
    assert kinds_in(database) == []
    assert orders_in(database) == ["first"]


def test_postgres_values_arrive_as_they_were_given(postgres_user: User, database: psycopg.Connection[Any]) -> None:
    ids = [str(uuid.uuid4()) for _ in range(3)]
    kinds = ["50% off %s %(p1)s", 'it\'s "$1" ?2 :p1 {a,b} \\ NULL', "größer 🚂"]
    east = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    ats = [None, east, datetime(1999, 12, 31, tzinfo=UTC)]
    payloads = [json.dumps({"a": ["x'y", None]}), None, '"50%"']
    sizes = [1, None, 2**53]
    params = (ids, kinds, ats, payloads, sizes, 0.1, True, east, None)

    def op() -> Steps:
        return (yield Statement(ENQUEUE, params))

    rows = postgres_user.do(op())
    assert rows == [(ids[0], True, 1), (ids[1], True, None), (ids[2], True, 2**53)]
    assert all(type(row) is tuple for row in rows)
    postgres_user.commit()
    stored = database.execute("select id::text, kind, at, payload::text, size from headway.jobs").fetchall()
    assert sorted(stored) == sorted(zip(ids, kinds, ats, payloads, sizes, strict=True))
    rest = database.execute("select distinct ratio, urgent, due_at, note from headway.jobs").fetchall()
    assert rest == [(0.1, True, east, None)]


def test_postgres_lists_may_be_empty_or_hold_only_nothing(
    postgres_user: User, database: psycopg.Connection[Any]
) -> None:
    def op() -> Steps:
        nothing = yield Statement(ENQUEUE, ([], [], [], [], [], None, None, None, None))
        one = yield Statement(ENQUEUE, ([str(uuid.UUID(int=7))], [None], [None], [None], [None], 2, False, None, ""))
        return nothing, one

    assert postgres_user.do(op()) == ([], [(str(uuid.UUID(int=7)), True, None)])
    postgres_user.commit()
    assert kinds_in(database) == [None]


def test_postgres_batch_gives_the_rows_of_all_runs_in_order(
    postgres_user: User, database: psycopg.Connection[Any]
) -> None:
    def op() -> Steps:
        yield Statement("create temp table few (n int) on commit drop")
        return (yield Batch("insert into few values ($1::int + 7 % 4) returning n", [(2,), (9,), (4,)]))

    assert postgres_user.do(op()) == [(5,), (12,), (7,)]
    postgres_user.rollback()


def test_postgres_without_the_schema_says_migrate(postgres_user: User, database: psycopg.Connection[Any]) -> None:
    database.execute("drop function headway.enqueue_many")
    with pytest.raises(errors.SchemaMissing, match="run headway migrate"):
        postgres_user.do(enqueue("welcome"))
    database.execute("drop schema headway cascade")
    with pytest.raises(errors.SchemaMissing, match="run headway migrate"):
        postgres_user.do(enqueue("welcome"))
    postgres_user.execute("insert into orders values ('first')")
    postgres_user.commit()
    assert orders_in(database) == ["first"]


def test_postgres_errors_of_others_pass_through(postgres_user: User, database: psycopg.Connection[Any]) -> None:
    def op() -> Steps:
        yield Statement("select 1 / $1::int", (0,))

    with pytest.raises(Exception, match="division by zero") as caught:
        postgres_user.do(op())
    assert not isinstance(caught.value, errors.HeadwayError)
    postgres_user.execute("insert into orders values ('first')")
    postgres_user.commit()
    assert orders_in(database) == ["first"]


def test_an_op_that_cannot_be_refused_makes_no_subtransaction(
    database: psycopg.Connection[Any], shared_url: str
) -> None:
    same = "select count(distinct xmin::text) from headway.jobs"
    with closing(Psycopg(shared_url)) as user:
        user.do(enqueue("welcome"), refusable=False)
        user.do(enqueue("invoice"), refusable=False)
        user.commit()
        assert database.execute(same).fetchone() == (1,)
        user.do(enqueue("parcel"))
        user.do(enqueue("letter"))
        user.commit()
        assert database.execute(same).fetchone() == (3,)


def autocommit_psycopg(url: str) -> User:
    user = Psycopg(url)
    user.conn.autocommit = True
    return user


def autocommit_asyncpg(url: str) -> User:
    user = Asyncpg(url)
    user.commit()
    return user


def autocommit_django(url: str) -> User:
    user = Django(django_postgres(url))
    user.commit()
    return user


@pytest.mark.parametrize(
    "connect",
    [
        autocommit_psycopg,
        autocommit_asyncpg,
        autocommit_django,
        lambda url: AlchemyConnection(alchemy_url(url, "psycopg"), isolation_level="AUTOCOMMIT"),
        lambda url: AlchemyAsyncSession(alchemy_url(url, "asyncpg"), isolation_level="AUTOCOMMIT"),
    ],
)
def test_postgres_connection_in_no_transaction_commits_each_op_alone(
    connect: Callable[[str], User], database: psycopg.Connection[Any], shared_url: str
) -> None:
    def half() -> Steps:
        yield from enqueue("half")
        yield from enqueue("taken")

    with closing(connect(shared_url)) as user:
        user.do(enqueue("welcome"))
        assert kinds_in(database) == ["welcome"]
        with pytest.raises(errors.Duplicate):
            user.do(half())
        user.execute("insert into orders values ('first')")
        assert kinds_in(database) == ["welcome"]
        assert orders_in(database) == ["first"]


def test_a_transaction_begun_by_hand_in_autocommit_mode_is_the_callers(
    database: psycopg.Connection[Any], shared_url: str
) -> None:
    with closing(autocommit_psycopg(shared_url)) as user:
        with user.conn.transaction(force_rollback=True):
            user.do(enqueue("welcome"))
        with user.conn.transaction():
            user.do(enqueue("invoice"))
        assert kinds_in(database) == ["invoice"]
