"""Wake-ups for what was enqueued in somebody's transaction: at its commit, never before, and not if it fails."""

from __future__ import annotations

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from headway import Headway
from headway.worker.wake import EVENTS
from tests.connection_libraries import alchemy_url


@pytest.fixture
def woken(app: Headway) -> list[str | None]:
    """The queues in which a worker of this process would have looked."""
    heard: list[str | None] = []
    app._wake.add(lambda queue, news: heard.append(queue) is None)
    app._emitted.add(lambda queue, news: heard.append(queue) is None)
    return heard


@pytest.fixture
def app(postgres_migrated_url: str) -> Headway:
    return Headway(postgres_migrated_url, strict_kinds=False)


def test_a_session_wakes_once_for_each_queue_and_only_by_its_outermost_commit(
    app: Headway, woken: list[str | None]
) -> None:
    engine = sa.create_engine(alchemy_url(app.url, "psycopg"))
    with engine.connect() as conn, conn.begin() as outer:
        with orm.Session(conn, join_transaction_mode="create_savepoint") as session:
            for _ in range(3):
                app.enqueue("work", queue="mail", conn=session)
            with session.begin_nested():
                app.emit("paid", conn=session)
            app.enqueue("work", queue="slow", conn=conn)
            session.commit()
        assert woken == []
        outer.commit()
    assert woken == ["mail", EVENTS, "slow"]

    with orm.Session(engine) as session:
        app.enqueue("work", queue="closed", conn=session)
    with orm.Session(engine) as session, session.begin():
        session.execute(sa.text("create temp table t (i int unique deferrable initially deferred)"))
    with orm.Session(engine) as session:
        session.execute(sa.text("insert into t values (1), (1)"))
        app.enqueue("work", queue="failed", conn=session)
        with pytest.raises(sa.exc.IntegrityError):
            session.commit()
    with engine.begin():
        pass
    assert woken == ["mail", EVENTS, "slow"]
    engine.dispose()
    app.close()


def test_what_commits_by_itself_wakes_at_once_and_the_rest_by_hand(app: Headway, woken: list[str | None]) -> None:
    engine = sa.create_engine(alchemy_url(app.url, "psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as alchemy, psycopg.connect(app.url, autocommit=True) as conn:
        app.enqueue("work", queue="alchemy", conn=alchemy)
        assert woken == ["alchemy"]
        app.enqueue("work", queue="alone", conn=conn)
        assert woken == ["alchemy", "alone"]
        with conn.transaction():
            app.enqueue("work", queue="mail", conn=conn)
        assert woken == ["alchemy", "alone"]
    app.wake("mail")
    assert woken == ["alchemy", "alone", "mail"]
    app.tenant("acme").wake()
    assert woken[3:] == ["default", EVENTS]
    engine.dispose()
    app.close()
