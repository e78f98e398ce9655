"""The contract of sweep: what an outside hand broke is found, repaired and named; what is well is left alone."""

from __future__ import annotations

import pytest

from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.limit import concurrency_key, partition_key, rate_key, tenant_key


def cars(db, count=3, **options):
    return [db.enqueue(**{"train": "t", **options}).id for _ in range(count)]


def delete(db, *ids):
    """As somebody does it in a database shell."""
    db.process_arrivals()
    for job_id in ids:
        db.sql("delete from {jobs} where id = ?", job_id)


def sweep_all(db, limit=500, rounds=10):
    """Enough calls to have looked at everything; gives what all of them found."""
    found = [db.sweep(limit) for _ in range(rounds)]
    return (
        [train for swept in found for train in swept.trains],
        [job for swept in found for job in swept.jobs],
        [key for swept in found for key in swept.keys],
    )


# trains


@pytest.mark.parametrize("status", ["queued", "running", "scheduled", "waiting"])
def test_a_train_whose_locomotive_was_deleted_moves_again(db, status):
    ids = cars(db)
    if status != "queued":
        claim = db.take()
        if status == "scheduled":
            db.settle(claim, "scheduled", delay_ms=60_000)
        elif status == "waiting":
            db.sql(
                "update {jobs} set status = 'waiting', worker_id = null, attempt_started_at = null where id = ?", ids[0]
            )
    delete(db, ids[0])
    assert db.claim() == []
    swept = db.sweep()
    assert swept
    assert swept.trains == ("t",)
    assert db.statuses(*ids[1:]) == ["queued", "held"]
    assert db.drain() == ids[1:]


@pytest.mark.parametrize("policy", [{"on_dead": "hold"}, {"on_canceled": "hold"}])
def test_a_train_that_stops_where_something_goes_wrong_is_put_on_hold(db, policy):
    """Its locomotive was deleted: nobody knows how far it had come."""
    ids = cars(db, **policy)
    delete(db, ids[0])
    assert db.sweep().trains == ("t",)
    assert not db.sweep()
    assert db.claim() == []
    (train,) = db.trains()
    assert (train.hold.reason, train.hold.job_id) == ("its locomotive was deleted", None)
    db.resume_train("t")
    assert db.drain() == ids[1:]


def test_deleting_a_held_car_breaks_nothing(db):
    ids = cars(db, 4)
    delete(db, ids[1], ids[3])
    assert not db.sweep()
    assert db.drain() == [ids[0], ids[2]]


def test_deleting_every_car_leaves_nothing_to_repair(db):
    ids = cars(db)
    delete(db, *ids)
    assert not db.sweep()
    assert db.trains() == []
    (late,) = cars(db, 1)
    assert db.drain() == [late]


def test_a_car_that_comes_after_the_deletion_moves_the_train_by_itself(db):
    """Nobody waits for a sweep who need not."""
    ids = cars(db, 2)
    delete(db, ids[0])
    late = cars(db, 1)
    sweep_all(db)
    assert db.drain() == [ids[1], *late]


def test_many_broken_trains_are_repaired_a_few_at_a_time(db, make):
    firsts = [make.job(train=f"t{n:02}") for n in range(20)]
    seconds = [make.job(train=f"t{n:02}") for n in range(20)]
    db.enqueue_all(firsts + seconds)
    broken = firsts[::2]
    delete(db, *(job.id for job in broken))
    trains, _, _ = sweep_all(db, limit=4, rounds=20)
    assert sorted(trains) == sorted(job.train for job in broken)
    assert db.statuses(*(job.id for job in seconds)) == ["queued", "held"] * 10


def test_a_sweep_leaves_what_is_well_alone(db, make):
    """Holds, heads that wait for other jobs, running locomotives, full limits."""
    on_hold = cars(db, 2, train="a", on_dead="hold")
    db.settle(db.take(), "dead")
    running = cars(db, 2, train="b")
    db.take()
    blocker = db.start(queue="other")
    pending = db.enqueue(train="c", after=(blocker.id,)).id
    behind = db.enqueue(train="c").id
    held_by_hand = db.enqueue(train="d", queue="other").id
    db.hold_train("d")
    full = db.enqueue_ids(2, partition="p")
    db.claim()
    waits = db.enqueue(after=(blocker.id,)).id
    db.process_arrivals()
    before = {job.id: job for job in db.find()}
    assert sweep_all(db) == ([], [], [])
    assert {job.id: job for job in db.find()} == before
    assert db.statuses(*on_hold, *running, pending, behind, held_by_hand, *full, waits) == [
        *("dead", "held", "running", "held", "held", "held", "queued", "running", "queued", "held"),
    ]


