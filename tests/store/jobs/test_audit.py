"""The contract of the audit: who did what, by one line of text, and readable whether it was done to a job or not."""

from __future__ import annotations

import inspect
from datetime import datetime

import pytest

from headway.clock import to_micros
from headway.errors import InvalidJob
from headway.model.actor import as_actor
from headway.model.connector import ConnectorChange
from headway.model.definition import DefinitionChange
from headway.model.ids import new_id
from headway.model.template import TemplateChange
from headway.model.trigger import TriggerChange
from headway.store.ops import Ops
from tests.store.triggers.trigger_calls import new_connector, new_schedule, new_template
from tests.tenant_ids import tenant_id

ONE, TWO = new_id(), new_id()

BAD_ACTORS = ["", "x" * 256, "two\nlines", "esc\x1b[31m", "nul\0", "del\x7f", "c1\x9b", "half \ud800", 7]


@pytest.mark.parametrize("actor", BAD_ACTORS)
def test_an_actor_is_one_line_of_text(db, actor):
    job = db.enqueue()
    with pytest.raises(InvalidJob, match="actor"):
        db.pause("mail", actor=actor)
    with pytest.raises(InvalidJob, match="actor"):
        db.cancel(job.id, actor=actor)
    assert db.queues().get("mail") is None
    assert db.status(job.id) == "queued"
    assert db.audit_log() == []


def test_every_verb_that_has_an_actor_checks_it(db):
    for name, verb in inspect.getmembers(Ops, inspect.isfunction):
        parameters = inspect.signature(verb).parameters
        if "actor" in parameters:
            needed = {
                each.name: None
                for each in parameters.values()
                if each.name != "self" and each.default is inspect.Parameter.empty
            }
            with pytest.raises(InvalidJob, match="actor"):
                getattr(db.ops, name)(**needed | {"actor": "two\nlines"})


@pytest.mark.parametrize("actor", ["x" * 255, "Ångström 船 <a@b>", None])
def test_an_actor_may_be_any_line(db, actor):
    db.pause("mail", actor=actor)
    assert db.audit_log()[0].actor == actor
    assert db.queues()["mail"].paused_by == actor


@pytest.mark.parametrize("actor", ["", "x" * 256, "two\nlines", "c1\x9b"])
def test_the_tables_refuse_an_actor_that_comes_by_sql(db, actor):
    now = db.now() if db.dialect == "postgres" else to_micros(db.now())
    with pytest.raises(Exception, match="audit_actor"):
        db.sql("insert into {audit} (at, actor, action) values (?, ?, 'x')", now, actor)


def test_anything_can_be_made_an_actor():
    for text in ("x" * 300, "two\nlines", "half \ud800"):
        assert as_actor(text).isprintable()
        assert len(as_actor(text)) <= 255


def test_the_log_has_what_was_done_to_no_job_newest_first(db):
    acme = tenant_id("acme")
    job = db.enqueue(tenant="acme")
    db.pause("mail", actor="ann")
    db.cancel(job.id, actor="bob")
    db.resume("mail", actor="ann")
    found = db.audit_log()
    assert [(each.actor, each.action, each.detail, each.job_id, each.tenant_id) for each in found] == [
        ("ann", "resume", "mail", None, None),
        ("bob", "cancel", None, job.id, acme),
        ("ann", "pause", "mail", None, None),
    ]
    assert db.audit_log(actor="ann") == [found[0], found[2]]
    assert db.audit_log(action="cancel") == [found[1]] == db.audit_log(tenant_id=acme) == db.audit(job.id)
    assert db.audit_log(limit=2) == found[:2]
    assert db.audit_log(limit=2, before=found[1].id) == found[2:]


