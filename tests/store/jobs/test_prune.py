"""The contract of prune: old finished jobs of one status, by the retention of their kind, queue or status."""

from __future__ import annotations

import msgspec
import pytest

from headway.model.definition import NewDefinition
from headway.model.retention import FOREVER_MS
from headway.model.trigger import Declaration
from tests.tenant_ids import tenant_id

MINUTE_MS = 60_000


def ended(db, to, count=1):
    ids = []
    for _ in range(count):
        claim = db.start(queue="prune")
        db.settle(claim, to)
        ids.append(claim.id)
    return ids


@pytest.mark.parametrize("status", ["succeeded", "dead", "canceled", "failed"])
def test_prune_deletes_only_that_status(db, status):
    ids = {to: ended(db, to)[0] for to in ("succeeded", "dead", "canceled")}
    claim = db.start(queue="prune", delivery="at_most_once")
    db.settle(claim, "failed", delay_ms=3_600_000_000)
    ids["failed"] = claim.id
    kept = [db.enqueue().id, db.enqueue(delay_ms=3_600_000_000).id, db.start(queue="running").id]
    db.advance("1h")
    assert db.prune(status, older_than_ms=MINUTE_MS) == 1
    left = {job.id for job in db.find()}
    assert ids[status] not in left
    assert {*kept, *(job_id for to, job_id in ids.items() if to != status)} <= left


def test_prune_keeps_what_ended_recently(db):
    (old,) = ended(db, "succeeded")
    db.advance("30s")
    (recent,) = ended(db, "succeeded")
    db.advance("45s")
    assert db.prune("succeeded", older_than_ms=MINUTE_MS) == 1
    assert [job.id for job in db.find()] == [recent]
    assert db.attempts(old) == []
    assert db.sql("select count(*) from {attempts}") == [(1,)]


def test_prune_takes_the_oldest_first_up_to_its_limit(db):
    ids = []
    for _ in range(7):
        ids += ended(db, "dead")
        db.advance("1s")
    db.advance("1h")
    assert db.prune("dead", older_than_ms=MINUTE_MS, limit=3) == 3
    assert [job.id for job in db.find()] == list(reversed(ids[3:]))
    assert db.prune("dead", older_than_ms=MINUTE_MS, limit=3) == 3
    assert db.prune("dead", older_than_ms=MINUTE_MS, limit=3) == 1
    assert db.prune("dead", older_than_ms=MINUTE_MS, limit=3) == 0
    assert db.sql("select count(*) from {attempts}") == [(0,)]


def test_age_counts_from_the_end_not_from_the_beginning(db):
    claim = db.start()
    db.advance("10h")
    db.settle(claim, "succeeded")
    assert db.prune("succeeded", older_than_ms=MINUTE_MS) == 0


def test_a_retried_job_is_no_longer_old(db):
    (job_id,) = ended(db, "dead")
    db.advance("1h")
    db.retry(job_id)
    assert db.prune("dead", older_than_ms=MINUTE_MS) == 0
    assert db.status(job_id) == "queued"


def test_prune_reaches_every_tenant(db):
    for tenant in ("acme", "beta"):
        claim = db.start(tenant=tenant, tenant_id=tenant_id(tenant))
        db.settle(claim, "succeeded")
    db.advance("1h")
    assert db.prune("succeeded", older_than_ms=MINUTE_MS) == 2


def test_a_late_settle_of_a_pruned_job_is_lost(db):
    claim = db.start()
    db.settle(claim, "succeeded")
    db.advance("1h")
    db.prune("succeeded", older_than_ms=MINUTE_MS)
    assert db.settle(claim, "dead", error="late") == [(claim.id, 1)]
    assert db.find() == []


def test_prunable_counts_what_prune_would_delete(db, make):
    ended(db, "succeeded", 3)
    ended(db, "dead", 2)
    child = db.start(queue="prune")  # its machine is not there any more, so it may go
    db.settle(child, "succeeded")
    db.advance("1h")
    ended(db, "succeeded")
    kept = {"succeeded": MINUTE_MS, "canceled": MINUTE_MS, "dead": 2 * 60 * MINUTE_MS, "events": 0, "failed_events": 0}
    counted = db.run(db.ops.prunable({**kept, "fires": 0}))
    assert counted == {"succeeded": 4, "canceled": 0, "dead": 0, "events": 0, "failed_events": 0, "fires": 0}
    assert db.prune("succeeded", older_than_ms=MINUTE_MS) == 4
    assert db.run(db.ops.prunable({"succeeded": MINUTE_MS, "dead": MINUTE_MS})) == {"succeeded": 0, "dead": 2}


