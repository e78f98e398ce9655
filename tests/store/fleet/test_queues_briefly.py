"""Queues whose jobs are counted up to a bound: the same as all, as long as they are few."""

from __future__ import annotations

from headway.model.fleet import MOST_QUEUED
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.limit import Limit
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


def test_queues_of_some_names_are_told_as_among_all(db):
    acme = tenant_id("acme")
    for queue, priority in (("a", 1), ("a", 9), ("b", 1), ("c", 1)):
        db.enqueue_ids(2, queue=queue, priority=priority)
        db.enqueue_ids(3, queue=queue, priority=priority, tenant_id=acme, tenant="acme")
    db.enqueue_ids(2, queue="b", partition="p")
    db.enqueue_ids(1, queue="c", delay_ms=60_000)
    db.claim(queue="b")  # one is set aside
    db.pause("d")
    for tenant in (None, acme, DEFAULT_TENANT_ID):
        for most in (None, MOST_QUEUED):
            every = db.run(db.ops.queues(tenant_id=tenant, most=most))
            for names in ([], ["a"], ["b", "d"], ["none"], ["c", "b", "a"]):
                found = db.run(db.ops.queues(tenant_id=tenant, most=most, names=names))
                assert found == [each for each in every if each.name in names], (tenant, most, names)
    barely = {queue.name: queue for queue in db.run(db.ops.queues(tenant_id=None, most=1))}
    assert (barely["a"].counts["queued"], barely["b"].limited) == (1, 1)


def test_the_usage_of_several_limits_is_that_of_each(db):
    acme = tenant_id("acme")
    db.run(db.ops.set_limit(Limit(scope="kind", name="send", max_running=1), actor=None))
    db.enqueue_ids(3, kind="send", queue="mail", tenant_id=acme, tenant="acme")
    db.enqueue_ids(2, kind="other", queue="mail")
    assert len(db.claim(queue="mail")) == 3
    keys = ["q:mail", "k:send", "r:send", f"t:{acme}", "q:none"]
    found = db.run(db.ops.usages(keys))
    assert [(each.key, each.running, each.waiting) for each in found[:3]] == [
        ("q:mail", 3, 0), ("k:send", 1, 2), ("r:send", 0, 0)]  # fmt: skip
    assert found == [db.run(db.ops.usage(key)) for key in keys]
    assert db.run(db.ops.usages([])) == []
