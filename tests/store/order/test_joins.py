"""Joins: a job with `after` starts when the jobs it waits for are over, or ends with them."""

from __future__ import annotations

from contextlib import closing

import pytest

from headway.errors import InvalidJob
from headway.model.ids import new_id
from tests.tenant_ids import tenant_id

ACME = tenant_id("acme")


def parents(db, count=2, **options):
    return db.enqueue_ids(count, queue="parents", **options)


def child(db, *after, **options):
    return db.enqueue(after=after, **options).id


def run(db, to="succeeded", queue="parents"):
    """Claim the first of the parents and end it."""
    claim = db.take(queue=queue)
    assert db.settle(claim, to, error="boom") == []
    return claim.id


def test_a_job_with_after_is_held_until_the_others_are_over(db):
    one, two = parents(db)
    answer = db.enqueue(after=(one, two))
    assert answer.status == "held"
    assert db.job(answer.id).pending is True
    assert db.claim() == []
    run(db)
    assert db.statuses(answer.id) == ["held"]
    assert db.claim() == []
    later = db.advance("1m")
    run(db)
    assert db.statuses(answer.id) == ["queued"]
    job = db.job(answer.id)
    assert (job.pending, job.queued_at) == (False, later)
    assert db.drain() == [answer.id]


def test_what_is_still_awaited_can_be_asked(db):
    one, two, three = parents(db, 3)
    job_id = child(db, one, two, three)
    assert db.awaited(job_id) == {one: "queued", two: "queued", three: "queued"}
    run(db)
    db.take(queue="parents")
    assert db.awaited(job_id) == {two: "running", three: "queued"}
    assert db.awaited(job_id, tenant_id=ACME) == {}
    assert db.awaited(one) == {}


def test_a_claim_alone_lets_go_what_waited(db):
    (one,) = parents(db, 1)
    job_id = child(db, one)
    run(db)
    assert [claim.id for claim in db.claim()] == [job_id]


@pytest.mark.parametrize("before", ["running", "succeeded", "queued"])
def test_a_parent_may_be_anywhere_when_its_child_comes(db, before):
    (one,) = parents(db, 1)
    if before != "queued":
        claim = db.take(queue="parents")
        if before == "succeeded":
            db.finish(claim)
    job_id = child(db, one)
    assert db.statuses(job_id) == ["queued" if before == "succeeded" else "held"]


@pytest.mark.parametrize("to", ["dead", "canceled"])
@pytest.mark.parametrize("on_failure", ["stop", "continue"])
def test_a_parent_that_had_not_succeeded_when_its_child_came(db, to, on_failure):
    (one,) = parents(db, 1)
    run(db, to)
    job_id = child(db, one, on_failure=on_failure)
    assert db.statuses(job_id) == ["canceled" if on_failure == "stop" else "queued"]


ENDS = ["dead", "canceled", "cancel", "cancel asked", "expired", "out of losses", "skip", "clear"]


def end(db, how):
    """A parent that ends in that way, with its child of each policy; gives (parent, stopped, continued, status)."""
    one = db.enqueue(queue="parents", train="t" if how in ("skip", "clear") else None, max_losses=1).id
    stopped, continued = child(db, one), child(db, one, on_failure="continue")
    match how:
        case "dead" | "canceled":
            run(db, how)
        case "cancel":
            db.cancel(one)
        case "cancel asked":
            claim = db.take(queue="parents")
            db.cancel(one)
            db.settle(claim, "scheduled", delay_ms=1_000)
        case "expired":
            db.change(one, expires_at=db.after(1_000))
            db.advance("2s")
            db.promote()
        case "out of losses":
            worker = db.worker()
            db.take(worker, "parents")
            db.reap(worker)
        case "skip":
            db.skip(one)
        case "clear":
            db.clear_train("t")
    return one, stopped, continued, "dead" if how in ("dead", "out of losses") else "canceled"


@pytest.mark.parametrize("how", ENDS)
def test_a_failed_parent_stops_its_child_or_lets_it_go(db, how):
    one, stopped, continued, status = end(db, how)
    assert db.statuses(one, stopped, continued) == [status, "canceled", "queued"]
    job = db.job(stopped)
    assert job.error == f"canceled because job {one} is {status}"
    assert (job.finished_at, job.pending) == (db.now(), False)
    assert db.drain() == [continued]


def test_a_child_ends_only_when_all_its_parents_are_over(db):
    parents(db)
    one, two = (job.id for job in reversed(db.find()))
    job_id = child(db, one, two)
    run(db, "dead")
    assert db.statuses(job_id) == ["held"]
    run(db)
    assert db.statuses(job_id) == ["canceled"]


def test_an_end_goes_down_the_whole_chain(db):
    (one,) = parents(db, 1)
    chain = [one]
    for _ in range(6):
        chain.append(child(db, chain[-1]))
    saved = child(db, chain[3], on_failure="continue")
    run(db, "dead")
    assert db.statuses(*chain) == ["dead"] + ["canceled"] * 6
    assert db.job(chain[1]).error == f"canceled because job {one} is dead"
    assert db.job(chain[2]).error == f"canceled because job {chain[1]} is canceled"
    assert db.drain() == [saved]


def test_a_chain_of_successes_runs_in_order(db):
    chain = [db.enqueue().id]
    for _ in range(5):
        chain.append(child(db, chain[-1]))
    assert db.drain() == chain


def test_a_diamond_runs_its_last_job_once(db):
    top = db.enqueue().id
    left, right = child(db, top), child(db, top)
    last = child(db, left, right)
    assert db.drain() == [top, left, right, last]
    assert len(db.attempts(last)) == 1


