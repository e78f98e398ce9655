"""conn=: a job exists exactly if the caller's transaction commits, whatever library the connection is of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from headway import Enqueued, Headway
from headway.errors import ConfigError, Duplicate, NotAllowed
from headway.model.retry import succeeded
from headway.store.ops import Op, Rows, Statement, Steps
from headway.testing import drain
from tests.connection_libraries import POSTGRES_USERS, SQLITE_USERS, AsyncUser, User
from tests.store.db import new_worker

ORDERS = "create table orders (name text)"


@dataclass
class Shop:
    """An application with a database of its own and a connection to it, and Headway in the same database."""

    app: Headway
    user: User
    orders: Callable[[], list[str]]
    tells: bool  # of its commits
    woken: list[str | None]  # the queues in which a worker would have looked
    begins_at_once: bool  # after each transaction the next

    def enqueue(self, number: int, **options: Any) -> Enqueued:
        payload = {"number": number}
        if isinstance(self.user, AsyncUser):
            done: Enqueued = self.user.wait(self.app.aenqueue("work", payload, conn=self.user.conn, **options))
            return done
        return self.app.enqueue("work", payload, conn=self.user.conn, **options)

    def enqueue_many(self, *numbers: int) -> list[Enqueued]:
        jobs = [self.app.kinds["work"].build(number) for number in numbers]
        if isinstance(self.user, AsyncUser):
            done: list[Enqueued] = self.user.wait(self.app.aenqueue_many(jobs, conn=self.user.conn))
            return done
        return self.app.enqueue_many(jobs, conn=self.user.conn)

    def numbers(self) -> list[int]:
        return sorted(job.payload["number"] for job in self.app.jobs())


def _shop(app: Headway, user: User, orders: Callable[[], list[str]], name: str) -> Shop:
    @app.job
    def work(number: int) -> int:
        return number

    woken: list[str | None] = []
    app._wake.add(lambda queue, news: woken.append(queue) is None)
    # where autocommit is off and no atomic block is open, Django has no on_commit
    tells = "sqlalchemy" in name or name == "django"
    return Shop(app, user, orders, tells, woken, "autocommit off" in name and "sqlite" in name)


@pytest.fixture(params=[*(f"postgres {name}" for name in POSTGRES_USERS), *(f"sqlite {name}" for name in SQLITE_USERS)])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    store, _, name = request.param.partition(" ")
    user: User
    if store == "postgres":
        url = request.getfixturevalue("postgres_migrated_url")
        side: Any = psycopg.connect(url, autocommit=True)
        side.execute(ORDERS)
        app = Headway(url)
        user = POSTGRES_USERS[name](url)

        def orders() -> list[str]:
            return [row[0] for row in side.execute("select name from orders order by name")]

    else:
        path = tmp_path / "app.db"
        app = Headway(f"sqlite{'' if name == 'apsw' else '+stdlib'}:///{path}")
        # by the store's own library: the other one in this process would break its locks
        app.store.run(_statement(ORDERS, writes=True))
        user = SQLITE_USERS[name](path)
        side = None

        def orders() -> list[str]:
            return [row[0] for row in app.store.run(_statement("select name from orders order by name"))]

    yield _shop(app, user, orders, name)
    user.close()
    app.close()
    if side is not None:
        side.close()


def _statement(sql: str, *, writes: bool = False) -> Op[Rows]:
    def steps() -> Steps[Rows]:
        return (yield Statement(sql))

    return Op(steps, writes=writes)


def test_a_job_exists_exactly_if_the_transaction_commits(shop: Shop) -> None:
    shop.user.execute("insert into orders values ('first')")
    job = shop.enqueue(1)
    many = shop.enqueue_many(2, 3)
    assert (job.status, job.created) == ("queued", True)
    assert [each.created for each in many] == [True, True]
    assert (shop.numbers(), shop.orders(), shop.woken) == ([], [], [])
    shop.user.commit()
    assert (shop.numbers(), shop.orders()) == ([1, 2, 3], ["first"])
    if "session" not in type(shop.user.conn).__name__.lower():
        shop.user.execute("select 1")  # SQLAlchemy tells of a connection's commit when it begins again
    assert set(shop.woken) == ({"default"} if shop.tells else set())
    assert drain(shop.app).succeeded == 3


def test_rollback_leaves_nothing(shop: Shop) -> None:
    shop.user.execute("insert into orders values ('first')")
    shop.enqueue(1, tenant="acme", unique_key="u", idempotency_key="i")
    shop.enqueue_many(2, 3)
    shop.user.rollback()
    shop.user.execute("select 1")
    shop.user.close()
    shop.user.close = lambda: None  # type: ignore[method-assign]
    assert (shop.numbers(), shop.orders(), shop.woken) == ([], [], [])
    assert shop.app.enqueue("work", {"number": 9}, tenant="acme", unique_key="u", idempotency_key="i").created


def test_a_refusal_leaves_the_transaction_usable(shop: Shop) -> None:
    taken = shop.app.enqueue("work", {"number": 1}, unique_key="taken")
    shop.user.execute("insert into orders values ('first')")
    with pytest.raises(Duplicate) as caught:
        shop.enqueue(2, unique_key="taken", on_conflict="raise")
    assert caught.value.job_id == taken.id
    met = shop.enqueue(3, unique_key="taken")
    assert (met.id, met.created) == (taken.id, False)
    shop.user.execute("insert into orders values ('second')")
    shop.enqueue(4)
    shop.user.commit()
    assert (shop.numbers(), shop.orders()) == ([1, 4], ["first", "second"])


def test_the_outcome_of_a_running_job_exists_exactly_if_the_transaction_commits(shop: Shop) -> None:
    store, user = shop.app.store, shop.user
    worker = new_worker()
    store.run(store.ops.register(worker))
    job = shop.app.enqueue("work", {"number": 1})
    (claim,) = store.run(store.ops.claim(worker.id, "default", 1))
    settled = succeeded(claim, '"seven"')
    later = store.ops.enqueue([shop.app.kinds["work"].build(2)])
    user.execute("insert into orders values ('first')")

    async def asettle() -> None:
        await store.arun_in(user.conn, store.ops.commit_outcome(settled))
        if not shop.begins_at_once:
            with beside():
                await store.arun(later)

    def settle() -> None:
        store.run_in(user.conn, store.ops.commit_outcome(settled))
        if not shop.begins_at_once:
            with beside():
                store.run(later)
        user.commit()
        store.run(later)

    def beside() -> Any:
        """On SQLite the same code cannot write beside its own transaction."""
        return pytest.raises(NotAllowed, match="still open") if store.dialect == "sqlite" else nullcontext()

    if isinstance(user, AsyncUser):
        user.wait(asettle())
        user.commit()
        user.wait(store.arun(later))  # in the same context, in which it is refused until the commit
    else:
        copy_context().run(settle)
    assert store.run(store.ops.committed(claim.id, claim.fence)) == settled
    assert store.run(store.ops.settle_committed([(claim.id, claim.fence)])) == [settled]
    assert (shop.app.get(job.id).result, shop.orders()) == ("seven", ["first"])
    # some of the libraries decode JSON by themselves
    read = store.ops.get([job.id], tenant_id=None)
    found = user.wait(store.arun_in(user.conn, read)) if isinstance(user, AsyncUser) else store.run_in(user.conn, read)
    assert [(each.payload, each.result) for each in found] == [({"number": 1}, "seven")]


def test_a_job_is_replaced_exactly_if_the_transaction_commits(shop: Shop) -> None:
    waiting = shop.app.enqueue("work", {"number": 1}, unique_key="k")
    shop.user.execute("insert into orders values ('first')")
    answer = shop.enqueue(2, unique_key="k", on_conflict="replace_or_follow", delay="1h")
    assert (answer.id, answer.status, answer.replaced) == (waiting.id, "scheduled", True)
    assert shop.numbers() == [1]
    shop.user.commit()
    assert (shop.numbers(), shop.orders()) == ([2], ["first"])


def test_a_rollback_takes_a_replacement_back(shop: Shop) -> None:
    shop.app.enqueue("work", {"number": 1}, unique_key="k")
    shop.user.execute("insert into orders values ('first')")
    assert shop.enqueue(2, unique_key="k", on_conflict="replace").replaced
    shop.user.rollback()
    assert shop.numbers() == [1]


def test_using_takes_a_connection_too(postgres_migrated_url: str) -> None:
    app = Headway(postgres_migrated_url)

    @app.job
    def work() -> None: ...

    with psycopg.connect(postgres_migrated_url) as conn:
        job = work.using(conn=conn, priority=1).enqueue()
        assert app.jobs() == []
    assert app.get(job.id).priority == 1
    app.close()


def test_an_async_connection_wants_the_async_twin(postgres_migrated_url: str) -> None:
    app = Headway(postgres_migrated_url)
    user = POSTGRES_USERS["psycopg async"](postgres_migrated_url)
    with pytest.raises(ConfigError, match="use the async twin with await"):
        app.enqueue("work", conn=user.conn)
    user.close()
    app.close()


def test_a_connection_of_the_other_sqlite_library_is_refused(tmp_path: Path) -> None:
    import sqlite3

    for scheme, connect in (("sqlite", sqlite3.connect), ("sqlite+stdlib", apsw.Connection)):
        path = tmp_path / f"{scheme}.db"
        app = Headway(f"{scheme}:///{path}")
        conn: Any = connect(str(path))
        with pytest.raises(ConfigError, match="two SQLite libraries on one file in one process lose committed data"):
            app.enqueue("work", conn=conn)
        conn.close()
        app.close()
    assert not any(path.stat().st_size for path in tmp_path.glob("*.db"))


def test_what_is_no_connection_is_refused(both: list[Headway]) -> None:
    for app in both:
        for wrong in ("postgresql://localhost", object(), 7):
            with pytest.raises(ConfigError, match="conn= cannot be"):
                app.enqueue("work", conn=wrong)
        assert app.jobs() == []
