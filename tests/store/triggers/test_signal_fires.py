"""Triggers that send signals: an event wakes a machine, once; where nobody is there, that is noted."""

from __future__ import annotations

import msgspec
import pytest

from headway.errors import InvalidJob, InvalidPayload
from headway.model.ids import new_id
from headway.model.signal import NewSignal
from headway.model.trigger import NewFire, TriggerChange
from tests.store.store_marks import ALL_LIBRARIES
from tests.store.triggers.trigger_calls import handling, new_listener
from tests.tenant_ids import tenant_id

ACME, BETA = tenant_id("acme"), tenant_id("beta")


@pytest.fixture
def paid(db):
    """A trigger on "paid" that was there before."""
    made = db.listener("paid", name="on-paid", tenant="acme", signal="payment", signal_to="checkout:{{event.order}}")
    db.advance("1s")
    return made


def fire(trigger, to=None, payload="null", **options):
    signal = {"id": new_id(), "name": "payment", "payload": payload, "tenant_id": trigger.tenant_id, **options}
    return NewFire(id=new_id(), trigger_id=trigger.id, signal=NewSignal(job_id=to, **signal))


@ALL_LIBRARIES
def test_an_event_wakes_the_machine_that_awaits_its_signal(db, paid):
    machine = db.parked("payment", kind="checkout", unique_key="42", tenant="acme")
    event = db.emit("paid", tenant="acme")
    fired_at = db.advance("1s")
    new = fire(paid, kind="checkout", unique_key="42", payload='{"amount": 100}', dedup_key="p-1")
    (fired,) = db.handle(handling(event, new))
    assert msgspec.structs.asdict(fired) == {
        "id": new.id,
        "trigger_id": paid.id,
        "tenant_id": ACME,
        "nominal_at": None,
        "event_id": event,
        "fired_at": fired_at,
        "status": "signaled",
        "job_id": machine,
        "error": None,
    }
    assert db.fires(event_id=event) == [fired]
    (signal,) = db.signals(machine)
    assert (signal.id, signal.name, signal.payload, signal.dedup_key) == (
        new.signal.id,
        "payment",
        {"amount": 100},
        "p-1",
    )
    assert db.event(event).status == "handled"
    row = db.trigger(paid.id)
    assert (row.last_fired_at, row.last_job_id, row.error) == (fired_at, machine, None)
    assert (row.signal, row.signal_to, row.kind, row.template_id) == ("payment", "checkout:{{event.order}}", None, None)
    db.take()  # it is woken
    assert db.heard() == {}


def test_a_repeated_handle_sends_nothing(db, paid):
    machine = db.parked("payment", tenant="acme")
    event = db.emit("paid", tenant="acme")
    plan = handling(event, fire(paid, machine))
    assert [each.status for each in db.handle(plan)] == ["signaled"]
    assert db.handle(plan) == []
    assert db.handle(handling(event, fire(paid, machine))) == []
    assert len(db.signals(machine)) == 1


def test_a_signal_that_is_there_already_is_deduped(db, paid):
    machine = db.parked("payment", tenant="acme")
    first, second = (db.emit("paid", tenant="acme") for _ in range(2))
    (one,) = db.handle(handling(first, fire(paid, machine, dedup_key="p-1")))
    (other,) = db.handle(handling(second, fire(paid, machine, dedup_key="p-1")))
    assert [(each.status, each.job_id) for each in (one, other)] == [("signaled", machine), ("deduped", machine)]
    assert len(db.signals(machine)) == 1


def test_nobody_there_is_noted_and_stops_nobody_else(db, paid):
    mine, ended = db.parked("payment", tenant="acme"), db.parked("payment", tenant="acme")
    others = db.parked("payment", tenant="beta", kind="checkout", unique_key="42")
    db.cancel(ended)
    cases = [
        (fire(paid, mine), "signaled", None),
        (fire(paid, new_id()), "undelivered", "there is no job"),
        (fire(paid, others), "undelivered", "there is no job"),
        (
            fire(paid, kind="checkout", unique_key="42"),
            "undelivered",
            "no unfinished job of kind checkout has unique key",
        ),
        (fire(paid, ended), "undelivered", "is canceled and takes no signals any more"),
    ]
    events = [db.emit("paid", tenant="acme") for _ in cases]
    fires = db.handle(*(handling(event, case[0]) for event, case in zip(events, cases, strict=True)))
    assert [each.status for each in fires] == [status for _, status, _ in cases]
    for fired, (_, _, words) in zip(fires, cases, strict=True):
        assert words in fired.error if words else fired.error is None
        assert (fired.job_id is None) == bool(words)
    # no fault of theirs: they are handled, and not tried again
    assert {db.event(event).status for event in events} == {"handled"}
    assert db.trigger(paid.id).error is None
    assert db.signals(others) == []


def test_a_machine_that_has_not_begun_gets_its_signal_when_it_waits(db, paid):
    machine = db.machine(tenant="acme", kind="checkout", unique_key="42")
    (fired,) = db.handle(handling(db.emit("paid", tenant="acme"), fire(paid, kind="checkout", unique_key="42")))
    assert (fired.status, fired.job_id) == ("signaled", machine)
    claim = db.take()
    assert db.park(claim, "payment") == "queued"


def test_a_reference_to_a_secret_is_refused_and_nothing_is_written(db, paid):
    machine = db.parked("payment", tenant="acme")
    event = db.emit("paid", tenant="acme")
    with pytest.raises(InvalidPayload, match="the data of a signal holds a reference to a secret"):
        db.handle(handling(event, fire(paid, machine, payload='{"token": {"$secret": "TOKEN"}}')))
    assert (db.event(event).status, db.signals(machine), db.fires()) == ("pending", [], [])


@pytest.mark.parametrize(
    "fields",
    [
        {"signal": "payment"},
        {"signal": "payment", "signal_to": "checkout:1", "kind": "mail"},
        {"kind": "mail", "signal_to": "checkout:1"},
    ],
)
def test_a_trigger_does_one_thing(db, paid, fields):
    with pytest.raises(InvalidJob, match="give exactly one of kind, template and, for an event, signal with signal_to"):
        db.create_trigger(new_listener("paid", **{"kind": None, "signal": None, **fields}))
    with pytest.raises(InvalidJob, match="give exactly one of kind, template and, for an event, signal with signal_to"):
        db.change_trigger(paid.id, **{"signal": None, "signal_to": None, "kind": None, **fields})
    assert db.trigger(paid.id) == paid


def test_a_trigger_may_change_from_signals_to_jobs_and_back(db, paid):
    made = db.change_trigger(paid.id, signal=None, signal_to=None, kind="mail")
    assert (made.signal, made.signal_to, made.kind) == (None, None, "mail")
    made = db.change_trigger(paid.id, signal="payment", signal_to="{{event.id}}", kind=None)
    assert (made.signal, made.signal_to, made.kind) == ("payment", "{{event.id}}", None)
    assert TriggerChange(signal=None).signal is None
