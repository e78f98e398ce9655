"""Emit: an event is stored before it is handled, once, and the triggers that are there hear it."""

from __future__ import annotations

import json
from contextlib import closing

import msgspec
import psycopg
import pytest

from headway.errors import InvalidPayload
from headway.model.event import NewEvent
from headway.model.ids import DEFAULT_TENANT_ID, new_id
from tests.store.store_marks import ALL_LIBRARIES, POSTGRES
from tests.store.triggers.trigger_calls import ODD_JSON, handling, new_event
from tests.tenant_ids import tenant_id

ACME, BETA = tenant_id("acme"), tenant_id("beta")


# emit


@ALL_LIBRARIES
def test_every_field_of_an_event_is_stored(db):
    new = NewEvent(
        id=new_id(),
        tenant="acme",
        tenant_id=ACME,
        name="folder.updated:a/b-c_1",
        payload=ODD_JSON,
        correlation_id="corr-1",
        trace_id="trace-3",
        created_by="ann-2",
    )
    emitted_at = db.now()
    assert db.emit_all([new]) == [new.id]
    db.advance("1m")
    (stored,) = db.events()
    assert msgspec.structs.asdict(stored) == {
        "id": new.id,
        "tenant_id": ACME,
        "tenant": "acme",
        "name": "folder.updated:a/b-c_1",
        "payload": msgspec.json.decode(ODD_JSON),
        "status": "pending",
        "emitted_at": emitted_at,
        "handled_at": None,
        "correlation_id": "corr-1",
        "trace_id": "trace-3",
        "created_by": "ann-2",
        "job_id": None,
        "error": None,
    }
    assert list(stored.payload) == list(msgspec.json.decode(ODD_JSON))
    assert [heard.event for heard in db.due().events] == [stored]


@pytest.mark.parametrize("payload", [None, 0, False, "", [], {"s": "Grüße 🚂 ' \" \\"}, 2**53 + 1])
def test_a_payload_is_any_json(db, payload):
    event = db.event(db.emit("paid", payload))
    assert event.payload == payload
    assert type(event.payload) is type(payload)


def test_a_repeated_emit_leaves_what_is_stored(db, paid):
    new = new_event("paid", {"n": 1})
    db.emit_all([new])
    before = db.event(new.id)
    db.advance("1m")
    assert db.emit_all([new, new]) == [new.id, new.id]
    assert db.events() == [before]
    db.handle(handling(new.id, paid))
    assert db.emit_all([msgspec.structs.replace(new, name="other")]) == [new.id]
    assert (db.event(new.id).name, db.event(new.id).status) == ("paid", "handled")


def test_a_batch_is_emitted_in_order_and_answers_with_its_ids(db):
    events = [new_event(f"n{n}", n, tenant="acme" if n % 2 else "beta") for n in range(10)]
    assert db.emit_all(events) == [each.id for each in events]
    assert [each.payload for each in reversed(db.events())] == list(range(10))
    assert db.emit_all([]) == []


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_event_is_part_of_the_callers_transaction(db, end):
    with closing(db.connect()) as conn:
        conn.execute("begin")
        db.store.run_in(conn, db.ops.emit([new_event("paid", tenant="acme")]))
        assert db.events() == []
        conn.execute(end)
    assert len(db.events()) == (end == "commit")
    names = db.run(db.ops.tenants([ACME]))
    assert names == ({ACME: "acme"} if end == "commit" else {})


@POSTGRES
def test_an_open_emit_holds_up_nobody_else(db, session, paid):
    """Into a tenant that exists, which is what a long transaction does."""
    db.emit("paid", tenant="acme")
    db.emit("paid")
    open_ = session()
    open_.run(db.ops.emit([new_event("paid", tenant="acme"), new_event("paid")]))
    db.emit("paid", tenant="acme")
    due = db.due()
    assert len(due.events) == 3
    db.handle(*(handling(heard.event.id, *(met.trigger for met in heard.triggers)) for heard in due.events))
    db.change_trigger(paid.id, description="changed")
    db.delete_trigger(paid.id)
    db.prune_fires(events_ms=0)
    open_.commit()
    assert {each.status for each in db.events()} == {"handled", "pending"}
    assert len(db.heard()) == 2


