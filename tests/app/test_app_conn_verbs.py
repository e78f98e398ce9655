"""conn= on every verb that changes something: it is part of the caller's transaction, and gone with its rollback."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import apsw
import psycopg
import pytest

from headway import Context, Done, Flow, Headway, Machine, step
from headway.model.fleet import NewWorker
from headway.model.ids import new_id
from headway.testing import drain, held


def _options(verb: Any) -> set[str]:
    """Every keyword that a verb takes, those of its TypedDict included."""
    names = set(inspect.signature(verb).parameters)
    for hint in typing.get_type_hints(verb, include_extras=True).values():
        if typing.get_origin(hint) is typing.Unpack:
            names |= set(typing.get_type_hints(typing.get_args(hint)[0]))
    return names


VERBS = {
    name: verb
    for name, verb in inspect.getmembers(Headway, inspect.isfunction)
    if not name.startswith("_") and not inspect.iscoroutinefunction(verb)
}
# audit_log filters by an actor, delete_tenant is many transactions, and preview_trigger writes nothing
OTHERS = ("audit_log", "delete_tenant", "preview_trigger")
WRITING = sorted(name for name, verb in VERBS.items() if "actor" in _options(verb) and name not in OTHERS)


def test_every_verb_that_names_an_actor_takes_a_connection() -> None:
    assert len(WRITING) > 40
    for name in WRITING:
        assert "conn" in _options(VERBS[name]), name
        assert "conn" in _options(getattr(Headway, f"a{name}")), f"a{name}"


class Database:
    """The rows of every table, as a connection sees them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_file = url.startswith("sqlite")

    def connect(self) -> Any:
        if not self.is_file:
            return psycopg.connect(self.url)
        conn = apsw.Connection(self.url.removeprefix("sqlite:///"))
        conn.set_busy_timeout(5_000)
        return conn

    def rows(self, conn: Any) -> dict[str, list[Any]]:
        if self.is_file:
            tables = "select name from sqlite_schema where type = 'table' and name not like 'sqlite%'"
        else:
            tables = "select 'headway.' || tablename from pg_tables where schemaname = 'headway'"
        names = [name for (name,) in list(conn.execute(tables))]
        row = "*" if self.is_file else "t::text"
        return {name: sorted(map(repr, conn.execute(f"select {row} from {name} as t"))) for name in names}


