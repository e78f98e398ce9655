"""Invariant 11 for trains, groups and limits on PostgreSQL: a tenant's login reaches only its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.store.engine.test_postgres_roles import ACME, GLOBEX, Roles


class Theirs:
    """What another tenant has: a train on hold, a group, a job that waits for another."""

    def __init__(self, owner: psycopg.Connection) -> None:
        self.owner = owner
        self.group = str(uuid.uuid4())
        self.first, self.second = (self._enqueue("train => 't'") for _ in range(2))
        self.pending = self._enqueue(f"after => array['{self.first}']::uuid[]")
        owner.execute("select headway.new_group(%s, p_tenant => %s)", (self.group, GLOBEX))
        self.member = self._enqueue(f"\"group\" => '{self.group}'")
        owner.execute("select headway.hold_train('t', %s)", (GLOBEX,))

    def _enqueue(self, options: str) -> str:
        row = self.owner.execute(f"select job_id from headway.enqueue('k', tenant => '{GLOBEX}', {options})").fetchone()
        assert row
        return str(row[0])

    def look(self) -> list[tuple[object, ...]]:
        """Everything of theirs that somebody could have changed."""
        return [
            *self.owner.execute(
                "select id, status, position, priority, pending, cancel_requested_at from headway.jobs"
                " where tenant_id = %s order by id",
                (GLOBEX,),
            ).fetchall(),
            *self.owner.execute("select parent_id, child_id, state from headway.edges order by 1, 2").fetchall(),
            *self.owner.execute("select train, job_id from headway.holds where tenant_id = %s", (GLOBEX,)).fetchall(),
            *self.owner.execute("select id, stopped_at, callback_id from headway.groups order by id").fetchall(),
        ]


@pytest.fixture
def roles(postgres_url_with_roles: str) -> Iterator[Roles]:
    roles = Roles(postgres_url_with_roles)
    yield roles
    roles.drop()


@pytest.fixture
def theirs(roles: Roles) -> Iterator[Theirs]:
    with psycopg.connect(roles.url, autocommit=True) as owner:
        yield Theirs(owner)


@pytest.fixture
def acme(roles: Roles) -> Iterator[psycopg.Connection]:
    with psycopg.connect(roles.url_of("acme"), autocommit=True) as conn:
        yield conn


@contextmanager
def refusable() -> Iterator[None]:
    """What is done here may be refused, in Headway's own words, or find nothing."""
    try:
        yield
    except psycopg.Error as error:
        if not (error.sqlstate or "").startswith("HW"):
            raise


ATTEMPTS = [
    "select headway.hold_train('t', '{globex}')",
    "select headway.resume_train('t', '{globex}')",
    "select headway.clear_train('t', '{globex}')",
    "select headway.resume_train('t')",
    "select headway.clear_train('t')",
    "select headway.skip('{second}')",
    "select headway.skip('{second}', '{globex}')",
    "select headway.move('{second}', p_first => true)",
    "select headway.cancel_group('{group}')",
    "select headway.cancel_group('{group}', '{globex}')",
    "select headway.retry_group('{group}')",
    "select headway.new_group('{group}', 'sequential', 'continue')",
    "select headway.new_group(gen_random_uuid(), p_tenant => '{globex}')",
    "select headway.enqueue('k', after => array['{first}']::uuid[])",
    "select headway.enqueue('k', \"group\" => '{group}')",
    "select headway.enqueue('k', train => 't', tenant => '{globex}')",
    "select headway.retry(array['{first}']::uuid[])",
]


def test_nothing_of_another_tenants_is_touched(acme: psycopg.Connection, theirs: Theirs) -> None:
    before = theirs.look()
    names = {"globex": GLOBEX, "group": theirs.group, "first": theirs.first, "second": theirs.second}
    for statement in ATTEMPTS:
        with refusable():
            acme.execute(statement.format(**names))
        assert theirs.look() == before, statement


def test_another_tenants_job_cannot_be_made_a_callback(acme: psycopg.Connection, theirs: Theirs) -> None:
    """It would wait for our members, and end with them."""
    before = theirs.look()
    group = str(uuid.uuid4())
    with refusable():
        acme.execute("select headway.new_group(%s, p_callback => %s)", (group, theirs.pending))
        member = acme.execute("select job_id from headway.enqueue('k', \"group\" => %s)", (group,)).fetchone()
        assert member
        acme.execute("select headway.cancel(%s)", ([member[0]],))
        acme.execute("select headway.cancel_group(%s)", (group,))
        acme.execute("select headway.retry_group(%s)", (group,))
        acme.execute("select headway.cancel(%s)", ([member[0]],))
    theirs.owner.execute("select headway.process_arrivals()")
    kept = [row for row in theirs.look() if row[0] != uuid.UUID(group)]
    assert kept == before


