"""Triggers on patterns: `order.*` is every event below order, `*` every event of the application's."""

from __future__ import annotations

import pytest

from tests.store.triggers.trigger_calls import new_event

NAMES = ("order.paid", "order.paid.late", "order", "orders.paid", "a", "order.paid.x.y", "_.z")
PATTERNS = {
    "order.*": {"order.paid", "order.paid.late", "order.paid.x.y"},
    "order.paid.*": {"order.paid.late", "order.paid.x.y"},
    "order.paid": {"order.paid"},
    "*": set(NAMES),
    "_.*": {"_.z"},
    "orde.*": set(),
}


@pytest.mark.parametrize("store", ["sqlite", "sqlite-stdlib", "postgres"], indirect=True)
def test_a_pattern_meets_the_events_below_it(db):
    listeners = {db.listener(pattern, tenant="acme").id: pattern for pattern in PATTERNS}
    db.listener("*", tenant="beta")
    db.advance("1s")
    for name in NAMES:
        db.run(db.ops.emit([new_event(name, tenant="acme")]))
    met = {pattern: set() for pattern in PATTERNS}
    for pending in db.due().events:
        for each in pending.triggers:
            met[listeners[each.trigger.id]].add(pending.event.name)
    assert met == PATTERNS


def test_a_pattern_of_the_engines_events_hears_every_end_and_a_star_none(db):
    db.listener("*")
    job = db.enqueue()
    db.cancel(job.id)
    assert db.events() == []
    ends = db.listener("headway.job.*")
    db.advance("1s")
    other = db.enqueue()
    db.cancel(other.id)
    (pending,) = db.due().events
    assert (pending.event.name, pending.event.job_id) == ("headway.job.canceled", other.id)
    assert [each.trigger.id for each in pending.triggers] == [ends.id]
