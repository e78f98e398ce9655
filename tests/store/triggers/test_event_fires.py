"""An event and the triggers it meets: who fires for it, who has seen it, and when it is given up."""

from __future__ import annotations

from headway.model.definition import NewDefinition
from tests.store.triggers.trigger_calls import (
    handling,
    new_fire,
    unwanted,
)


def test_an_event_for_the_computed_kinds_of_two_pools_is_handled_by_both(db):
    """Neither knows the other's kind; each fires its own, whoever comes first."""
    db.declare(*(NewDefinition(kind=kind, computed=True) for kind in ("red", "blue")))
    red, blue, plain = (db.listener("paid", kind=kind) for kind in ("red", "blue", "plain"))
    db.advance("1s")
    event = db.emit("paid")

    def given(kind):
        return {met.trigger.id: met.computed for heard in db.due(kinds=[kind]).events for met in heard.triggers}

    assert given("red") == {red.id: False, blue.id: True, plain.id: False}
    fires = db.handle(handling(event, red, plain, left=True))
    assert [each.status for each in fires] == ["enqueued"] * 2
    after = db.event(event)
    assert (after.status, after.handled_at, after.error) == ("pending", None, None)
    assert given("red") == {}
    assert given("blue") == {blue.id: False}
    db.handle(handling(event, blue))
    assert (db.event(event).status, len(db.find()), len(db.fires())) == ("handled", 3, 3)


def test_an_event_that_nobody_can_fire_for_is_given_up_after_ten_minutes(db):
    db.declare(NewDefinition(kind="red", computed=True))
    red, plain = db.listener("paid", kind="red"), db.listener("paid", kind="plain")
    db.advance("1s")
    event = db.emit("paid")
    db.handle(handling(event, plain, left=True))
    assert db.heard() == {}
    db.advance("10m")
    assert db.heard() == {event: [red.id]}
    db.handle(handling(event, new_fire(red, error="nobody knows red")))
    assert (db.event(event).status, db.event(event).error) == ("failed", f"{red.name}: nobody knows red")
    assert db.retry_events(event) == [event]
    assert db.heard(kinds=["red"]) == {event: [red.id]}


def test_an_event_that_is_left_fails_later_by_what_failed_before(db):
    one, two, three = (db.listener("paid", name=name) for name in ("one", "two", "three"))
    db.advance("1s")
    event = db.emit("paid")
    db.handle(handling(event, new_fire(one, error="boom"), left=True))
    assert (db.event(event).status, db.event(event).error) == ("pending", None)
    assert db.trigger(one.id).error == "boom"
    assert db.heard() == {event: [two.id, three.id]}
    db.handle(handling(event, two, left=True))
    db.handle(handling(event, new_fire(three, error="bang")))
    after = db.event(event)
    assert (after.status, after.error, after.handled_at) == ("failed", "one: boom\nthree: bang", db.now())
    assert db.retry_events(event) == [event]
    assert db.heard() == {event: [one.id, three.id]}
    db.handle(handling(event, one, left=True))
    db.handle(handling(event, three))
    assert (db.event(event).status, db.event(event).error) == ("handled", None)


def test_a_trigger_that_does_not_want_an_event_has_seen_it(db):
    wants, not_ = db.listener("paid"), db.listener("paid")
    db.advance("1s")
    event = db.emit("paid")
    skipped = unwanted(not_)
    (fire,) = db.handle(handling(event, skipped, left=True))
    assert (fire.id, fire.status, fire.job_id, fire.error) == (skipped.id, "skipped", None, None)
    assert db.trigger(not_.id) == not_
    assert db.heard() == {event: [wants.id]}
    assert [each.trigger_id for each in db.handle(handling(event, wants, not_))] == [wants.id]
    assert (db.event(event).status, len(db.find())) == ("handled", 1)