def test_a_sweep_of_an_empty_database_finds_nothing(db):
    assert not db.sweep()


# joins


def test_a_child_whose_parent_was_deleted_does_not_wait_for_ever(db):
    parent = db.enqueue(queue="parents").id
    goes_on = db.enqueue(after=(parent,), on_failure="continue").id
    stops = db.enqueue(after=(parent,)).id
    delete(db, parent)
    _, jobs, _ = sweep_all(db)
    assert sorted(jobs) == sorted([goes_on, stops])
    assert db.statuses(goes_on) == ["queued"]
    assert db.statuses(stops)[0] in ("queued", "canceled")


def test_a_child_waits_on_for_the_parents_that_are_left(db):
    gone, left = db.enqueue_ids(2, queue="parents")
    job_id = db.enqueue(after=(gone, left), on_failure="continue").id
    delete(db, gone)
    sweep_all(db)
    assert db.statuses(job_id) == ["held"]
    assert db.drain("parents") == [left]
    sweep_all(db)
    assert db.drain() == [job_id]


def test_a_child_whose_edges_were_deleted_does_not_wait_for_ever(db):
    parent = db.enqueue(queue="parents").id
    job_id = db.enqueue(after=(parent,)).id
    db.process_arrivals()
    db.sql("delete from {edges}")
    _, jobs, _ = sweep_all(db)
    assert jobs == [job_id]
    assert db.statuses(job_id) == ["queued"]


def test_a_parent_that_was_ended_by_hand_lets_its_child_go(db):
    claim = db.start(queue="parents")
    job_id = db.enqueue(after=(claim.id,)).id
    db.process_arrivals()
    db.sql(
        "update {jobs} set status = 'succeeded', finished_at = created_at, worker_id = null,"
        " attempt_started_at = null where id = ?",
        claim.id,
    )
    assert db.claim() == []
    _, jobs, _ = sweep_all(db)
    assert jobs == [job_id]
    assert db.drain() == [job_id]


# limits


KEYS = {
    "partition": ({"partition": "p"}, partition_key(DEFAULT_TENANT_ID, "p")),
    "key": ({"concurrency": 1, "concurrency_key": "k"}, concurrency_key(DEFAULT_TENANT_ID, "mail", "k")),
    "kind": ({"concurrency": 1}, concurrency_key(DEFAULT_TENANT_ID, "mail", None)),
    "tenant": ({}, tenant_key(DEFAULT_TENANT_ID)),
}


@pytest.mark.parametrize("what", KEYS)
def test_what_waits_for_a_job_that_was_deleted_comes_back(db, what):
    options, key = KEYS[what]
    if what == "tenant":
        db.limit("tenant", DEFAULT_TENANT_ID, max_running=1)
    ids = db.enqueue_ids(3, **options)
    db.claim()
    assert db.limited_by(*ids) == [None, key, key]
    delete(db, ids[0])
    assert db.claim() == []
    _, _, keys = sweep_all(db, rounds=1)
    assert keys == [key]
    assert [claim.id for claim in db.claim()] == ids[1:2]
    db.sql("delete from {jobs} where id = ?", ids[1])
    sweep_all(db, rounds=3)
    assert [claim.id for claim in db.claim()] == ids[2:]


def test_what_waits_for_a_bucket_that_was_deleted_comes_back(db):
    ids = db.enqueue_ids(3, rate_count=1, rate_period_ms=3_600_000)
    db.claim()
    key = rate_key(DEFAULT_TENANT_ID, "mail", None)
    assert db.limited_by(*ids) == [None, key, key]
    db.sql("delete from {buckets}")
    sweep_all(db, rounds=3)
    assert [claim.id for claim in db.claim()] == ids[1:2]


def test_what_waits_for_a_limit_that_was_deleted_comes_back(db):
    db.limit("kind", "mail", max_running=1)
    ids = db.enqueue_ids(3)
    db.claim()
    db.sql("delete from {limits}")
    claimed = []
    for _ in range(3):
        sweep_all(db, rounds=2)
        claimed += [claim.id for claim in db.claim()]
    assert claimed == ids[1:]


# PostgreSQL only


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_arrivals_that_were_deleted_are_not_needed(db, make, session):
    """What only an arrival would have let go is found by looking."""
    parent = db.enqueue(queue="parents").id
    user = session()
    jobs = [make.job(train="t"), make.job(train="t"), make.job(after=(parent,))]
    user.run(db.ops.enqueue(jobs))
    user.commit()
    db.sql("delete from {arrivals}")
    trains, _, _ = sweep_all(db)
    assert trains == ["t"]
    db.drain("parents")
    db.sql("delete from {arrivals}")
    sweep_all(db)
    assert sorted(db.drain()) == [job.id for job in jobs]
