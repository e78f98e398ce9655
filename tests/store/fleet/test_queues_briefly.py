"""Queues whose jobs are counted up to a bound: the same as all, as long as they are few."""

from __future__ import annotations

from headway.model.fleet import MOST_QUEUED
from tests.tenant_ids import tenant_id


def test_jobs_below_the_bound_are_counted_as_without_one(db):
    acme = tenant_id("acme")
    db.enqueue_ids(3, queue="a")
    db.advance(1)
    db.enqueue_ids(2, queue="a", tenant_id=acme)
    db.enqueue_ids(2, queue="b", partition="p")
    db.enqueue_ids(1, queue="c", delay_ms=60_000)
    assert len(db.claim(queue="b")) == 1  # the other is set aside
    db.pause("d")
    for tenant in (None, acme, tenant_id("other")):
        every, some = (db.run(db.ops.queues(tenant_id=tenant, most=most)) for most in (None, MOST_QUEUED))
        assert some == every
    limited = {queue.name: queue.limited for queue in db.run(db.ops.queues(tenant_id=None, most=MOST_QUEUED))}
    assert (limited["a"], limited["b"]) == (0, 1)
    condition = db.run(db.ops.condition())
    assert (condition.ids_used is None) == (db.dialect == "sqlite")
