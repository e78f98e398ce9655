"""Invariant 4, partitions: at most one running step per key, claimed in order, and no other key waits for it."""

from __future__ import annotations

import pytest

from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.limit import partition_key
from tests.tenant_ids import tenant_id

ACME = tenant_id("acme")
KEY = partition_key(DEFAULT_TENANT_ID, "p")


def parts(db, count=3, **options):
    return [db.enqueue(**{"partition": "p", **options}).id for _ in range(count)]


def ids_of(claims):
    return [claim.id for claim in claims]


def test_a_claim_takes_one_job_of_a_partition(db):
    ids = parts(db)
    assert ids_of(db.claim()) == ids[:1]
    assert db.claim() == []
    assert db.statuses(*ids) == ["running", "queued", "queued"]


def test_what_a_claim_passes_over_waits_aside(db):
    ids = parts(db)
    db.claim()
    assert db.limited_by(*ids) == [None, KEY, KEY]
    assert (db.usage(KEY).key, db.usage(KEY).running, db.usage(KEY).waiting) == (KEY, 1, 2)


def test_each_tenant_has_its_own_partitions(db):
    mine, theirs = parts(db, 1), [job.id for job in (db.enqueue(partition="p", tenant="acme") for _ in range(2))]
    first = ids_of(db.claim(limit=1))  # it runs when the other tenant's is claimed
    assert sorted(first + ids_of(db.claim())) == sorted([*mine, theirs[0]])
    assert db.claim() == []


def test_each_tenant_has_its_own_concurrency_keys(db):
    one = {"concurrency": 1, "concurrency_key": "k"}
    mine, theirs = db.enqueue(**one).id, [db.enqueue(**one, tenant="acme").id for _ in range(2)]
    first = ids_of(db.claim(limit=1))
    assert sorted(first + ids_of(db.claim())) == sorted([mine, theirs[0]])
    assert db.claim() == []


def test_other_keys_are_not_delayed(db):
    busy = parts(db, 4)
    other, plain = db.enqueue(partition="q").id, db.enqueue().id
    assert ids_of(db.claim(limit=3)) == [busy[0], other, plain]


def test_a_long_backlog_of_one_key_hides_nobody_for_long(db):
    """A claim looks a bounded way ahead; what it passed over stays out of the way of the next."""
    busy = db.enqueue_ids(300, partition="p", priority=1)
    other = db.enqueue(partition="q").id
    claimed = []
    for _ in range(40):
        claimed += ids_of(db.claim(limit=10))
    assert claimed == [busy[0], other]


def test_jobs_of_a_partition_run_in_order(db):
    ids = [db.enqueue(partition="p", priority=priority).id for priority in (100, 5, 100, 1)]
    assert db.drain() == [ids[3], ids[1], ids[0], ids[2]]


def test_a_newcomer_with_a_better_priority_goes_first(db):
    first, second = parts(db, 2)
    (claim,) = db.claim()
    urgent = db.enqueue(partition="p", priority=1).id
    db.finish(claim)
    assert db.drain() == [urgent, second]
    assert db.status(first) == "succeeded"


def test_many_partitions_take_turns_in_one_claim(db, make):
    jobs = [make.job(partition=f"p{n % 10}") for n in range(30)]
    db.enqueue_all(jobs)
    for part in range(3):
        claims = db.claim()
        assert ids_of(claims) == [job.id for job in jobs[part * 10 : part * 10 + 10]]
        db.finish(*claims)


@pytest.mark.parametrize(
    "how",
    ["succeeded", "dead", "canceled", "retry", "retry at once", "failed", "release", "release later", "crash", "gone"],
)
def test_whatever_leaves_running_frees_its_partition(db, how):
    worker = db.worker()
    first = db.enqueue(partition="p", delivery="at_most_once" if how == "failed" else "at_least_once").id
    second, third = parts(db, 2, queue="other")
    claim = db.take(worker)
    assert db.claim(queue="other") == []
    match how:
        case "succeeded" | "dead" | "canceled":
            db.settle(claim, how)
        case "retry":
            db.settle(claim, "scheduled", charge=1, delay_ms=60_000)
        case "retry at once":
            db.settle(claim, "scheduled", charge=1)
        case "failed":
            db.settle(claim, "failed", charge=1, delay_ms=60_000)
        case "release":
            db.release(claim)
        case "release later":
            db.release(claim, delay_ms=60_000)
        case "crash":
            db.reap(worker)
        case "gone":
            db.unregister(worker)
            db.reap()
    assert ids_of(db.claim(queue="other")) == [second]
    assert db.statuses(third) == ["queued"]
    assert db.status(first) != "running"


def test_a_scheduled_or_waiting_job_does_not_hold_its_partition(db):
    first = db.start(partition="p")
    db.settle(first, "scheduled", charge=1, delay_ms=60_000)
    second = db.start(partition="p")
    db.sql("update {jobs} set status = 'waiting', worker_id = null, attempt_started_at = null where id = ?", second.id)
    third = db.start(partition="p")
    db.advance("2m")
    db.promote()
    assert db.claim() == []
    db.finish(third)
    assert ids_of(db.claim()) == [first.id]