def test_reservations_leave_a_record(db):
    def entries():
        return [(each.actor, each.action, each.detail, each.at) for each in reversed(db.audit_log())]

    begun = db.now()
    db.reserve(ONE, "mail", holder="ann", expires_ms=60_000)
    db.reserve(ONE, "mail", holder="ann", expires_ms=60_000)  # renewed: nothing new
    db.reserve(TWO, "mail", holder="bob", expires_ms=60_000)  # refused: nothing happened
    assert entries() == [("ann", "reserve", "mail", begun)]
    db.advance("30s")
    assert db.unreserve(ONE, "mail")
    released = ("ann", "unreserve", "mail", db.now())
    assert entries()[1:] == [released]
    assert not db.unreserve(ONE, "mail")
    db.reserve(ONE, "mail", holder="ann", expires_ms=60_000)
    db.advance("60s")
    taken = db.reserve(TWO, "mail", holder="bob", expires_ms=60_000)
    assert (taken.id, taken.since) == (TWO, db.now())
    assert [each[:2] for each in entries()[2:]] == [
        ("ann", "reserve"), ("ann", "reservation.expired"), ("bob", "reserve"),
    ]  # fmt: skip


def test_a_reservation_that_nobody_follows_is_recorded_as_expired_by_a_sweep(db):
    db.reserve(ONE, "mail", holder="ann", expires_ms=60_000)
    db.sweep()
    assert [each.action for each in db.audit_log()] == ["reserve"]
    db.advance("60s")
    assert not db.sweep()  # nothing was broken
    assert next((each.actor, each.action) for each in db.audit_log()) == ("ann", "reservation.expired")
    db.sweep()
    assert len(db.audit_log()) == 2
    assert db.unreserve(ONE, "mail") is False


def test_a_queue_is_paused_by_sql_without_naming_anybody(postgres_store):
    import psycopg

    with psycopg.connect(postgres_store.url, autocommit=True) as conn:
        conn.execute("select headway.pause('mail')")
        (queue,) = postgres_store.run(postgres_store.ops.queues(tenant_id=None))
        assert (queue.paused, queue.paused_by) == (True, None)
        conn.execute("select headway.resume('mail')")


def test_many_by_a_filter_leave_one_entry_for_each_tenant(db):
    first, second = [db.enqueue(tenant="acme").id for _ in range(2)]
    other = db.enqueue(tenant="globex").id
    everything = [first, second, other]
    matching = {"tenant_id": None, "actor": "ann", "matching": "kind=k"}
    db.run(db.ops.cancel(everything, reason="sold out", **matching))
    db.run(db.ops.retry(everything, **matching))
    db.run(db.ops.cancel([other], reason="sold out", **matching))  # one is one
    found = [(each.tenant_id, each.action, each.detail, each.job_id) for each in reversed(db.audit_log())]
    acme, globex = tenant_id("acme"), tenant_id("globex")
    assert sorted(found[:2]) == sorted([
        (acme, "cancel", "2 jobs: kind=k: sold out", None),
        (globex, "cancel", "1 jobs: kind=k: sold out", None),
    ])  # fmt: skip
    assert sorted(found[2:4]) == sorted([
        (acme, "retry", "2 jobs: kind=k", None), (globex, "retry", "1 jobs: kind=k", None),
    ])  # fmt: skip
    assert found[4:] == [(globex, "cancel", "sold out", other)]
    assert {each.actor for each in db.audit_log()} == {"ann"}
    db.run(db.ops.retry([other], tenant_id=None, actor="ann", matching="kind=k"))
    assert (db.audit_log()[0].job_id, db.audit_log()[0].detail) == (other, other)


def test_a_changed_payload_shows_no_secret(db):
    job = db.enqueue()
    db.change(job.id, payload='{"to": "ann", "password": "hunter2"}', actor="ann")
    (entry,) = db.audit(job.id)
    assert ("hunter2" in entry.detail, "ann" in entry.detail, entry.action) == (False, True, "change")


LONG = "x" * 2_001


def changes(db):
    entry = db.audit_log(limit=1)[0]
    return entry.action, entry.changes


