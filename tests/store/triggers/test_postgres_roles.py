"""Invariant 11 for templates, triggers, events and fires on PostgreSQL: a tenant's login reaches only its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from headway.errors import HeadwayError, NotAllowed, UnknownKind
from headway.model.definition import NewDefinition
from headway.store.postgres.store import PostgresStore
from tests.store.engine.test_postgres_roles import ACME, GLOBEX, Roles
from tests.store.triggers.trigger_calls import handling, new_event, new_fire, new_listener, new_schedule, new_template

TABLES = ("connector_configs", "templates", "triggers", "fires", "events")


@pytest.fixture
def roles(postgres_url_with_roles: str) -> Iterator[Roles]:
    roles = Roles(postgres_url_with_roles)
    yield roles
    roles.drop()


@pytest.fixture
def login(roles: Roles, make_db: type[Any]) -> Iterator[Callable[..., Any]]:
    """The words for a store, as one of the logins; `tenant` is what its sessions set."""
    made: list[PostgresStore] = []

    def login(name: str, tenant: str | None = None) -> Any:
        made.append(PostgresStore(roles.url_of(name), tenant_id=tenant))
        return make_db(made[-1], None)

    yield login
    for store in made:
        store.close()


class Theirs:
    """What one tenant has: a template, a schedule, an event trigger, a failed event and a pending one, and a fire."""

    def __init__(self, owner: Any, tenant: str) -> None:
        self.connector = owner.connector(tenant=tenant, name="connector")
        self.template = owner.template(tenant=tenant, name="template")
        self.schedule = owner.create_trigger(new_schedule(tenant=tenant, name="schedule", template_id=self.template.id))
        self.listener = owner.create_trigger(new_listener("paid", tenant=tenant, name="listener"))
        self.failed = owner.emit("paid", {"of": tenant}, tenant=tenant)
        owner.handle(handling(self.failed, new_fire(self.listener, error="boom")))
        self.pending = owner.emit("paid", tenant=tenant)
        owner.run_trigger(new_fire(self.schedule))


@pytest.fixture
def owner(roles: Roles, make_db: type[Any]) -> Any:
    return make_db(roles.store, None)


def look(owner: Any, tenant: str) -> list[Any]:
    """Everything of a tenant that somebody could have changed."""
    return [
        owner.connectors(tenant_id=tenant),
        owner.templates(tenant_id=tenant),
        owner.triggers(tenant_id=tenant),
        owner.events(tenant_id=tenant),
        owner.fires(tenant_id=tenant),
        owner.find(tenant_id=tenant),
    ]


def test_a_tenants_login_sees_only_its_own(roles: Roles, owner: Any, login: Callable[..., Any]) -> None:
    Theirs(owner, "acme")
    Theirs(owner, "globex")
    with psycopg.connect(roles.url_of("acme"), autocommit=True) as conn:
        for table in TABLES:
            for _warm in range(7):  # the plan cache turns generic after five
                rows = conn.execute(f"select distinct tenant_id::text from headway.{table}").fetchall()
                assert rows == [(ACME,)], table
        conn.execute("select set_config('headway.tenant_id', %s, false)", (GLOBEX,))
        for table in TABLES:
            rows = conn.execute(f"select distinct tenant_id::text from headway.{table}").fetchall()
            assert rows == [(ACME,)], table
    acme = login("acme")
    assert look(acme, ACME) == look(owner, ACME)
    assert look(acme, GLOBEX) == [[], [], [], [], [], []]
    assert acme.connectors() == owner.connectors(tenant_id=ACME)
    assert acme.templates() == owner.templates(tenant_id=ACME)
    assert acme.triggers() == owner.triggers(tenant_id=ACME)
    assert acme.events() == owner.events(tenant_id=ACME)
    assert acme.fires() == owner.fires(tenant_id=ACME)


def test_no_tenant_no_rows(roles: Roles, owner: Any, login: Callable[..., Any]) -> None:
    Theirs(owner, "acme")
    with psycopg.connect(roles.url_of("app"), autocommit=True) as conn:
        for table in TABLES:
            assert conn.execute(f"select count(*) from headway.{table}").fetchone() == (0,)
        with pytest.raises(psycopg.Error, match="has no tenant"):
            conn.execute("select headway.emit('paid')")
        conn.execute("select set_config('headway.tenant_id', %s, false)", (ACME,))
        for table in TABLES:
            assert conn.execute(f"select count(*) from headway.{table}").fetchone() != (0,)
    nobody = login("app")
    before = look(owner, ACME)
    for attempt in (
        lambda: nobody.template(tenant="acme"),
        lambda: nobody.create_trigger(new_schedule(tenant="acme")),
        lambda: nobody.emit("paid", tenant="acme"),
    ):
        with pytest.raises(NotAllowed):
            attempt()
    assert look(owner, ACME) == before
    bound = login("app", ACME)
    assert look(bound, ACME) == before


def test_nothing_of_another_tenants_is_touched(owner: Any, login: Callable[..., Any]) -> None:
    theirs = Theirs(owner, "globex")
    mine = Theirs(owner, "acme")
    before = look(owner, GLOBEX)
    acme = login("acme")
    past = datetime(2026, 1, 2, 3, tzinfo=UTC)
    attempts: dict[str, Callable[[], Any]] = {
        "change_connector": lambda: acme.change_connector(theirs.connector.id, url="https://evil.example"),
        "delete_connector as them": lambda: acme.delete_connector(theirs.connector.id, tenant_id=GLOBEX),
        "create_connector for them": lambda: acme.connector(tenant="globex"),
        "create_connector over theirs": lambda: acme.connector(tenant="acme", id=theirs.connector.id),
        "change_template": lambda: acme.change_template(theirs.template.id, kind="evil"),
        "change_template as them": lambda: acme.change_template(theirs.template.id, kind="evil", tenant_id=GLOBEX),
        "delete_template": lambda: acme.delete_template(theirs.template.id),
        "create_template for them": lambda: acme.template(tenant="globex"),
        "create_template over theirs": lambda: acme.create_template(new_template(tenant="acme", id=theirs.template.id)),
        "change_trigger": lambda: acme.change_trigger(theirs.schedule.id, enabled=False),
        "change_trigger as them": lambda: acme.change_trigger(theirs.schedule.id, enabled=False, tenant_id=GLOBEX),
        "delete_trigger": lambda: acme.delete_trigger(theirs.listener.id),
        "create_trigger for them": lambda: acme.create_trigger(new_schedule(tenant="globex")),
        "create_trigger over theirs": lambda: acme.create_trigger(new_schedule(tenant="acme", id=theirs.schedule.id)),
        "create_trigger of their template": lambda: acme.create_trigger(
            new_schedule(tenant="acme", template_id=theirs.template.id)
        ),
        "change_trigger to their template": lambda: acme.change_trigger(
            mine.listener.id, kind=None, template_id=theirs.template.id
        ),
        "run_trigger": lambda: acme.run_trigger(new_fire(theirs.schedule)),
        "run_trigger as them": lambda: acme.run_trigger(new_fire(theirs.schedule), tenant_id=GLOBEX),
        "run_trigger with their job": lambda: acme.run_trigger(
            new_fire(mine.schedule, job=new_fire(theirs.schedule).job), tenant_id=ACME
        ),
        "backfill": lambda: acme.backfill(theirs.schedule, new_fire(theirs.schedule, past)),
        "backfill as them": lambda: acme.backfill(theirs.schedule, new_fire(theirs.schedule, past), tenant_id=GLOBEX),
        "backfill with their job": lambda: acme.backfill(
            mine.schedule, new_fire(mine.schedule, past, job=new_fire(theirs.schedule).job), tenant_id=ACME
        ),
        "emit for them": lambda: acme.emit("paid", tenant="globex"),
        "emit over theirs": lambda: acme.emit_all([new_event("evil", tenant="acme", id=theirs.pending)]),
        "retry_events": lambda: acme.retry_events(theirs.failed),
        "retry_events as them": lambda: acme.retry_events(theirs.failed, tenant_id=GLOBEX),
    }
    for name, attempt in attempts.items():
        try:
            answer = attempt()
        except HeadwayError:
            answer = None
        assert GLOBEX not in str(answer), name
        assert look(owner, GLOBEX) == before, name
    assert all(each.template_id != theirs.template.id for each in owner.triggers(tenant_id=ACME))


def test_a_tenant_does_all_of_it_for_itself(owner: Any, login: Callable[..., Any]) -> None:
    owner.template(tenant="globex", name="n")
    acme = login("acme")
    template = acme.template(tenant="acme", name="n")
    assert acme.change_template(template.id, kind="k", tenant_id=ACME).revision == 2
    schedule = acme.create_trigger(new_schedule(tenant="acme", template_id=template.id))
    listener = acme.create_trigger(new_listener("paid", tenant="acme"))
    assert acme.change_trigger(schedule.id, description="text").revision == 2
    fire = acme.run_trigger(new_fire(schedule), tenant_id=ACME)
    assert acme.fires() == [fire]
    (backfilled,) = acme.backfill(schedule, new_fire(schedule, datetime(2026, 1, 2, 3, tzinfo=UTC)), tenant_id=ACME)
    assert acme.fired_times(schedule, backfilled.nominal_at) == [backfilled.nominal_at]
    assert acme.job(fire.job_id).tenant_id == ACME
    event = acme.emit("paid", {"n": 1}, tenant="acme")
    owner.handle(handling(event, new_fire(listener, error="boom")))
    assert acme.event(event).status == "failed"
    assert acme.retry_events(event) == [event]
    assert acme.delete_trigger(schedule.id)
    assert acme.delete_template(template.id, tenant_id=ACME)


def test_emit_by_sql_is_the_tenants_own(roles: Roles, owner: Any) -> None:
    with psycopg.connect(roles.url_of("acme"), autocommit=True) as conn:
        conn.execute("select headway.emit('paid', '{\"n\": 1}')")
        with pytest.raises(psycopg.Error, match="may act for tenant"):
            conn.execute("select headway.emit('paid', tenant => %s)", (GLOBEX,))
    (event,) = owner.events()
    assert (event.tenant_id, event.name, event.payload) == (ACME, "paid", {"n": 1})


def test_definitions_are_read_by_all_and_written_by_workers(
    roles: Roles, owner: Any, login: Callable[..., Any]
) -> None:
    owner.declare(NewDefinition(kind="mail"))
    acme = login("acme")
    assert acme.definitions() == owner.definitions()
    for attempt in (
        lambda: acme.change_definition("mail", active=False),
        lambda: acme.delete_definition("mail"),
        lambda: acme.declare(NewDefinition(kind="mail", queue="evil")),
    ):
        with pytest.raises(NotAllowed):
            attempt()
    owner.change_definition("mail", active=False)
    with pytest.raises(NotAllowed, match="is not active"):
        acme.enqueue(kind="mail", tenant="acme")


def test_a_login_sees_no_definition_of_other_tenants(owner: Any, login: Callable[..., Any]) -> None:
    may = '{"timeout": 300000}'
    owner.declare(NewDefinition(kind="mail", tenants=("acme",), enqueuer_may=may), NewDefinition(kind="open"))
    acme, globex = login("acme"), login("app", GLOBEX)
    assert [each.kind for each in acme.definitions()] == ["mail", "open"]
    assert [each.kind for each in globex.definitions()] == ["open"]
    acme.enqueue(kind="mail", tenant="acme", timeout_ms=1_000)
    for kind in ("mail", "nowhere"):  # the same answer as for a kind that there is not
        with pytest.raises(NotAllowed) as refused:
            globex.enqueue(kind=kind, tenant="globex", timeout_ms=1_000)
        assert (
            str(refused.value).replace(kind, "K").startswith('kind "K" has no definition that lets its enqueuers set')
        )
    with pytest.raises(UnknownKind):
        globex.enqueue(kind="mail", tenant="globex")


def test_the_tick_is_a_workers(owner: Any, login: Callable[..., Any]) -> None:
    mine = Theirs(owner, "acme")
    before = look(owner, ACME)
    acme = login("acme")
    for attempt in (
        lambda: acme.due(),
        lambda: acme.handle(handling(mine.pending, mine.listener)),
        lambda: acme.prune_fires(events_ms=0, failed_ms=0, fires_ms=0),
        lambda: acme.declare(new_schedule(tenant="acme", name="n")),
    ):
        with pytest.raises(NotAllowed):
            attempt()
    assert look(owner, ACME) == before


def test_a_worker_ticks_for_every_tenant(owner: Any, login: Callable[..., Any]) -> None:
    made = [Theirs(owner, tenant) for tenant in ("acme", "globex")]
    worker = login("worker")
    assert worker.declare(NewDefinition(kind="mail")) == ()
    due = worker.due()
    assert {heard.event.id for heard in due.events} == {each.pending for each in made}
    fires = worker.handle(*(handling(each.event.id, *(met.trigger for met in each.triggers)) for each in due.events))
    assert {each.tenant_id for each in fires} == {ACME, GLOBEX}
    assert len(worker.connectors()) == len(worker.templates()) == 2
    worker.prune_fires()


FORBIDDEN = [
    "delete from headway.connector_configs",
    "delete from headway.templates",
    "update headway.triggers set enabled = false",
    "insert into headway.fires select * from headway.fires",
    "update headway.events set status = 'handled'",
    "delete from headway.events",
    "update headway.definitions set active = false",
    "select headway.announce('{}', now())",
    "select * from headway.begin_fires('{}', '{}', '{}')",
    "select headway.prune_fires(0, 0, 0, 1)",
    "select * from headway.due('{}', '{}', 1)",
]


def test_a_tenants_login_cannot_go_around_its_functions(roles: Roles) -> None:
    with psycopg.connect(roles.url_of("acme"), autocommit=True) as conn:
        for statement in FORBIDDEN:
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFunction)):
                conn.execute(statement)
