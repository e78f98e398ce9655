"""Fair queues: tenants in turn whatever their backlogs; inside a tenant, the usual order."""

from __future__ import annotations

import pytest

from headway.model.limit import EVERY_TENANT
from tests.tenant_ids import tenant_id

# in the order in which a queue takes them
A, B, C = sorted(("acme", "beta", "core"), key=tenant_id)


@pytest.fixture
def fair(db):
    db.set_fair()
    return db


def put(db, tenant, count, **options):
    return [db.enqueue(tenant=tenant, **options).id for _ in range(count)]


def ids_of(claims):
    return [claim.id for claim in claims]


def tenants(claims):
    names = {tenant_id(name): name for name in (A, B, C)}
    return [names[claim.tenant_id] for claim in claims]


def share(claims):
    """How many each tenant got."""
    names = tenants(claims)
    return {name: names.count(name) for name in names}


def test_a_usual_queue_minds_no_tenants(db):
    backlog, one = put(db, A, 5), put(db, B, 1)
    assert ids_of(db.claim(limit=3)) == backlog[:3]
    assert ids_of(db.claim()) == [*backlog[3:], *one]


def test_a_claim_takes_one_of_each_tenant_per_round(fair):
    put(fair, A, 10), put(fair, B, 2), put(fair, C, 3)
    assert share(fair.claim(limit=9)) == {A: 4, B: 2, C: 3}


def test_the_next_claim_goes_on_where_the_last_one_stopped(fair):
    for name in (C, A, B):
        put(fair, name, 4)
    turns = [name for _ in range(6) for name in tenants(fair.claim(limit=1))]
    assert turns == [A, B, C, A, B, C]
    assert share(fair.claim(limit=2)) == {A: 1, B: 1}
    assert tenants(fair.claim(limit=1)) == [C]


def test_inside_a_tenant_order_is_the_usual_one(fair):
    late = [fair.enqueue(tenant=A, priority=priority).id for priority in (100, 1, 100, 50)]
    other = put(fair, B, 4)
    claims = fair.claim(limit=8)
    assert ids_of(c for c in claims if c.tenant_id == tenant_id(A)) == [late[1], late[3], late[0], late[2]]
    assert ids_of(c for c in claims if c.tenant_id == tenant_id(B)) == other


def test_a_priority_does_not_reach_over_tenants(fair):
    put(fair, A, 3, priority=1)
    put(fair, B, 3, priority=100)
    assert share(fair.claim(limit=2)) == {A: 1, B: 1}


def test_a_claim_takes_what_there_is_when_only_one_tenant_has_work(fair):
    ids = put(fair, A, 7)
    assert ids_of(fair.claim(limit=5)) == ids[:5]
    assert ids_of(fair.claim(limit=5)) == ids[5:]
    assert fair.claim() == []


def test_a_newcomer_has_its_turn_at_once(fair):
    put(fair, A, 50)
    fair.claim(limit=5)
    put(fair, C, 1)
    assert C in tenants(fair.claim(limit=2))


def test_a_tenant_that_comes_back_has_no_credit(fair):
    put(fair, A, 6), put(fair, B, 1)
    fair.claim(limit=4)
    put(fair, B, 3)
    assert share(fair.claim(limit=4)) == {A: 2, B: 2}


def test_what_waited_before_the_queue_became_fair_is_taken_in_turn_too(db):
    put(db, A, 5), put(db, B, 2)
    db.set_fair()
    assert share(db.claim(limit=4)) == {A: 2, B: 2}


def test_a_queue_can_be_a_usual_one_again(fair):
    backlog = put(fair, A, 3)
    one = put(fair, B, 1)
    fair.set_fair(fair=False)
    late = put(fair, C, 1)
    assert fair.queues()["default"].fair is False
    assert ids_of(fair.claim()) == [*backlog, *one, *late]


def test_only_the_queue_that_was_named_is_fair(fair):
    backlog = put(fair, A, 3, queue="other")
    put(fair, B, 1, queue="other")
    assert ids_of(fair.claim(queue="other", limit=3)) == backlog
    assert fair.queues()["default"].fair is True
    assert fair.queues()["other"].fair is False


@pytest.mark.parametrize(
    "way", ["enqueue", "delay", "retry", "try again", "release", "change", "train", "after", "failed"]
)
def test_however_a_job_gets_into_a_fair_queue_it_is_taken_in_turn(fair, way):
    """Every way into `queued` must know that the queue is fair."""
    db = fair
    match way:
        case "enqueue":
            put(db, B, 1)
        case "delay":
            put(db, B, 1, delay_ms=1_000)
            db.advance("2s")
            db.promote()
        case "retry":
            db.finish(db.start(tenant=B))
            db.retry(*(job.id for job in db.find()))
        case "try again":
            db.settle(db.start(tenant=B), "scheduled", charge=1)
        case "release":
            db.release(db.start(tenant=B))
        case "change":
            (job_id,) = put(db, B, 1, queue="other")
            db.change(job_id, queue="default")
        case "train":
            put(db, B, 1, train="t", queue="other")
            put(db, B, 1, train="t")
            db.drain("other")
        case "after":
            parent = db.start(tenant=B, queue="other")
            put(db, B, 1, after=(parent.id,))
            db.finish(parent)
        case "failed":
            db.settle(db.start(tenant=B, delivery="at_most_once"), "failed", charge=1)
    db.process_arrivals()
    put(db, A, 5, priority=1)
    put(db, C, 5, priority=1)
    assert share(db.claim(limit=3)) == {A: 1, B: 1, C: 1}


def test_a_fair_queue_can_be_paused(fair):
    ids = put(fair, A, 1)
    fair.pause()
    assert fair.claim() == []
    fair.resume()
    assert ids_of(fair.claim()) == ids


def test_a_fair_queue_minds_limits(fair):
    fair.limit("tenant", EVERY_TENANT, max_running=2)
    fair.limit("queue", "default", max_running=5)
    put(fair, A, 9), put(fair, B, 9), put(fair, C, 9)
    claims = fair.claim()
    assert len(claims) == 5
    assert max(share(claims).values()) == 2
    fair.finish(*claims)
    assert len(fair.claim()) == 5


def test_a_tenant_that_is_limited_out_does_not_stop_the_others(fair):
    fair.limit("tenant", tenant_id(A), max_running=1)
    put(fair, A, 20), put(fair, B, 4)
    names = tenants(fair.claim(limit=4)) + tenants(fair.claim(limit=4))
    assert names.count(A) == 1
    assert names.count(B) == 4


def test_partitions_of_a_fair_queue_run_one_at_a_time(fair):
    busy = put(fair, A, 3, partition="p")
    put(fair, B, 1, partition="p")
    claims = fair.claim()
    assert share(claims) == {A: 1, B: 1}
    fair.finish(*claims)
    assert fair.drain() == busy[1:]


def test_a_fair_queue_loses_nothing(fair):
    ids = [job_id for n in range(30) for job_id in put(fair, (A, A, A, B, C)[n % 5], 1, priority=100 - n % 7)]
    assert sorted(fair.drain(limit=4)) == sorted(ids)


def test_setting_it_is_audited(db):
    db.set_fair("mail", actor="ann")
    assert db.sql("select actor from {audit} where job_id is null") == [("ann",)]
