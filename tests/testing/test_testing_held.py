"""held: the time of an app and its database stands still until it is moved, and goes on afterwards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from headway import Headway
from headway.errors import ConfigError, InvalidJob, NotAllowed, SchemaMissing
from headway.testing import drain, held

AT = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)


def test_time_stands_still_until_it_is_moved(app: Headway) -> None:
    @app.job
    def work() -> None: ...

    with held(app, AT) as clock:
        job = work.using(delay="5m").enqueue()
        assert app.get(job.id).created_at == AT == clock.now()
        assert drain(app).succeeded == 0
        assert clock.advance("4m59s") == AT + timedelta(minutes=4, seconds=59)
        assert drain(app).succeeded == 0
        clock.move_to(AT + timedelta(minutes=5))
        assert drain(app).succeeded == 1
        assert app.get(job.id).finished_at == AT + timedelta(minutes=5)
        assert app.why(job.id).reasons == ["it succeeded at 2031-05-06T07:13:09+00:00"]


def test_expiry_is_judged_by_the_held_time(app: Headway) -> None:
    @app.job
    def work() -> None: ...

    with held(app, AT) as clock:
        with pytest.raises(InvalidJob, match="in the past"):
            work.using(expires_at=AT).enqueue()
        job = work.using(expires_at=AT + timedelta(hours=1)).enqueue()
        clock.advance("1h")
        drain(app)
        assert app.get(job.id).status == "canceled"


def test_time_goes_on_afterwards_also_after_an_error(app: Headway) -> None:
    @app.job
    def work() -> None: ...

    def fail() -> None:
        with held(app, AT):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    before = datetime.now(UTC) - timedelta(minutes=1)
    assert before < app.get(work.enqueue().id).created_at < before + timedelta(minutes=2)
    with held(app) as clock:
        assert before < clock.now() < before + timedelta(minutes=2)


def test_the_databases_clock_is_put_back_as_it_was(headway_postgres_url: str) -> None:
    def definition() -> object:
        with psycopg.connect(headway_postgres_url) as conn:
            return conn.execute("select p.*, pg_get_functiondef(oid) from pg_proc p where proname = 'now'").fetchall()

    before = definition()
    app = Headway(headway_postgres_url)
    with held(app):
        assert definition() != before
    assert definition() == before
    app.close()


def test_only_the_owner_may_hold_the_databases_clock(headway_postgres_url: str) -> None:
    parts = urlsplit(headway_postgres_url)
    login = f"{parts.path.strip('/')}_login"
    with psycopg.connect(headway_postgres_url, autocommit=True) as owner:
        owner.execute(f"create role {login} login password 'x'")
        owner.execute(f"grant usage on schema headway to {login}")
        owner.execute(f"grant execute on all functions in schema headway to {login}")
        owner.execute(f"grant select on all tables in schema headway to {login}")
        try:
            host = parts.netloc.rpartition("@")[2]
            app = Headway(urlunsplit(parts._replace(netloc=f"{login}:x@{host}")))
            with pytest.raises(NotAllowed, match=r"does not own the schema headway .* connect the tests as its owner"):
                held(app).__enter__()
            app.close()
        finally:
            owner.execute(f"drop owned by {login}")
            owner.execute(f"drop role {login}")


def test_a_database_without_the_schema_is_named(postgres_url: str) -> None:
    app = Headway(postgres_url)
    with pytest.raises(SchemaMissing, match=r"has no Headway schema.*headway .*migrate"):
        held(app).__enter__()
    app.close()


def test_what_makes_no_sense_is_refused(app: Headway) -> None:
    with held(app, AT) as clock:
        with pytest.raises(InvalidJob, match="carries no zone"):
            clock.move_to(AT.replace(tzinfo=None))
        with pytest.raises(InvalidJob, match="time only moves forward"):
            clock.move_to(AT - timedelta(seconds=1))
        with pytest.raises(InvalidJob, match="out of range"):
            clock.advance(-1)
        with pytest.raises(ConfigError, match="held already"):
            held(app).__enter__()
    with pytest.raises(InvalidJob, match="carries no zone"):
        held(app, AT.replace(tzinfo=None)).__enter__()
    with held(app):
        pass  # nothing of the refusals stayed
