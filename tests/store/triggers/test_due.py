"""Due: what a tick finds to fire now, for a caller that knows some kinds and declares some schedules."""

from __future__ import annotations

import pytest

from headway.model.definition import NewDefinition
from headway.model.ids import new_id
from headway.model.trigger import DUE_BYTES
from tests.store.triggers.trigger_calls import ODD_JSON, handling, new_schedule

COMPUTED = NewDefinition(kind="computed", computed=True)


def test_a_schedule_is_due_from_its_time_on(db):
    made = db.schedule(next_fire_at=db.after(5_000))
    due = db.due()
    assert (due.now, due.schedules, due.next_due_ms) == (db.now(), (), 5_000)
    db.advance(4.999)
    due = db.due()
    assert (due.schedules, due.next_due_ms) == ((), 1)
    db.advance(0.001)
    due = db.due()
    assert (due.now, [met.trigger for met in due.schedules]) == (db.now(), [made])
    db.advance("1d")
    assert db.due_ids() == [made.id]


def test_due_brings_the_template_of_each(db):
    template = db.template(payload=ODD_JSON)
    plain, made = db.schedule(), db.schedule(template_id=template.id)
    listener = db.listener("paid", template_id=template.id)
    db.advance("1s")
    db.emit("paid")
    due = db.due()
    assert [(met.trigger.id, met.template) for met in due.schedules] == [(plain.id, None), (made.id, template)]
    assert [(met.trigger, met.template) for heard in due.events for met in heard.triggers] == [(listener, template)]
    db.change_template(template.id, kind="other")
    assert db.due().schedules[1].template.revision == 2


def test_the_soonest_come_first_up_to_the_limit(db):
    late, soon, mid = (db.schedule(next_fire_at=db.after(ms)) for ms in (3_000, 1_000, 2_000))
    db.advance("1m")
    assert db.due_ids() == [soon.id, mid.id, late.id]
    assert db.due_ids(limit=2) == [soon.id, mid.id]
    for each in (soon, mid, late):
        db.fire_now(each)
    assert db.due_ids() == []


def test_what_may_not_fire_is_not_due(db):
    db.schedule(enabled=False)
    db.schedule(next_fire_at=None)
    db.listener("paid")
    later = db.schedule(next_fire_at=db.after(1_000))
    due = db.due()
    assert (due.schedules, due.events, due.next_due_ms) == ((), (), 1_000)
    db.change_trigger(later.id, enabled=False)
    assert db.due().next_due_ms is None
    db.advance("1m")
    assert db.due_ids() == []


def test_schedules_of_the_code_are_due_to_those_who_declare_them(db):
    stored = db.schedule()
    mine, theirs = (new_schedule(name=name, next_fire_at=db.now()) for name in "ab")
    later = new_schedule(name="c", next_fire_at=db.after(1_000))
    db.declare(mine, theirs, later)
    assert db.due_ids() == [stored.id]
    assert set(db.due_ids(declared=[mine.id])) == {stored.id, mine.id}
    assert set(db.due_ids(declared=[theirs.id, mine.id])) == {stored.id, mine.id, theirs.id}
    db.change_trigger(stored.id, enabled=False)
    assert db.due(declared=[new_id()]).next_due_ms is None
    assert db.due(declared=[later.id]).next_due_ms == 1_000


def test_a_crowd_of_others_schedules_does_not_hide_mine(db):
    """The limit counts what the caller may fire."""
    db.declare(*(new_schedule(name=f"n{n}", next_fire_at=db.now()) for n in range(10)))
    db.declare(COMPUTED)
    for _ in range(10):
        db.schedule(kind="computed", next_fire_at=db.now())
    mine = db.schedule(next_fire_at=db.now())
    db.advance("1s")
    assert db.due_ids(limit=3) == [mine.id]


@pytest.mark.parametrize("by", ["kind", "template"])
def test_a_kind_that_is_computed_is_left_to_those_who_know_it(db, by):
    db.declare(COMPUTED, NewDefinition(kind="plain"))
    kinds = ["computed", "plain", "undefined"]
    made = {
        kind: db.schedule(template_id=db.template(kind=kind).id) if by == "template" else db.schedule(kind=kind)
        for kind in kinds
    }
    assert set(db.due_ids(kinds=["plain"])) == {made["plain"].id, made["undefined"].id}
    assert set(db.due_ids(kinds=["computed"])) == {each.id for each in made.values()}
    for kind in ("plain", "undefined"):
        db.delete_trigger(made[kind].id)
    db.change_trigger(made["computed"].id, next_fire_at=db.after(2_000))
    assert db.due().next_due_ms is None
    assert db.due(kinds=["computed"]).next_due_ms == 2_000