def test_a_changed_setting_keeps_its_old_and_new_values(db):
    template = db.create_template(
        new_template(kind="a", payload='{"n": 1, "token": "t-1"}', description="old"), actor="ann"
    )
    given = TemplateChange(kind="b", payload='{"n": 2, "token": "t-2"}', description="old")
    db.run(db.ops.change_template(template.id, given, tenant_id=None, actor="ann"))
    assert changes(db) == (
        "template.changed",
        {"kind": ["a", "b"], "payload": [{"n": 1, "token": "[redacted]"}, {"n": 2, "token": "[redacted]"}]},
    )
    schedule = db.create_trigger(new_schedule(cron="0 2 * * *"))
    at = db.after(60_000)
    change = TriggerChange(cron="0 3 * * *", enabled=False, end_at=at, next_fire_at=None)
    db.run(db.ops.change_trigger(schedule.id, change, tenant_id=None, actor="ann"))
    action, found = changes(db)
    assert (action, datetime.fromisoformat(found.pop("end_at")[1])) == ("trigger.changed", at)
    assert found == {"cron": ["0 2 * * *", "0 3 * * *"], "enabled": [True, False]}
    connector = db.run(db.ops.create_connector(new_connector(url="https://a.example"), actor="ann"))
    db.run(db.ops.change_connector(connector.id, ConnectorChange(url="https://b.example"), tenant_id=None, actor="ann"))
    assert changes(db) == ("connector.changed", {"url": ["https://a.example", "https://b.example"]})


def test_a_changed_definition_keeps_its_old_and_new_values(db):
    for change, expected in (
        (DefinitionChange(queue="slow", active=False), {"queue": ["default", "slow"], "active": [True, False]}),
        (DefinitionChange(tenants=("acme",), schema="{}"), {"tenants": [None, ["acme"]], "schema": [None, {}]}),
        (DefinitionChange(reset=("queue", "schema")), {"queue": ["slow", "default"], "schema": [{}, None]}),
        (DefinitionChange(description=LONG), {"description": ["", "2003 characters"]}),
        (DefinitionChange(description=LONG), None),
    ):
        db.run(db.ops.change_definition("mail", change, actor="ann"))
        assert changes(db) == ("definition.changed", expected)


def test_a_changed_limit_retention_and_zone_keep_their_old_and_new_values(db):
    for values, expected in (
        ({"max_running": 3}, {"max_running": [None, 3]}),
        (
            {"max_running": 2, "rate_count": 5, "rate_period_ms": 1000},
            {"max_running": [3, 2], "rate_count": [None, 5], "rate_period_ms": [None, 1000]},
        ),
        ({}, {"max_running": [2, None], "rate_count": [5, None], "rate_period_ms": [1000, None]}),
    ):
        db.limit("kind", "mail", **values)
        assert changes(db) == ("limit", expected)
    for retention, expected in (({"dead": 7}, [None, {"dead": 7}]), (None, [{"dead": 7}, None])):
        db.run(db.ops.set_retention("mail", retention, actor="ann"))
        assert changes(db) == ("retention", {"retention": expected})
    job = db.enqueue(tenant="acme")
    for tz, expected in (("Europe/Berlin", [None, "Europe/Berlin"]), (None, ["Europe/Berlin", None])):
        db.run(db.ops.set_tenant_zone(db.job(job.id).tenant_id, tz, actor="ann"))
        assert changes(db) == ("tenant.changed", {"tz": expected})


def test_a_changed_job_keeps_its_old_and_new_values(db):
    job = db.enqueue(payload='{"to": "ann", "password": "p-1"}', meta='{"n": 1}', tags=("a",))
    db.change(job.id, priority=7, payload='{"to": "bob", "password": "p-2"}', tags=("a", "b"), actor="ann")
    assert changes(db)[1] == {
        "priority": [100, 7],
        "payload": [{"to": "ann", "password": "[redacted]"}, {"to": "bob", "password": "[redacted]"}],
        "tags": [["a"], ["a", "b"]],
    }
    db.change(job.id, meta=None, actor="ann")
    assert changes(db)[1] == {"meta": [{"n": 1}, None]}