def test_a_tenant_sees_only_its_own_trains_and_groups(roles: Roles, acme: psycopg.Connection, theirs: Theirs) -> None:
    theirs.owner.execute("select headway.hold_train('mine', %s)", (ACME,))
    for table, seen in (("holds", 1), ("edges", 0), ("groups", 0)):
        for _warm in range(7):  # the plan cache turns generic after five
            assert acme.execute(f"select count(*) from headway.{table}").fetchone() == (seen,)
    with psycopg.connect(roles.url_of("app"), autocommit=True) as nobody:
        assert nobody.execute("select count(*) from headway.holds").fetchone() == (0,)
        with pytest.raises(psycopg.Error, match="has no tenant"):
            nobody.execute("select headway.hold_train('t')")


def test_a_tenant_orders_its_own(acme: psycopg.Connection, theirs: Theirs) -> None:
    first, second, third = (
        acme.execute("select job_id from headway.enqueue('k', train => 't')").fetchone()[0] for _ in range(3)
    )
    acme.execute("select headway.move(%s, p_before => %s)", (third, second))
    acme.execute("select headway.hold_train('t', p_reason => 'deploy')")
    assert acme.execute("select reason from headway.holds").fetchall() == [("deploy",)]
    assert acme.execute("select headway.resume_train('t')").fetchone() == (True,)
    assert acme.execute("select headway.skip(%s)", (first,)).fetchone() == ("canceled",)
    theirs.owner.execute("select headway.process_arrivals()")
    rows = acme.execute("select id from headway.jobs where status = 'queued'").fetchall()
    assert rows == [(third,)]
    cleared = acme.execute("select headway.clear_train('t')").fetchall()
    assert sorted(cleared) == sorted([(second,), (third,)])


FORBIDDEN = [
    "select headway.process_arrivals()",
    "select * from headway.sweep(10)",
    "select * from headway.take(gen_random_uuid(), gen_random_uuid())",
    "select headway.reserve('default', gen_random_uuid(), 'me', 1000)",
    "select headway.unreserve('default', gen_random_uuid())",
    "select headway.set_limit('kind', 'k', 0)",
    "select headway.set_fair('default', true)",
    "select headway.admit('{}')",
    "select headway.release_next_cars('{}', '{}', now())",
    "select headway.stop_groups('{}', null, now())",
    "delete from headway.holds",
    "delete from headway.edges",
    "update headway.groups set stopped_at = now()",
    "insert into headway.limits (scope, name, max_running) values ('kind', 'k', 0)",
    "delete from headway.reservations",
    "select * from headway.arrivals",
    "update headway.gates set n = n",
    "select secret from headway.install",
    "select headway.lock_key('limits')",
]


def test_a_tenants_login_cannot_go_around_its_functions(acme: psycopg.Connection) -> None:
    for statement in FORBIDDEN:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            acme.execute(statement)


def test_a_tenant_sees_no_limit_of_another_and_nobody_who_paused(roles: Roles) -> None:
    with psycopg.connect(roles.url, autocommit=True) as owner:
        owner.execute("select headway.set_limit('tenant', %s, p_max_running => 3)", (GLOBEX,))
        owner.execute("select headway.set_limit('tenant', %s, p_max_running => 4)", (ACME,))
        owner.execute("select headway.set_limit('kind', 'k', p_max_running => 5)")
        owner.execute("select headway.pause('default', 'ada of globex')")
    with psycopg.connect(roles.url_of("acme"), autocommit=True) as conn:
        limits = conn.execute("select scope, max_running from headway.limits order by 1").fetchall()
        assert limits == [("kind", 5), ("tenant", 4)]
        (queue,) = conn.execute("select name, paused_by from headway.queue_settings()").fetchall()
        assert queue == ("default", None)
        for table in ("queues", "reservations", "retired_slugs"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(f"select * from headway.{table}")
        assert conn.execute("select * from headway.usage('k:k')").fetchall() == [(0, 0)]
