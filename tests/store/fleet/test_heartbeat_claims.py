"""`heartbeat_claims`: a worker names the claims that it still has, and learns what is lost or forgotten."""

from __future__ import annotations

from typing import Any

from headway.clock import from_micros


def _keys(claims: Any) -> list[tuple[str, int]]:
    return [(claim.id, claim.fence) for claim in claims]


def test_a_complete_list(db: Any) -> None:
    worker = db.worker(lease_ms=60_000)
    db.enqueue_ids(3)
    db.enqueue(delivery="at_most_once")
    one, two, three, once = db.claim(worker)
    db.cancel(two.id)
    db.advance("10s")
    said = db.heartbeat_claims(worker, one, two)
    # the others were claimed after its last heartbeat: their answer may be under way
    assert (said.canceling, said.lost, said.forgotten) == (_keys([two]), [], [])
    assert from_micros(said.lease_expires_at) == db.after(60_000)
    assert db.run(db.ops.worker(worker)).running == 2
    db.advance("10s")
    db.settle(one, "succeeded", worker)
    said = db.heartbeat_claims(worker, one, two)
    assert said.lost == _keys([one])
    assert sorted((each.id, each.fence, each.delivery) for each in said.forgotten) == sorted(
        [(three.id, 1, "at_least_once"), (once.id, 1, "at_most_once")]
    )
    # another worker's claims are not its own
    assert db.heartbeat_claims(db.home(), two).lost == _keys([two])


def test_an_execution_is_named_by_its_fence(db: Any) -> None:
    worker = db.worker()
    db.enqueue()
    (old,) = db.claim(worker)
    db.release(old)
    (new,) = db.claim(worker)
    assert db.heartbeat_claims(worker, old).lost == _keys([old])
    assert db.heartbeat_claims(worker, new).lost == []


def test_one_job_renews_the_lease_of_a_worker_that_runs_nothing_else(db: Any) -> None:
    worker = db.worker(lease_ms=60_000)
    db.enqueue_ids(2)
    one, two = db.claim(worker)
    db.advance("10s")
    said = db.heartbeat_claims(worker, one, complete=False)
    assert (said.forgotten, from_micros(said.lease_expires_at)) == ([], db.after(50_000))
    db.settle(two, "succeeded", worker)
    said = db.heartbeat_claims(worker, one, complete=False)
    assert from_micros(said.lease_expires_at) == db.after(60_000)


def test_a_worker_that_is_not_there(db: Any) -> None:
    worker = db.worker()
    db.unregister(worker)
    assert db.heartbeat_claims(worker) is None
    assert db.run(db.ops.worker(worker)) is None
