"""Signals from any language on PostgreSQL: the SQL functions, and a tenant's login, which reaches only its own."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from headway.model.ids import new_id
from tests.store.engine.test_postgres_roles import ACME, GLOBEX, Roles


@pytest.fixture
def roles(postgres_url_with_roles: str) -> Iterator[Roles]:
    roles = Roles(postgres_url_with_roles)
    yield roles
    roles.drop()


@pytest.fixture
def owner(roles: Roles) -> Iterator[psycopg.Connection]:
    with psycopg.connect(roles.url, autocommit=True) as conn:
        yield conn


def _machine(conn: psycopg.Connection, tenant: str = ACME, key: str | None = None) -> str:
    """A job that never ran may be a machine."""
    row = conn.execute(
        "select job_id from headway.enqueue('checkout', tenant => %s, unique_key => %s)", (tenant, key)
    ).fetchone()
    assert row
    return str(row[0])


def _signals(conn: psycopg.Connection) -> list[tuple[object, ...]]:
    return conn.execute("select job_id::text, name, payload, dedup_key from headway.signals order by seq").fetchall()


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_a_signal_by_sql_wakes_a_machine(db) -> None:
    job_id = db.parked("paid", unique_key="order:42")
    ((first,),) = db.sql("select headway.signal(?, 'paid', ?, 'evt-7')", job_id, '{"amount": 100}')
    ((again,),) = db.sql("select headway.signal_key('checkout', 'order:42', 'paid', dedup_key => 'evt-7')")
    assert str(first) == str(again)
    assert db.woken(job_id) == ("queued", "signal")
    (signal,) = db.signals(job_id)
    assert (signal.id, signal.name, signal.payload, signal.dedup_key) == (str(first), "paid", {"amount": 100}, "evt-7")


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_a_signal_without_a_payload_has_null(db) -> None:
    job_id = db.machine()
    db.sql("select headway.signal(?, 'paid')", job_id)
    assert [signal.payload for signal in db.signals(job_id)] == [None]


def test_refusals_have_codes(owner: psycopg.Connection) -> None:
    with pytest.raises(psycopg.Error) as unknown:
        owner.execute("select headway.signal(%s, 'paid')", (new_id(),))
    assert unknown.value.sqlstate == "HW006"
    with pytest.raises(psycopg.Error) as no_key:
        owner.execute("select headway.signal_key('checkout', 'nobody', 'paid')")
    assert no_key.value.sqlstate == "HW006"
    over = _machine(owner)
    owner.execute("select * from headway.cancel(array[%s]::uuid[])", (over,))
    with pytest.raises(psycopg.Error) as late:
        owner.execute("select headway.signal(%s, 'paid')", (over,))
    assert late.value.sqlstate == "HW003"
    with pytest.raises(psycopg.Error) as nameless:
        owner.execute("select headway.signal(%s, '')", (_machine(owner),))
    assert nameless.value.sqlstate == "HW004"
    with pytest.raises(psycopg.Error) as secret:
        owner.execute('select headway.signal(%s, \'paid\', \'{"a": {"\\u0024secret": "A"}}\')', (_machine(owner),))
    assert secret.value.sqlstate == "HW007"


def test_a_tenants_login_signals_and_reads_only_its_own(roles: Roles, owner: psycopg.Connection) -> None:
    mine, theirs = _machine(owner, ACME, "k"), _machine(owner, GLOBEX, "k")
    owner.execute("select headway.signal(%s, 'theirs')", (theirs,))
    with psycopg.connect(roles.url_of("acme"), autocommit=True) as conn:
        for _warm in range(7):  # the plan cache turns generic after five
            with pytest.raises(psycopg.Error) as refused:
                conn.execute("select headway.signal(%s, 'paid')", (theirs,))
            assert refused.value.sqlstate == "HW006"
        with pytest.raises(psycopg.Error, match="may act for tenant"):
            conn.execute("select headway.signal_key('checkout', 'k', 'paid', tenant => %s)", (GLOBEX,))
        conn.execute("select headway.signal(%s, 'by id')", (mine,))
        conn.execute("select headway.signal_key('checkout', 'k', 'by key')")
        assert [row[:2] for row in _signals(conn)] == [(mine, "by id"), (mine, "by key")]
    assert [row[1] for row in _signals(owner)] == ["theirs", "by id", "by key"]


def test_an_app_session_without_a_tenant_sees_no_signal_and_sends_none(roles: Roles, owner: psycopg.Connection) -> None:
    mine = _machine(owner)
    owner.execute("select headway.signal(%s, 'paid')", (mine,))
    with psycopg.connect(roles.url_of("app"), autocommit=True) as conn:
        assert _signals(conn) == []
        with pytest.raises(psycopg.Error, match="has no tenant"):
            conn.execute("select headway.signal(%s, 'paid')", (mine,))
        conn.execute("select set_config('headway.tenant_id', %s, false)", (ACME,))
        conn.execute("select headway.signal(%s, 'more')", (mine,))
        assert [row[1] for row in _signals(conn)] == ["paid", "more"]


@pytest.mark.parametrize(
    "statement",
    [
        "insert into headway.signals (id, job_id, tenant_id, name, payload, sent_at)"
        " values (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'n', 'null', now())",
        "update headway.signals set fence = 1",
        "delete from headway.signals",
        "select headway.wake_satisfied('{}', now())",
        "select headway.deliver('{}', now())",
    ],
)
def test_an_app_login_cannot_go_around_the_functions(roles: Roles, statement: str) -> None:
    with (
        psycopg.connect(roles.url_of("acme"), autocommit=True) as conn,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        conn.execute(statement)