def test_a_partition_reaches_over_queues_and_kinds(db):
    first = db.enqueue(partition="p", queue="one", kind="a").id
    second = db.enqueue(partition="p", queue="two", kind="b").id
    third = db.enqueue(partition="p", queue="three", kind="c").id
    claim = db.take(queue="one")
    assert (claim.id, db.claim(queue="two"), db.claim(queue="three")) == (first, [], [])
    db.finish(claim)
    claim = db.take(queue="three")
    assert (claim.id, db.claim(queue="two")) == (third, [])
    db.finish(claim)
    assert db.take(queue="two").id == second


def test_a_partition_is_of_its_tenant(db):
    db.set_fair(fair=False)
    mine, theirs = db.enqueue(partition="p").id, db.enqueue(partition="p", tenant="acme").id
    assert ids_of(db.claim()) == [mine, theirs]
    assert db.usage(partition_key(ACME, "p")).running == 1


def test_a_second_running_job_of_a_partition_is_refused_by_the_table_itself(db):
    first = db.start(partition="p")
    (second,) = parts(db, 1)
    with pytest.raises(Exception, match=r"(?i)unique"):
        db.sql(
            "update {jobs} set status = 'running', fence = 1, worker_id = ?, attempt_started_at = created_at"
            " where id = ?",
            db.home(),
            second,
        )
    assert db.statuses(first.id, second) == ["running", "queued"]


@pytest.mark.parametrize(
    "how", ["cancel", "put off", "expire", "other queue", "supersede", "skip", "clear", "prune all"]
)
def test_when_the_one_that_was_to_go_next_leaves_another_comes_back(db, how):
    """The freed place is promised to the second job; the third must not wait for its end, which never comes."""
    scope = ("running",)
    first = db.enqueue(partition="p").id
    second = db.enqueue(partition="p", train="t", unique_key="k", unique_scope=scope, expires_at=db.after(3_600_000)).id
    third = db.enqueue(partition="p").id
    (claim,) = db.claim()
    assert db.limited_by(second, third) == [KEY, KEY]
    db.finish(claim)
    assert db.limited_by(second) == [None]
    match how:
        case "cancel" | "prune all":
            db.cancel(second)
            if how == "prune all":
                db.advance("1m")
                db.prune("canceled", older_than_ms=1_000)
        case "put off":
            db.change(second, scheduled_for=db.after(60_000))
        case "expire":
            db.advance("2h")
            db.promote()
        case "other queue":
            db.change(second, queue="other")
        case "supersede":
            db.start(queue="other", unique_key="k", unique_scope=scope)
        case "skip":
            db.skip(second)
        case "clear":
            db.clear_train("t")
    claimed = ids_of(db.claim()) + ids_of(db.claim())
    assert claimed == [third]
    assert db.status(first) == "succeeded"


@pytest.mark.parametrize("how", ["cancel", "put off", "skip", "expire"])
def test_a_job_that_leaves_while_it_waits_aside_waits_for_no_key_any_more(db, how):
    db.enqueue(partition="p")
    second = db.enqueue(partition="p", train="t", expires_at=db.after(60_000)).id
    third = db.enqueue(partition="p").id
    (claim,) = db.claim()
    assert db.limited_by(second) == [KEY]
    match how:
        case "cancel":
            db.cancel(second)
        case "put off":
            db.change(second, scheduled_for=db.after(60_000))
        case "skip":
            db.skip(second)
        case "expire":
            db.advance("2m")
            db.promote()
    assert db.limited_by(second) == [None]
    db.finish(claim)
    assert ids_of(db.claim()) == [third]


def test_a_job_that_was_canceled_aside_can_be_retried(db):
    first, second = parts(db, 2)
    (claim,) = db.claim()
    db.cancel(second)
    db.retry(second)
    assert db.claim() == []
    db.finish(claim)
    assert db.drain() == [second]
    assert db.status(first) == "succeeded"


def test_a_job_aside_can_be_moved_and_changed(db):
    ids = parts(db, 4)
    (claim,) = db.claim()
    db.move(ids[3], before=ids[1])
    db.change(ids[2], priority=1)
    db.finish(claim)
    assert db.drain() == [ids[2], ids[3], ids[1]]


def test_a_job_that_expires_aside_is_never_claimed(db):
    first, second, third = parts(db)
    (claim,) = db.claim()
    db.change(second, expires_at=db.after(1_000))
    db.advance("2s")
    db.finish(claim)
    db.promote()
    assert db.drain() == [third]
    assert db.statuses(first, second) == ["succeeded", "canceled"]


def test_a_car_may_have_a_partition_too(db):
    first = db.enqueue(train="t", partition="p").id
    second = db.enqueue(train="t", partition="q").id
    blocker = db.start(queue="other", partition="p")
    assert db.claim() == []
    assert db.statuses(first, second) == ["queued", "held"]
    db.finish(blocker)
    assert db.drain() == [first, second]


def test_a_claim_of_one_partition_says_that_others_wait_for_its_end(db):
    assert db.start(partition="p").followed


def test_a_delayed_job_of_a_partition_gets_its_place_when_it_is_due(db):
    late = db.enqueue(partition="p", delay_ms=1_000).id
    first, second = parts(db, 2)
    (claim,) = db.claim()
    assert claim.id == first
    db.advance("2s")
    db.promote()
    db.finish(claim)
    assert db.drain() == [second, late]


def test_queues_show_how_many_wait_aside(db):
    parts(db, 3)
    db.enqueue()
    assert db.queues()["default"].limited == 0
    db.claim(limit=1)
    db.claim()
    assert db.queues()["default"].limited == 2
