"""What `conn=` promises on SQLite, for every library: jobs exist exactly if the caller commits."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from headway import errors
from headway.store.foreign import sqlite_session
from tests.connection_libraries import (
    SQLITE_USERS,
    Aiosqlite,
    AlchemyConnection,
    Apsw,
    Boom,
    Django,
    DjangoProxy,
    Sqlite3,
    Sqlite3ByHand,
    Sqlite3WithFactories,
    Steps,
    User,
    django_sqlite,
    on_file,
)
from tests.store.foreign.stand_in_schema import column, insert, kinds_seen, orders_seen


def test_sqlite_jobs_exist_exactly_when_the_caller_commits(sqlite_user: User, file: Path) -> None:
    rows = sqlite_user.do(insert("invoice", "welcome"))
    assert rows == [("id of invoice", "invoice", 3), ("id of welcome", "welcome", 4)]
    assert all(type(row) is tuple for row in rows)
    assert kinds_seen(sqlite_user, file) == []
    sqlite_user.execute("insert into orders values ('first')")
    sqlite_user.commit()
    assert kinds_seen(sqlite_user, file) == ["invoice", "welcome"]
    assert orders_seen(sqlite_user, file) == ["first"]
    assert column(sqlite_user, file, "select payload from jobs") == ['{"a": "50%"}'] * 2


def test_sqlite_jobs_vanish_when_the_caller_rolls_back(sqlite_user: User, file: Path) -> None:
    sqlite_user.do(insert("invoice", "welcome"))
    sqlite_user.execute("insert into orders values ('first')")
    sqlite_user.rollback()
    assert kinds_seen(sqlite_user, file) == []
    assert orders_seen(sqlite_user, file) == []


def test_sqlite_op_that_breaks_half_way_leaves_the_callers_rows(sqlite_user: User, file: Path) -> None:
    def half(error: Exception) -> Steps:
        yield from insert("invoice", "welcome")
        raise error

    with pytest.raises(Boom):
        sqlite_user.do(half(Boom()))
    sqlite_user.execute("insert into orders values ('first')")
    with pytest.raises(errors.Duplicate):
        sqlite_user.do(half(errors.Duplicate("taken")))
    sqlite_user.do(insert("parcel", "letter"))
    sqlite_user.execute("insert into orders values ('second')")
    sqlite_user.commit()
    assert kinds_seen(sqlite_user, file) == ["letter", "parcel"]
    assert orders_seen(sqlite_user, file) == ["first", "second"]


def test_sqlite_failed_statement_leaves_the_callers_rows(sqlite_user: User, file: Path) -> None:
    sqlite_user.execute("insert into orders values ('first')")
    with pytest.raises(Exception, match="UNIQUE constraint failed"):
        sqlite_user.do(insert("same", "same"))
    sqlite_user.commit()
    assert kinds_seen(sqlite_user, file) == []
    assert orders_seen(sqlite_user, file) == ["first"]


def test_sqlite_without_the_schema_says_migrate(sqlite_user: User, file: Path) -> None:
    sqlite_user.execute("drop table jobs")
    with pytest.raises(errors.SchemaMissing, match="run headway migrate"):
        sqlite_user.do(insert("welcome", "invoice"))
    sqlite_user.rollback()


def test_sqlite_lock_held_by_another_is_unavailable(sqlite_user: User, file: Path) -> None:
    blocker: Any = apsw if isinstance(sqlite_user, Apsw) else sqlite3
    with closing(blocker.Connection(str(file))) as other:
        other.execute("begin immediate")
        sqlite_user.rollback()
        if isinstance(sqlite_user, Apsw | Sqlite3ByHand):
            sqlite_user.execute("begin")
        if isinstance(sqlite_user, Django) and not isinstance(sqlite_user, DjangoProxy):
            sqlite_user.atomic.__enter__()
        if not isinstance(sqlite_user, Apsw):
            sqlite_user.execute("pragma busy_timeout = 20")
        with pytest.raises(errors.StoreUnavailable, match="write lock"):
            sqlite_user.do(insert("welcome", "invoice"))
        other.execute("rollback")
    sqlite_user.do(insert("welcome", "invoice"))
    sqlite_user.commit()
    assert kinds_seen(sqlite_user, file) == ["invoice", "welcome"]


def test_sqlite_stale_read_is_told_apart_from_a_held_lock(file: Path) -> None:
    with closing(Sqlite3ByHand(file)) as user, closing(sqlite3.connect(file)) as other:
        user.conn.execute("select * from orders").fetchall()
        other.execute("insert into orders values ('first')")
        other.commit()
        with pytest.raises(errors.StoreUnavailable, match="begin immediate"):
            user.do(insert("welcome", "invoice"))


def alone_apsw(path: Path) -> User:
    user = Apsw(path)
    user.commit()
    return user


def alone_django(path: Path) -> User:
    user = Django(django_sqlite(path), on_file(path, "stdlib"))
    user.commit()
    return user


def alone_by_hand(path: Path) -> User:
    user = Sqlite3ByHand(path)
    user.commit()
    return user


def alone_alchemy(path: Path) -> User:
    return AlchemyConnection(f"sqlite:///{path}", on_file(path, "stdlib"), isolation_level="AUTOCOMMIT")


def alone_aiosqlite(path: Path) -> User:
    return Aiosqlite(path, isolation_level=None)


ALONE: list[Callable[[Path], User]] = [alone_apsw, alone_django, alone_by_hand, alone_alchemy, alone_aiosqlite]
if sys.version_info >= (3, 12):
    ALONE += [lambda path: Sqlite3(path, autocommit=True), lambda path: Aiosqlite(path, autocommit=True)]


@pytest.mark.parametrize("connect", ALONE)
def test_sqlite_connection_in_no_transaction_commits_each_op_alone(connect: Callable[[Path], User], file: Path) -> None:
    with closing(connect(file)) as user:
        user.do(insert("invoice", "welcome"))
        assert kinds_seen(user, file) == ["invoice", "welcome"]
        with pytest.raises(Exception, match="UNIQUE constraint failed"):
            user.do(insert("parcel", "welcome"))
        user.execute("insert into orders values ('first')")
        assert kinds_seen(user, file) == ["invoice", "welcome"]
        assert orders_seen(user, file) == ["first"]


def test_a_failed_op_closes_the_transaction_it_began(file: Path) -> None:
    with closing(Sqlite3(file)) as user:
        with pytest.raises(sqlite3.IntegrityError):
            user.do(insert("same", "same"))
        assert not user.conn.in_transaction
        user.do(insert("welcome", "invoice"))
        assert user.conn.in_transaction


def test_the_callers_factories_are_left_as_they_were(file: Path) -> None:
    with closing(Sqlite3WithFactories(file)) as user:
        user.do(insert("welcome", "invoice"))
        assert user.conn.text_factory is bytes
        assert user.conn.execute("select kind from jobs order by 1").fetchone() == {0: b"invoice"}


@pytest.mark.parametrize("name", [name for name in SQLITE_USERS if name != "apsw"])
def test_a_connection_of_the_other_library_is_refused_with_the_reason(name: str, file: Path) -> None:
    with closing(SQLITE_USERS[name](file)) as user:
        user.session = on_file(file, "apsw")
        with pytest.raises(errors.ConfigError, match=r"lose committed data.*sqlite\+stdlib:///"):
            user.do(insert("welcome", "invoice"))


def test_an_apsw_connection_is_refused_where_the_app_uses_sqlite3(file: Path) -> None:
    with closing(Apsw(file)) as user, pytest.raises(errors.ConfigError, match=r"lose committed data.*apsw$"):
        sqlite_session(user.conn, library="stdlib", path=str(file))


def test_a_connection_to_another_file_is_refused(sqlite_user: User, file: Path, tmp_path: Path) -> None:
    library = "apsw" if isinstance(sqlite_user, Apsw) else "stdlib"
    sqlite_user.session = on_file(tmp_path / "other.db", library)
    with pytest.raises(errors.ConfigError, match=r"connection to .*app\.db, but .*other\.db"):
        sqlite_user.do(insert("welcome", "invoice"))
    link = tmp_path / "link.db"
    link.symlink_to(file)
    sqlite_user.session = on_file(link, library)
    sqlite_user.do(insert("welcome", "invoice"))


def test_a_connection_in_memory_is_refused(file: Path) -> None:
    with (
        closing(sqlite3.connect(":memory:")) as conn,
        pytest.raises(errors.ConfigError, match="in memory"),
        sqlite_session(conn, library="stdlib", path=str(file)),
    ):
        pass
