"""Advisory locks on PostgreSQL: a login without rights here cannot compute their keys, nor stop a migration."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

import headway
from headway.store.ops import Op
from headway.store.postgres.engine.migrate import migrate
from headway.store.postgres.store import PostgresStore


@pytest.fixture
def foreign_login(databases, postgres_migrated_url: str) -> Iterator[psycopg.Connection]:
    """A connection of a role that owns nothing and was granted nothing."""
    role = "headway_test_stranger"
    with psycopg.connect(postgres_migrated_url, autocommit=True) as owner:
        owner.execute(f"drop role if exists {role}")
        owner.execute(f"create role {role}")
        with psycopg.connect(postgres_migrated_url) as conn:
            conn.execute(f"set role {role}")
            yield conn
        owner.execute(f"drop role {role}")


def test_a_foreign_login_cannot_compute_the_keys(foreign_login: psycopg.Connection) -> None:
    for statement in ("select headway.queue_lock('default')", "select secret from headway.install"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), foreign_login.transaction():
            foreign_login.execute(statement)


def test_two_installations_have_different_keys(databases, postgres_migrated_url: str, postgres_url: str) -> None:
    PostgresStore(postgres_url).run_script(Op(migrate, writes=True))
    with psycopg.connect(postgres_migrated_url) as one, psycopg.connect(postgres_url) as other:
        # the first is a copy of a template that was installed once
        one.execute("update headway.install set secret = secret + 1")
        keys = [conn.execute("select headway.lock_key('fire')").fetchone() for conn in (one, other)]
    assert keys[0] != keys[1]


def test_first_installations_at_the_same_moment_end_with_one(postgres_url: str) -> None:
    done: list[list[str]] = []
    start = threading.Barrier(4)

    def install() -> None:
        store = PostgresStore(postgres_url)
        start.wait()
        done.append(store.run_script(Op(migrate, writes=True)))
        store.close()

    threads = [threading.Thread(target=install) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [[], [], [], ["migrate up to version 10", "install the functions"]]


def test_a_migration_waits_for_one_that_is_under_way(postgres_migrated_url: str) -> None:
    with psycopg.connect(postgres_migrated_url) as first, psycopg.connect(postgres_migrated_url) as second:
        headway.migrate(first)
        second.execute("set lock_timeout = '50ms'")
        with pytest.raises(Exception, match="lock timeout"):
            headway.migrate(second)
        second.rollback()
        first.commit()
        assert headway.migrate(second) == []