REFERENCES = ({"body": {"$secret": "NAME"}}, {"$secret": 7, "x": 1}, [[{"a": {"$secret": None}}]])


@ALL_LIBRARIES
@pytest.mark.parametrize("payload", REFERENCES)
def test_an_event_with_a_reference_to_a_secret_is_refused(db, paid, payload):
    with pytest.raises(InvalidPayload) as refused:
        db.emit_all([new_event("fine", {"$secrets": '{"$secret": 1}'}), new_event("paid", payload)])
    assert str(refused.value) == (
        'the data of an event holds a reference to a secret ("$secret"), which only payloads of jobs, templates and '
        "triggers may: nothing was emitted"
    )
    assert db.events() == []


@POSTGRES
@pytest.mark.parametrize(
    "payload", ['{"body": {"$secret" : "NAME"}}', '{"b": {"\\u0024s\\u0065cret": 1}}', '[{"a": {"$secret"\n: 7}}]']
)
def test_a_reference_is_refused_however_sql_writes_it(db, paid, payload):
    with pytest.raises(psycopg.Error, match="reference to a secret") as refused:
        db.sql("select headway.emit('paid', ?)", payload)
    assert refused.value.sqlstate == "HW007"
    db.sql("select headway.emit('paid', ?)", json.dumps({"text": payload, "$secrets": "$secret", "u": "\u00fc"}))
    assert len(db.events()) == 1


@POSTGRES
def test_an_event_by_sql(db, paid):
    ((plain,),) = db.sql("select headway.emit('paid')")
    ((full,),) = db.sql("select headway.emit('paid', ?, ?, 'corr')", '{"z": 1, "a": 2}', ACME)
    event = db.event(str(plain))
    assert (event.name, event.payload, event.tenant_id) == ("paid", None, DEFAULT_TENANT_ID)
    assert (event.status, event.emitted_at, event.correlation_id) == ("pending", db.now(), None)
    event = db.event(str(full))
    assert (event.payload, list(event.payload), event.tenant_id) == ({"z": 1, "a": 2}, ["z", "a"], ACME)
    assert event.correlation_id == "corr"
    assert db.heard()[str(plain)] == [paid.id]


# who hears it


def test_an_event_is_heard_by_the_triggers_on_its_name_in_its_tenant(db):
    one, two = db.listener("paid"), db.listener("paid")
    db.listener("other")
    db.listener("paid", enabled=False)
    db.listener("paid", tenant="acme")
    db.listener("PAID")
    db.listener("pai_")
    db.schedule(name="paid", enabled=False)
    db.advance("1s")
    event = db.emit("paid")
    assert sorted(db.heard()[event]) == sorted([one.id, two.id])


def test_an_event_that_nobody_hears_is_due_all_the_same(db):
    """So that it is handled."""
    event = db.emit("paid")
    assert db.heard() == {event: []}
    db.advance("1s")
    assert db.handle(handling(event)) == []
    assert (db.event(event).status, db.event(event).handled_at) == ("handled", db.now())
    assert db.heard() == {}


def test_a_trigger_hears_only_what_is_emitted_after_it_was_made(db):
    before = db.emit("paid")
    db.advance("1s")
    made = db.listener("paid")
    db.advance("1s")
    after = db.emit("paid")
    assert db.heard() == {before: [], after: [made.id]}


def test_a_trigger_hears_what_is_emitted_in_the_moment_it_was_made(db):
    made = db.listener("paid")
    event = db.emit("paid")
    assert db.heard() == {event: [made.id]}


def test_a_trigger_that_is_enabled_late_hears_what_waits(db):
    made = db.listener("paid", enabled=False)
    db.advance("1s")
    event = db.emit("paid")
    assert db.heard() == {event: []}
    db.change_trigger(made.id, enabled=True)
    assert db.heard() == {event: [made.id]}


def test_the_oldest_events_come_first_up_to_the_limit(db):
    ids = [db.emit("paid", n) for n in range(5)]
    assert list(db.heard()) == ids
    assert list(db.heard(limit=2)) == ids[:2]
    db.handle(*(handling(each) for each in ids[:2]))
    assert list(db.heard(limit=2)) == ids[2:4]
