"""`claim_once`: a repeated claim gives the same jobs; a tenant's claim takes its own."""

from __future__ import annotations

from typing import Any

from tests.tenant_ids import tenant_id


def _ids(claims: Any) -> list[str]:
    return [claim.id for claim in claims]


def test_a_repeated_claim_gives_what_the_worker_still_runs(db: Any, make: Any) -> None:
    worker, other = db.worker(), db.worker()
    db.enqueue_ids(3)
    db.run(db.ops.enqueue([make.machine()]))
    mail = db.enqueue_ids(2, queue="mail")
    first = db.claim_once("a", worker, "mail", "default", limit=5)
    assert _ids(first)[:2] == mail
    again = db.claim_once("a", worker, "mail", "default", limit=5)
    assert again == first
    assert db.claim_once("a", other, "mail", "default", limit=5) != first
    # what it does not run any more is not given again
    db.settle(first[0], "succeeded", worker)
    db.release(first[1])
    (stolen,) = db.claim(other, "mail", 1)
    assert (stolen.id, stolen.fence) == (first[1].id, 2)
    assert db.claim_once("a", worker, "mail", "default", limit=5) == first[2:]
    # an empty answer is nothing to remember
    assert db.claim_once("b", worker, "mail") == []
    job = db.enqueue(queue="mail")
    assert _ids(db.claim_once("b", worker, "mail")) == [job.id]
    # forgotten after ten minutes
    db.advance("11m")
    db.enqueue()
    assert len(db.claim_once("c", worker)) == 1
    assert db.sql("select claim_id from {worker_claims} where worker_id = ?", worker) == [("c",)]


def test_a_repeated_claim_does_not_give_what_its_worker_claimed_anew(db: Any) -> None:
    worker = db.worker()
    job = db.enqueue()
    (first,) = db.claim_once("a", worker)
    db.release(first)
    (anew,) = db.claim_once("b", worker)
    assert (anew.id, anew.fence) == (job.id, 2)
    # what was heard of claim b may have been started: claim a must not start it once more
    assert db.claim_once("a", worker) == []
    assert db.claim_once("b", worker) == [anew]


def test_a_claim_renews_the_lease_of_an_idle_worker_only(db: Any) -> None:
    worker = db.worker(lease_ms=60_000)

    def lease() -> float:
        return (db.run(db.ops.worker(worker)).lease_expires_at - db.now()).total_seconds()

    db.advance("20s")
    assert db.claim_once("a", worker) == []
    assert lease() == 40  # not worth a write yet
    db.advance("20s")
    assert db.claim_once("b", worker) == []
    assert lease() == 60
    db.enqueue_ids(2)
    assert len(db.claim_once("c", worker, limit=1)) == 1
    db.advance("40s")
    assert len(db.claim_once("d", worker)) == 1
    assert lease() == 20
    assert db.run(db.ops.worker(db.home())).id == db.home()


def test_a_tenants_claim_takes_its_own_in_order(db: Any) -> None:
    worker, acme = db.worker(), tenant_id("acme")
    db.enqueue_ids(3)
    mine = db.enqueue_ids(2, tenant="acme")
    urgent = db.enqueue(tenant="acme", priority=1).id
    apart = [db.enqueue(tenant="acme", partition="p").id for _ in range(2)]
    db.limit("kind", "rare", max_running=1)
    rare = db.enqueue_ids(2, tenant="acme", kind="rare")
    claims = db.claim_once("a", worker, limit=2, tenant_id=acme)
    assert _ids(claims) == [urgent, mine[0]]
    # partitions and limits hold
    assert _ids(db.claim_once("b", worker, limit=9, tenant_id=acme)) == [mine[1], apart[0], rare[0]]
    assert db.limited_by(rare[1]) != [None]
    assert db.claim_once("c", worker, limit=9, tenant_id=acme) == []
    assert db.claim_once("d", worker, limit=9, tenant_id=tenant_id("other")) == []
    # a fair queue: by the index of its tenants, and the turns of the others stay as they are
    db.set_fair()
    more = db.enqueue_ids(2, tenant="acme")
    db.claim_once("e", worker, limit=1)  # it is ready to be claimed from fairly
    assert _ids(db.claim_once("f", worker, limit=9, tenant_id=acme))[-1] == more[1]
    db.pause()
    db.enqueue(tenant="acme")
    assert db.claim_once("g", worker, limit=9, tenant_id=acme) == []