def test_the_oldest_of_the_audit_is_pruned_and_the_rest_stays(db):
    old = db.enqueue_ids(3)
    db.cancel(*old, actor="ann")
    assert db.run(db.ops.seal_audit(limit=10)) == 3
    db.pause("mail", actor="ann")
    assert db.run(db.ops.seal_audit(limit=10)) == 1
    db.advance("2h")
    new = db.enqueue().id
    db.cancel(new, actor="ann")
    kept = {"audit": 60 * MINUTE_MS}
    assert db.run(db.ops.prunable(kept)) == {"audit": 4}
    assert [db.run(db.ops.prune_audit(older_than_ms=60 * MINUTE_MS, limit=3)) for _ in range(3)] == [3, 1, 0]
    assert db.run(db.ops.prunable(kept)) == {"audit": 0}
    assert (db.audit(old[0]), [entry.action for entry in db.audit(new)]) == ([], ["cancel"])


def end_all(db, *lines, to="succeeded"):
    """One finished job of each kind and queue."""
    for kind, queue in lines:
        db.settle(db.start(kind=kind, queue=queue), to)


def lines_left(db):
    return sorted((job.kind, job.queue) for job in db.find(limit=100))


def keep_kind(db, kind, **ages):
    policy = msgspec.json.encode({"retention": ages}).decode()
    db.run(db.ops.declare(Declaration(definitions=(NewDefinition(kind=kind, policy=policy),))))


def test_a_kinds_retention_comes_before_its_queues_and_that_before_the_default(db):
    lines = [(kind, queue) for kind in ("audit", "mail", "note") for queue in ("default", "slow")]
    end_all(db, *lines)
    end_all(db, ("audit", "slow"), ("mail", "slow"), to="dead")
    keep_kind(db, "audit", succeeded=FOREVER_MS)
    keep_kind(db, "note", succeeded=2 * MINUTE_MS)
    db.run(db.ops.set_retention("slow", {"succeeded": 10 * MINUTE_MS, "dead": FOREVER_MS}, actor="ann"))
    pruned = []
    for _ in range(4):
        counted = db.run(db.ops.prunable({"succeeded": 5 * MINUTE_MS, "dead": 5 * MINUTE_MS}))
        found = {status: db.prune(status, older_than_ms=5 * MINUTE_MS) for status in ("succeeded", "dead")}
        assert counted == found
        pruned.append(found["succeeded"])
        db.advance("3m")
    # after 0, 3, 6 and 9 minutes: nothing, both notes, the mail of the default queue, nothing
    assert pruned == [0, 2, 1, 0]
    db.advance("1h")
    assert db.prune("succeeded", older_than_ms=5 * MINUTE_MS) == 1
    assert db.prune("dead", older_than_ms=5 * MINUTE_MS) == 0
    kept = [("audit", "default"), ("audit", "slow")]
    assert lines_left(db) == sorted([*kept, ("audit", "slow"), ("mail", "slow")])
    db.run(db.ops.set_retention("slow", None, actor="ann"))
    assert db.prune("dead", older_than_ms=5 * MINUTE_MS) == 2
    assert lines_left(db) == kept
    assert [entry.detail for entry in db.audit_log(action="retention")] == [
        "slow: default",
        f"slow: succeeded 600000 ms, dead {FOREVER_MS} ms",
    ]


def test_a_queue_shows_its_retention(db):
    db.run(db.ops.set_retention("slow", {"dead": 1000}, actor=None))
    assert (db.queues()["slow"].retention, db.queues()["slow"].paused) == ({"dead": 1000}, False)
    db.run(db.ops.set_retention("slow", None, actor=None))
    assert "slow" not in db.queues() or db.queues()["slow"].retention is None


def test_prune_stops_at_its_limit_whatever_the_kinds_are(db):
    end_all(db, *((f"kind-{n}", f"queue-{n % 2}") for n in range(7)))
    db.advance("1h")
    assert [db.prune("succeeded", older_than_ms=MINUTE_MS, limit=3) for _ in range(4)] == [3, 3, 1, 0]
