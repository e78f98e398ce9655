"""Fair queues: where two tenants wait, they take turns, whatever their backlogs; inside a tenant, the usual order."""

from __future__ import annotations

from contextlib import closing

import pytest

from headway.model.limit import EVERY_TENANT
from tests.tenant_ids import tenant_id

# in the order in which a queue takes them
A, B, C = sorted(("acme", "beta", "core"), key=tenant_id)


@pytest.fixture
def fair(db):
    """A queue in which a claim has met a tenant: on PostgreSQL, the next one takes turns."""
    share_queue(db)
    return db


def share_queue(db, queue="default", tenant=A):
    put(db, tenant, 2, queue=queue, priority=1)
    for _ in range(2):
        db.finish(*db.claim(queue=queue, limit=1))


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


def test_where_tenants_do_not_take_turns_the_order_is_that_of_all_jobs(fair):
    fair.set_fair(fair=False)
    backlog, one = put(fair, A, 5), put(fair, B, 1)
    assert ids_of(fair.claim(limit=3)) == backlog[:3]
    assert ids_of(fair.claim()) == [*backlog[3:], *one]


def test_tenants_take_turns_though_nobody_asked_for_it(db):
    backlog = put(db, A, 3, priority=1)
    put(db, B, 3)
    assert backlog[0] in ids_of(db.claim(limit=1))
    assert share(db.claim(limit=4)) == {A: 2, B: 2}


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


def test_what_waited_while_tenants_took_no_turns_is_taken_in_turn_too(fair):
    fair.set_fair(fair=False)
    put(fair, A, 5), put(fair, B, 2)
    fair.set_fair()
    assert share(fair.claim(limit=4)) == {A: 2, B: 2}


def test_the_default_tenant_takes_turns_with_all_that_it_has(db):
    """Its jobs get into the index of tenants when another tenant's come: in whatever status they are then."""
    waiting = db.parked("paid")
    db.limit("kind", "rare", max_running=1)
    rare, limited = db.start(kind="rare"), db.enqueue(kind="rare").id
    lost = db.start()
    locomotive, car = (db.enqueue(train="t").id for _ in range(2))
    late = db.enqueue(delay_ms=1_000).id
    put(db, A, 2, priority=1)
    db.claim(limit=1)
    db.finish(rare)
    db.settle(lost, "scheduled", charge=1)
    db.signal(waiting, "paid")
    db.advance("1h")
    db.promote()
    db.process_arrivals()
    put(db, A, 50, priority=1), put(db, B, 50, priority=1)
    mine = {waiting, limited, lost.id, locomotive, late}
    served = [claim for _ in range(6) for claim in db.claim(limit=3)]
    assert mine <= {claim.id for claim in served}
    db.finish(*served)
    assert car in ids_of(db.claim(limit=3))


def test_a_queue_can_be_a_usual_one_again(fair):
    backlog = put(fair, A, 3)
    one = put(fair, B, 1)
    fair.set_fair(fair=False)
    late = put(fair, C, 1)
    assert fair.queues()["default"].fair is False
    assert ids_of(fair.claim()) == [*backlog, *one, *late]


def test_only_in_the_queue_that_was_named_tenants_take_no_turns(fair):
    share_queue(fair, "other")
    fair.set_fair(fair=False)
    put(fair, A, 3, queue="other")
    put(fair, B, 1, queue="other")
    assert share(fair.claim(queue="other", limit=2)) == {A: 1, B: 1}
    assert fair.queues()["default"].fair is False
    assert fair.queues()["other"].fair is True


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


def test_a_queue_that_only_the_default_tenant_uses_pays_nothing(db):
    db.enqueue_ids(5)
    db.claim(limit=2)
    put(db, A, 1, queue="other")
    db.claim(queue="other")
    db.claim(limit=1)
    assert db.sql("select count(*) from {jobs} where queue = 'default' and fair is true") == [(0,)]
    assert db.sql("select count(*) from {queues} where name = 'default'") == [(0,)]


def test_a_thousand_jobs_of_one_tenant_do_not_keep_another_from_its_own(db):
    """Neither from a worker that takes its jobs alone, nor from one that takes everybody's."""
    for tenant in (A, "default"):
        db.enqueue_ids(1_500, tenant=tenant, priority=1)
    mine = [db.enqueue(tenant=B).id for _ in range(2)]
    worker = db.worker()
    assert ids_of(db.claim_once("a", worker, limit=1, tenant_id=tenant_id(B))) == mine[:1]
    assert mine[1] in [job_id for limit in (1, 1, 3) for job_id in ids_of(db.claim(limit=limit))]


def test_the_default_tenants_own_worker_passes_over_a_flood(db):
    share_queue(db)
    db.enqueue_ids(1_500, tenant=A, priority=1)
    mine = db.enqueue().id
    assert ids_of(db.claim_once("a", db.worker(), limit=1, tenant_id=tenant_id("default"))) == [mine]


def test_a_large_backlog_is_marked_in_parts(db):
    """10,000 at a time: no claim takes longer than that."""
    db.enqueue_ids(10_500, priority=50)
    put(db, A, 9, priority=1)
    marked = []
    for _ in range(6):
        db.claim(limit=1)
        ((count,),) = db.sql("select count(*) from {jobs} where fair is true and tenant_id = ?", tenant_id("default"))
        marked.append(count)
    assert 10_000 in marked
    assert marked[-1] == 10_500


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_a_job_whose_enqueue_could_not_know_takes_its_turn(db, isolation):
    """It was under way when a claim met the first job of another tenant, and is committed long after."""
    if db.dialect == "sqlite":
        return  # writers take turns there
    with closing(db.connect()) as user:
        user.execute(f"begin isolation level {isolation}")
        user.execute("select pg_current_xact_id()")
        if isolation == "read committed":
            ((job_id,),) = user.execute("select job_id from headway.enqueue('mail')").fetchall()
        share_queue(db)
        if isolation == "repeatable read":
            ((job_id,),) = user.execute("select job_id from headway.enqueue('mail')").fetchall()
        put(db, A, 9, priority=1), put(db, B, 9, priority=1)
        assert share(db.claim(limit=2)).keys() <= {A, B}
        user.execute("commit")
    served = [claim.id for _ in range(3) for claim in db.claim(limit=3)]
    assert str(job_id) in served


def test_a_job_that_ended_before_tenants_shared_the_queue_takes_turns_when_it_is_retried(db):
    claim = db.start(delivery="at_most_once")
    db.settle(claim, "failed", charge=1)
    db.cancel(*(job.id for job in db.find() if job.status == "queued"))
    ended = next(job.id for job in db.find() if job.status == "canceled")
    share_queue(db)
    put(db, A, 9, priority=1), put(db, B, 9, priority=1)
    (again,) = db.retry(ended).values()
    db.process_arrivals()
    assert again in [claim.id for _ in range(2) for claim in db.claim(limit=3)]