def test_all_siblings_may_end_in_one_batch(db):
    ids = parents(db, 50)
    job_id = child(db, *ids)
    db.finish(*db.claim(queue="parents"))
    assert db.statuses(job_id) == ["queued"]


def test_one_parent_may_have_very_many_children(db, make):
    (one,) = parents(db, 1)
    jobs = [make.job(after=(one,)) for _ in range(2_000)]
    db.enqueue_all(jobs)
    run(db)
    assert sorted(db.drain(limit=2_000)) == sorted(job.id for job in jobs)


def test_a_parent_that_is_named_twice_counts_once(db):
    (one,) = parents(db, 1)
    job_id = child(db, one, one)
    run(db)
    assert db.statuses(job_id) == ["queued"]


# in one batch, and what is refused


@pytest.mark.parametrize("order", [1, -1])
def test_jobs_of_one_batch_may_wait_for_each_other(db, make, order):
    first = make.job()
    second = make.job(after=(first.id,))
    third = make.job(after=(second.id, first.id))
    answers = db.enqueue_all([first, second, third][::order])
    assert [answer.status for answer in answers] == ["queued", "held", "held"][::order]
    assert db.drain() == [first.id, second.id, third.id]


def test_a_parent_that_does_not_exist_is_refused(db, make):
    missing = new_id()
    with pytest.raises(InvalidJob, match=missing):
        db.enqueue_all([make.job(), make.job(after=(missing,))])
    assert db.find() == []


def test_a_parent_of_another_tenant_is_refused(db, make):
    theirs = db.enqueue(tenant="acme").id
    with pytest.raises(InvalidJob, match=theirs):
        db.enqueue(after=(theirs,))
    with pytest.raises(InvalidJob):
        db.enqueue_all([other := make.job(tenant="acme"), make.job(after=(other.id,))])
    assert [job.id for job in db.find()] == [theirs]


@pytest.mark.parametrize("key", ["idempotency_key", "unique_key"])
def test_a_parent_of_the_same_call_that_met_an_existing_job_is_that_job(db, make, key):
    known = db.enqueue(**{key: "k"}).id
    parent = make.job(**{key: "k"})
    waits = make.job(after=(parent.id,))
    assert db.enqueue_all([parent, waits])[0].id == known
    assert db.awaited(waits.id) == {known: "queued"}
    assert db.drain() == [known, waits.id]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_circle_is_refused_or_at_least_waits_without_harm(db, make, length):
    """The application refuses circles by name; a store that is given one must not turn in it."""
    ids = [new_id() for _ in range(length)]
    jobs = [make.job(id=ids[n], after=(ids[n - 1],)) for n in range(length)]
    try:
        db.enqueue_all(jobs)
    except InvalidJob:
        assert db.find() == []
    else:
        assert db.statuses(*ids) == ["held"] * length
    plain = db.enqueue().id
    db.sweep()
    assert db.drain() == [plain]
    db.cancel(*ids)
    assert {job.status for job in db.find()} <= {"canceled", "succeeded"}


def test_a_repeated_enqueue_waits_no_second_time(db, make):
    (one,) = parents(db, 1)
    job = make.job(after=(one,))
    db.enqueue_all([job])
    run(db)
    (again,) = db.enqueue_all([job])
    assert again.id == job.id
    assert db.statuses(job.id) == ["queued"]
    assert db.drain() == [job.id]


def test_a_users_transaction_may_hold_both_parent_and_child(db, make):
    db.find()  # a file is made by its first op
    parent = make.job()
    job = make.job(after=(parent.id,))
    with closing(db.connect()) as conn:
        conn.execute("begin")
        db.store.run_in(conn, db.ops.enqueue([parent]))
        db.store.run_in(conn, db.ops.enqueue([job]))
        conn.execute("commit")
    assert db.drain() == [parent.id, job.id]


# what else a child may be


def test_a_child_that_is_delayed_waits_for_its_time_too(db):
    (one,) = parents(db, 1)
    job_id = child(db, one, delay_ms=60_000)
    assert db.statuses(job_id) == ["held"]
    run(db)
    assert db.statuses(job_id) == ["scheduled"]
    db.advance("2m")
    db.promote()
    assert db.drain() == [job_id]


def test_a_child_whose_time_came_while_it_waited_goes_at_once(db):
    (one,) = parents(db, 1)
    job_id = child(db, one, delay_ms=60_000)
    db.advance("2m")
    db.promote()
    assert db.statuses(job_id) == ["held"]
    run(db)
    assert db.statuses(job_id) == ["queued"]


@pytest.mark.parametrize("how", ["cancel", "expire"])
def test_a_child_that_ends_before_its_parents_takes_its_own_children_along(db, how):
    (one,) = parents(db, 1)
    middle = child(db, one, expires_at=db.after(60_000))
    last = child(db, middle)
    if how == "cancel":
        assert db.cancel(middle) == {middle: "canceled"}
    else:
        db.advance("2m")
        db.promote()
    assert db.statuses(middle, last) == ["canceled", "canceled"]
    run(db)
    assert db.drain() == []


def test_a_child_that_would_enter_a_taken_scope_is_superseded_with_its_own_children(db):
    (one,) = parents(db, 1)
    middle = child(db, one, unique_key="k", unique_scope=("queued",))
    last = child(db, middle)
    db.enqueue(queue="other", unique_key="k", unique_scope=("queued",))
    run(db)
    assert db.statuses(middle, last) == ["canceled", "canceled"]
    assert "superseded" in db.job(middle).error