@pytest.mark.parametrize("by", ["kind", "template"])
def test_a_trigger_of_a_computed_kind_is_marked_for_those_who_do_not_know_it(db, by):
    db.declare(COMPUTED)
    computed = {"template_id": db.template(kind="computed").id} if by == "template" else {"kind": "computed"}
    first = db.listener("paid", kind="plain")
    second = db.listener("paid", **computed)
    disabled = db.listener("shipped", enabled=False, **computed)
    db.advance("1s")
    paid, shipped = db.emit("paid"), db.emit("shipped")

    def met(kinds):
        return {
            heard.event.id: {met.trigger.id: met.computed for met in heard.triggers}
            for heard in db.due(kinds=kinds).events
        }

    assert met(["plain"]) == {paid: {first.id: False, second.id: True}, shipped: {}}
    assert met(["computed"]) == {paid: {first.id: False, second.id: False}, shipped: {}}
    assert disabled.id not in met([])[shipped]


@pytest.mark.parametrize("by", ["kind", "template"])
def test_an_event_with_computed_kinds_only_is_left_to_those_who_know_them_for_ten_minutes(db, by):
    db.declare(COMPUTED)
    computed = {"template_id": db.template(kind="computed").id} if by == "template" else {"kind": "computed"}
    made = db.listener("paid", **computed)
    db.advance("1s")
    event = db.emit("paid")
    assert (db.heard(kinds=["plain"]), db.heard(kinds=["computed"])) == ({}, {event: [made.id]})
    db.advance(599.999)
    assert db.heard(kinds=["plain"]) == {}
    db.advance(0.001)
    (heard,) = db.due(kinds=["plain"]).events
    assert [(met.trigger.id, met.computed) for met in heard.triggers] == [(made.id, True)]


def test_a_crowd_of_others_events_does_not_hide_mine(db):
    db.declare(COMPUTED)
    db.listener("theirs", kind="computed")
    mine = db.listener("mine")
    db.advance("1s")
    for _ in range(10):
        db.emit("theirs")
    event = db.emit("mine")
    assert db.heard(limit=3) == {event: [mine.id]}


def test_finding_nothing_is_nothing(db):
    due = db.due(kinds=["a"], declared=[new_id()])
    assert (due.now, due.schedules, due.events, due.next_due_ms, due.defined) == (db.now(), (), (), None, "0/0")


def test_tenants_have_their_parts_of_what_is_due(db):
    """However many one has, and however long ago they were due."""
    for number in range(30):
        db.schedule(tenant="acme", next_fire_at=db.now(), name=f"n{number}")
    db.advance("1h")
    beta = [db.schedule(tenant="beta", next_fire_at=db.now()).id for _ in range(3)]
    default = db.schedule(next_fire_at=db.now()).id
    db.advance("1s")
    for _ in range(5):
        due = [met.trigger for met in db.due(limit=9).schedules]
        assert {each.id for each in due} >= {*beta, default}
        assert [each.tenant for each in due].count("acme") == 3


def test_tenants_have_their_parts_of_the_events(db):
    for _ in range(30):
        db.emit("paid", tenant="acme")
    beta = [db.emit("paid", tenant="beta") for _ in range(3)]
    default = db.emit("paid")
    for _ in range(5):
        due = [heard.event for heard in db.due(limit=9).events]
        assert {each.id for each in due} >= {*beta, default}
        assert [each.tenant for each in due].count("acme") == 3
        assert [each.id for each in due] == sorted(each.id for each in due)


def test_more_tenants_than_places_come_in_turn(db):
    for number in range(12):
        db.emit("paid", tenant=f"t{number}")
        db.schedule(tenant=f"t{number}", next_fire_at=db.now())
    db.advance("1s")
    looks = [db.due(limit=3) for _ in range(60)]
    assert all((len(due.events), len(due.schedules)) == (3, 3) for due in looks)
    assert len({heard.event.tenant for due in looks for heard in due.events}) == 12
    assert len({met.trigger.tenant for due in looks for met in due.schedules}) == 12


def test_large_events_are_given_a_few_at_a_time_and_every_tenants_first(db):
    large = {"text": "x" * (DUE_BYTES // 5 * 2)}
    listeners = [db.listener("paid", tenant=tenant).id for tenant in ("acme", "beta")]
    acme = [db.emit("paid", large, tenant="acme") for _ in range(4)]
    beta = db.emit("paid", {"n": 1}, tenant="beta")
    due = db.due()
    assert [(each.event.id, [met.trigger.id for met in each.triggers]) for each in due.events] == [
        (acme[0], listeners[:1]),
        (acme[1], listeners[:1]),
        (acme[2], listeners[:1]),
        (beta, listeners[1:]),
    ]
    assert due.more
    for event in (*acme[:3], beta):
        db.handle(handling(event))
    due = db.due()
    assert ([each.event.id for each in due.events], due.more) == (acme[3:], False)


def test_an_event_that_is_too_large_for_a_look_comes_alone(db):
    made = [db.emit("paid", {"text": "x" * DUE_BYTES}) for _ in range(2)]
    due = db.due()
    assert ([each.event.id for each in due.events], due.more) == (made[:1], True)
