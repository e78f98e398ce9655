"""The dangerous moments of partitions and limits on PostgreSQL: claims and settles that do not see each other."""

from __future__ import annotations

import threading

import pytest

from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.limit import Limit, concurrency_key, partition_key, tenant_key

pytestmark = pytest.mark.parametrize("store", ["postgres"], indirect=True)
SOON = 10
# what limits: how many at once, what an operator sets, what the jobs carry, the key
SCOPES = {
    "partition": (1, None, {"partition": "p"}, partition_key(DEFAULT_TENANT_ID, "p")),
    "key": (
        3,
        None,
        {"concurrency": 3, "concurrency_key": "k"},
        concurrency_key(DEFAULT_TENANT_ID, "mail", "k"),
    ),
    "own kind": (3, None, {"concurrency": 3}, concurrency_key(DEFAULT_TENANT_ID, "mail", None)),
    "kind": (3, ("kind", "mail"), {}, concurrency_key(DEFAULT_TENANT_ID, "mail", None)),
    "tenant": (3, ("tenant", DEFAULT_TENANT_ID), {}, tenant_key(DEFAULT_TENANT_ID)),
    "queue": (3, ("queue", "default"), {}, None),
}
scopes = pytest.mark.parametrize("scope", SCOPES)


def ids_of(claims):
    return [claim.id for claim in claims]


def most_of(scope):
    return SCOPES[scope][0]


def limited(db, scope, count):
    most, named, options, _ = SCOPES[scope]
    if named is not None:
        db.limit(*named, max_running=most)
    return most, db.enqueue_ids(count, **options)


def claim(db, worker, limit=100):
    return db.ops.claim(worker, "default", limit)


@scopes
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_two_claims_at_once_never_exceed_a_limit(db, session, until, scope, end):
    """Two claims that each see 2 of 3 are the trap."""
    most, ids = limited(db, scope, 8)
    one, two = session(), session()
    first = one.run(claim(db, db.worker(), limit=max(1, most - 1)))
    assert ids_of(first) == ids[: max(1, most - 1)]
    late = two.start(claim(db, db.worker()))
    until(lambda: two.blocked() or late.done())
    getattr(one, end)()
    second = late.result(SOON)
    running = len(first) * (end == "commit") + len(second)
    assert running <= most
    assert db.running_in("default") == running
    # no job stays set aside, whichever claim set it aside
    db.finish(*second, *(first if end == "commit" else ()))
    rest = [
        job_id for job_id in ids if job_id not in ids_of(second) and (end == "rollback" or job_id not in ids_of(first))
    ]
    assert sorted(db.drain()) == sorted(rest)


@scopes
def test_other_jobs_are_not_held_up_by_an_open_claim_of_a_limited_one(db, session, scope):
    limited(db, scope, 4)
    other = db.enqueue(kind="other", tenant="acme", queue="other").id
    open_ = session()
    assert open_.run(claim(db, db.worker()))
    assert ids_of(db.claim(queue="other")) == [other]
    open_.rollback()


def test_another_partition_of_the_same_queue_is_claimed_beside_an_open_claim(db, session, until):
    first, second = db.enqueue(partition="p").id, db.enqueue(partition="p").id
    other = db.enqueue(partition="q").id
    one, two = session(), session()
    assert ids_of(one.run(claim(db, db.worker(), limit=1))) == [first]
    late = two.start(claim(db, db.worker()))
    until(lambda: two.blocked() or late.done())
    one.commit()
    assert ids_of(late.result(SOON)) == [other]
    assert db.status(second) == "queued"


@scopes
def test_a_settle_that_frees_a_key_while_a_claim_puts_a_job_aside_leaves_nobody_stuck(db, make, session, until, scope):
    """The claim saw no room; the settle did not see the job aside."""
    most, ids = limited(db, scope, most_of(scope) + 3)
    running = db.claim(limit=most)
    assert len(running) == most
    claimer, settler = session(), session()
    assert claimer.run(claim(db, db.worker())) == []
    done = settler.start(db.ops.settle(db.home(), [make.settlement(each, "succeeded") for each in running]))
    until(lambda: settler.blocked() or done.done())
    claimer.commit()
    assert done.result(SOON).lost == []
    assert db.drain() == ids[most:]


@scopes
def test_a_claim_that_puts_a_job_aside_while_a_settle_frees_its_key_leaves_nobody_stuck(
    db, make, session, until, scope
):
    """The same moment from the other side: the settle is first, and not yet committed."""
    most, ids = limited(db, scope, most_of(scope) + 3)
    running = db.claim(limit=most)
    settler, claimer = session(), session()
    assert settler.run(db.ops.settle(db.home(), [make.settlement(each, "succeeded") for each in running])).lost == []
    late = claimer.start(claim(db, db.worker()))
    until(lambda: claimer.blocked() or late.done())
    settler.commit()
    claimed = late.result(SOON)
    assert len(claimed) <= most
    db.finish(*claimed)
    assert ids_of(claimed) + db.drain() == ids[most:]


@scopes
@pytest.mark.parametrize("how", ["release", "reap"])
def test_whatever_else_frees_a_key_in_that_moment_leaves_nobody_stuck(db, session, until, scope, how):
    most, ids = limited(db, scope, most_of(scope) + 2)
    worker = db.worker()
    running = db.claim(worker, limit=most)
    ops = {
        "release": db.ops.release([(each.id, each.fence) for each in running], delay_ms=60_000),
        "reap": db.ops.reap([worker], limit=100),
    }
    claimer, other = session(), session()
    assert claimer.run(claim(db, db.worker())) == []
    late = other.start(ops[how])
    until(lambda: other.blocked() or late.done())
    claimer.commit()
    late.result(SOON)
    assert db.drain() == ids[most:]


@scopes
def test_claims_from_all_sides_never_exceed_a_limit(db, make, scope):
    """Free running, counted from outside after every claim."""
    most, ids = limited(db, scope, 60)
    errors: list[BaseException] = []
    started: list[str] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        try:
            worker = db.worker(lease_ms=10**10)
            barrier.wait()
            idle = 0
            while idle < 20 and len(started) < len(ids):
                claims = db.claim(worker, limit=2)
                assert db.running_in("default") <= most
                idle = 0 if claims else idle + 1
                started.extend(ids_of(claims))
                if claims:
                    db.settle_all([make.settlement(each, "succeeded") for each in claims], worker)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(started + db.drain()) == sorted(ids)


def test_a_limit_that_is_set_while_a_claim_is_open_holds_from_its_return_on(db, session, until):
    ids = db.enqueue_ids(6)
    claimer, operator = session(), session()
    claimed = claimer.run(claim(db, db.worker(), limit=2))
    done = operator.start(db.ops.set_limit(Limit(scope="kind", name="mail", max_running=3), actor=None))
    until(lambda: operator.blocked() or done.done())
    claimer.commit()
    done.result(SOON)
    assert len(db.claim()) == 3 - len(claimed)
    assert db.running_in("default") == 3
    assert len(ids) == 6


def test_two_promotes_at_once_bring_back_no_more_than_the_bucket_has(db):
    ids = db.enqueue_ids(12, rate_count=2, rate_period_ms=1_000)
    assert len(db.claim()) == 2
    db.advance(1)
    barrier = threading.Barrier(3)
    claimed: list[str] = []

    def work() -> None:
        barrier.wait()
        db.promote()
        claimed.extend(ids_of(db.claim(db.worker())))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    claimed += ids_of(db.claim())
    assert claimed == ids[2:4]
