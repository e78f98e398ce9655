"""Queues with their queued jobs alone: the same as with all, as long as they are few."""

from __future__ import annotations

from tests.tenant_ids import tenant_id


def test_queued_jobs_alone_are_counted_as_with_the_others(db):
    acme = tenant_id("acme")
    db.enqueue_ids(3, queue="a")
    db.advance(1)
    db.enqueue_ids(2, queue="a", tenant_id=acme)
    db.enqueue_ids(2, queue="b", partition="p")
    db.enqueue_ids(1, queue="c", delay_ms=60_000)
    assert len(db.claim(queue="b")) == 1  # the other is set aside
    db.pause("d")
    for tenant in (None, acme, tenant_id("other")):
        every, queued = (
            db.run(db.ops.queues(tenant_id=tenant, queued_only=queued_only)) for queued_only in (False, True)
        )
        for queue in every:
            brief = next((each for each in queued if each.name == queue.name), None)
            counts = {"queued": queue.counts["queued"]} if "queued" in queue.counts else {}
            if brief is None:
                assert counts == {}
            else:
                assert (brief.counts, brief.limited, brief.oldest_queued_at) == (
                    counts,
                    queue.limited,
                    queue.oldest_queued_at,
                )
                assert (brief.paused, brief.workers) == (queue.paused, queue.workers)
        assert {each.name for each in queued} <= {each.name for each in every}
    limited = {queue.name: queue.limited for queue in db.run(db.ops.queues(tenant_id=None, queued_only=True))}
    assert (limited["a"], limited["b"]) == (0, 1)
    condition = db.run(db.ops.condition())
    assert (condition.ids_used is None) == (db.dialect == "sqlite")