@pytest.fixture
def shop(app: Headway, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Headway, dict[str, Callable[[Any], Any]]]]:
    """An app with something to operate on, and a call of each verb."""
    monkeypatch.setenv("HEADWAY_WEBHOOK_SECRET", "a master secret of more than 32 characters")

    @app.job
    def mail(n: int = 0) -> int:
        return n

    app.job(name="connector.webhook.deliver")(lambda endpoint, type, data: None)  # noqa: A006

    @app.machine
    class Walk(Machine, name="walk"):
        @step
        def start(self, ctx: Context) -> Done:
            return Done(1)

    @app.flow
    async def talk(flow: Flow) -> None:
        await flow.step(int)
        await flow.receive("word")

    with held(app) as clock:
        now = clock.now()
        talking = talk.enqueue().id
        machine = Walk.enqueue().id
        done = mail.using(queue="done").enqueue().id
        app.create_trigger("broken", "broken", kind="mail", payload={"n": "{{event.gone}}"})
        event = app.emit("broken", {})
        drain(app)
        queued, other = mail.enqueue().id, mail.enqueue().id
        _, car = (mail.using(train="line").enqueue().id for _ in range(2))
        mail.using(train="stopped").enqueue()
        app.hold_train("stopped")
        group = app.group([mail.build(), mail.build()])
        over = app.group([mail.build(), mail.build()])
        app.cancel_group(over)
        app.pause("paused")
        app.create_template("t", "mail")
        app.create_connector("api", "https://api.example")
        app.create_connector("hook", "https://a.example", kind="connector.webhook.deliver")
        app.create_schedule("s", every="1h", kind="mail", start=now - timedelta(days=1))
        app.create_schedule("off", every="1h", kind="mail", enabled=False)
        app.create_trigger("on", "paid", kind="mail")
        app.create_trigger("off", "paid", kind="mail", enabled=False)
        worker = NewWorker(
            id=new_id(), hostname="host", pid=1, version="1", queues={"q": 1}, kinds=("mail",), concurrency=1,
            lease_ms=60_000, late_ms=60_000, machine=None, process_started=None, metadata={},
        )  # fmt: skip
        app.store.run(app.store.ops.register(worker))
        key = app.create_api_key("known", "operator").key.id
        kept = app.reserve_queue("kept")
        app.create_tenant("acme")
        app.create_tenant("asleep")
        app.suspend_tenant("asleep")
        app.seal_audit()
        entry = app.audit_log(limit=1)[0].id
        day = (now - timedelta(hours=3), now - timedelta(hours=1))
        calls: dict[str, Callable[[Any], Any]] = {
            "cancel": lambda conn: app.cancel(queued, conn=conn),
            "retry": lambda conn: app.retry(done, conn=conn),
            "change": lambda conn: app.change(queued, tags="vip", meta={"a": 1}, priority=7, conn=conn),
            "cancel_jobs": lambda conn: app.cancel_jobs(kind="mail", conn=conn),
            "retry_jobs": lambda conn: app.retry_jobs(kind="mail", conn=conn),
            "delete": lambda conn: app.delete(done, conn=conn),
            "delete_jobs": lambda conn: app.delete_jobs(queue="done", conn=conn),
            "move": lambda conn: app.move(other, first=True, conn=conn),
            "pause": lambda conn: app.pause("default", conn=conn),
            "resume": lambda conn: app.resume("paused", conn=conn),
            "pause_all": lambda conn: app.pause_all(conn=conn),
            "resume_all": lambda conn: app.resume_all(conn=conn),
            "set_retention": lambda conn: app.set_retention("default", "1d", conn=conn),
            "declare_dead": lambda conn: app.declare_dead(worker.id, conn=conn),
            "set_worker": lambda conn: app.set_worker(worker.id, concurrency=3, conn=conn),
            "limit": lambda conn: app.limit(queue="default", max_running=3, conn=conn),
            "create_tenant": lambda conn: app.create_tenant("new", conn=conn),
            "change_tenant": lambda conn: app.change_tenant("acme", tz="Asia/Tokyo", conn=conn),
            "rename_tenant": lambda conn: app.rename_tenant("acme", "acme-2", conn=conn),
            "suspend_tenant": lambda conn: app.suspend_tenant("acme", conn=conn),
            "resume_tenant": lambda conn: app.resume_tenant("asleep", conn=conn),
            "erase_audit": lambda conn: app.erase_audit([entry], conn=conn),
            "fair": lambda conn: app.fair("default", conn=conn),
            "reserve_queue": lambda conn: app.reserve_queue("default", conn=conn),
            "unreserve_queue": lambda conn: app.unreserve_queue("kept", kept.id, conn=conn),
            "hold_train": lambda conn: app.hold_train("line", conn=conn),
            "resume_train": lambda conn: app.resume_train("stopped", conn=conn),
            "clear_train": lambda conn: app.clear_train("line", conn=conn),
            "skip": lambda conn: app.skip(car, conn=conn),
            "cancel_group": lambda conn: app.cancel_group(group, conn=conn),
            "retry_group": lambda conn: app.retry_group(over, conn=conn),
            "fork": lambda conn: app.fork(machine, conn=conn),
            "accept": lambda conn: app.accept(talking, 1, conn=conn),
            "retry_event": lambda conn: app.retry_event(event, conn=conn),
            "retry_events": lambda conn: app.retry_events([event], conn=conn),
            "change_definition": lambda conn: app.change_definition("mail", max_attempts=3, conn=conn),
            "delete_definition": lambda conn: app.delete_definition("mail", conn=conn),
            "create_schedule": lambda conn: app.create_schedule("new", "@daily", kind="mail", conn=conn),
            "ensure_schedule": lambda conn: app.ensure_schedule("new", "@daily", kind="mail", conn=conn),
            "change_schedule": lambda conn: app.change_schedule("s", every="2h", conn=conn),
            "pause_schedule": lambda conn: app.pause_schedule("s", conn=conn),
            "resume_schedule": lambda conn: app.resume_schedule("off", conn=conn),
            "delete_schedule": lambda conn: app.delete_schedule("s", conn=conn),
            "run_schedule": lambda conn: app.run_schedule("s", conn=conn),
            "backfill_schedule": lambda conn: app.backfill_schedule("s", *day, conn=conn),
            "create_template": lambda conn: app.create_template("new", "mail", conn=conn),
            "change_template": lambda conn: app.change_template("t", description="x", conn=conn),
            "delete_template": lambda conn: app.delete_template("t", conn=conn),
            "create_connector": lambda conn: app.create_connector("new", "https://b.example", conn=conn),
            "change_connector": lambda conn: app.change_connector("api", description="x", conn=conn),
            "delete_connector": lambda conn: app.delete_connector("api", conn=conn),
            "add_webhook": lambda conn: app.add_webhook("https://b.example", ["paid"], conn=conn),
            "rotate_webhook": lambda conn: app.rotate_webhook("hook", conn=conn),
            "test_webhook": lambda conn: app.test_webhook("hook", conn=conn),
            "create_trigger": lambda conn: app.create_trigger("new", "paid", kind="mail", conn=conn),
            "change_trigger": lambda conn: app.change_trigger("on", description="x", conn=conn),
            "enable_trigger": lambda conn: app.enable_trigger("off", conn=conn),
            "disable_trigger": lambda conn: app.disable_trigger("on", conn=conn),
            "delete_trigger": lambda conn: app.delete_trigger("on", conn=conn),
            "create_api_key": lambda conn: app.create_api_key("new", "operator", conn=conn),
            "revoke_api_key": lambda conn: app.revoke_api_key(key, conn=conn),
        }
        yield app, calls


def test_a_verb_is_part_of_the_callers_transaction(shop: Any, url: str) -> None:
    _, calls = shop
    assert sorted(calls) == WRITING
    database = Database(url)
    with closing(database.connect()) as conn, closing(database.connect()) as beside:
        before = database.rows(beside)
        for name, call in calls.items():
            if database.is_file:
                conn.execute("begin immediate")
            else:
                beside.rollback()
            call(conn)
            assert database.rows(conn) != before, f"{name} wrote nothing in the transaction"
            if not database.is_file:
                beside.rollback()
            assert database.rows(beside) == before, f"{name} wrote outside the transaction"
            conn.execute("rollback") if database.is_file else conn.rollback()
            assert database.rows(conn) == before, f"{name} outlived the rollback"
            if not database.is_file:
                conn.rollback()
