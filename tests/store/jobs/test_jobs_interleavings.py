"""Two at once on PostgreSQL: sessions that meet on the same rows, with the first one's transaction still open."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager

import pytest
from psycopg.errors import LockNotAvailable

from headway.errors import Duplicate, LeaseLost

pytestmark = pytest.mark.parametrize("store", ["postgres"], indirect=True)
SOON = 10


def test_a_claim_skips_what_an_uncommitted_claim_holds(db, session):
    ids = db.enqueue_ids(4)
    one, two = db.worker(), db.worker()
    open_ = session()
    first = open_.run(db.ops.claim(one, "default", 2))
    second = db.claim(two, limit=2)
    assert [claim.id for claim in first] == ids[:2]
    assert [claim.id for claim in second] == ids[2:]
    open_.rollback()
    assert [claim.id for claim in db.claim(two)] == ids[:2]


def test_claimers_at_once_get_disjoint_jobs(db):
    ids = db.enqueue_ids(400)
    workers = [db.worker() for _ in range(4)]
    claimed: dict[str, list[str]] = {worker: [] for worker in workers}
    barrier = threading.Barrier(4)

    def work(worker: str) -> None:
        barrier.wait()
        while batch := db.claim(worker, limit=7):
            assert len(batch) <= 7
            claimed[worker] += [claim.id for claim in batch]

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = [job_id for each in claimed.values() for job_id in each]
    assert sorted(everything) == sorted(ids)
    assert {attempt.fence for job_id in ids[:20] for attempt in db.attempts(job_id)} == {1}


@pytest.mark.parametrize("key", ["unique_key", "idempotency_key"])
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_enqueue_waits_for_an_uncommitted_key_and_then_returns_it_or_has_it(db, make, session, until, key, end):
    one, two = session(), session()
    first, second = make.job(**{key: "k"}), make.job(**{key: "k"})
    one.run(db.ops.enqueue([first]))
    later = two.start(db.ops.enqueue([second]))
    until(two.blocked)
    assert not later.done()
    getattr(one, end)()
    (answer,) = later.result(SOON)
    expected = first if end == "commit" else second
    assert (answer.id, answer.created) == (expected.id, expected is second)
    assert [job.id for job in db.find()] == [expected.id]


def test_an_open_enqueue_holds_up_nobody_else(db, make, session):
    """In a foreign transaction only insert: no lock that others wait for."""
    open_ = session()
    open_.run(db.ops.enqueue([make.job(unique_key="a"), make.job(delay_ms=1_000), make.job(tenant="acme")]))
    claim = db.start(unique_key="b")
    db.settle(claim, "scheduled", delay_ms=500, charge=1)
    db.advance("2s")
    db.promote()
    db.pause()
    db.resume()
    assert [each.id for each in db.claim()] == [claim.id]
    assert db.reap() == []
    db.enqueue(tenant="acme")
    open_.commit()
    assert len(db.find()) == 5


def test_a_settle_before_a_reap_of_the_same_fence_wins(db, make, session):
    worker = db.worker(lease_ms=1_000)
    claim = db.start(worker)
    db.advance("5s")
    open_ = session()
    assert open_.run(db.ops.settle(worker, [make.settlement(claim, "succeeded")])).lost == []
    assert db.reap() == []  # skips what the settle holds
    open_.commit()
    assert db.reap() == []
    assert db.status(claim.id) == "succeeded"
    assert [attempt.status for attempt in db.attempts(claim.id)] == ["succeeded"]


def test_a_reap_before_a_settle_of_the_same_fence_wins(db, make, session, until):
    worker = db.worker(lease_ms=1_000)
    claim = db.start(worker)
    db.advance("5s")
    reaper, settler = session(), session()
    assert len(reaper.run(db.ops.reap([], limit=10))) == 1
    late = settler.start(db.ops.settle(worker, [make.settlement(claim, "succeeded", result="1")]))
    until(lambda: settler.blocked() or late.done())
    reaper.commit()
    assert late.result(SOON).lost == [(claim.id, 1)]
    job = db.job(claim.id)
    assert (job.status, job.losses, job.result) == ("scheduled", 1, None)
    assert [attempt.status for attempt in db.attempts(claim.id)] == ["lost"]


def test_settles_and_reaps_at_once_end_each_execution_exactly_once(db, make):
    worker = db.worker(lease_ms=1_000)
    ids = db.enqueue_ids(200, max_losses=9)
    claims = db.claim(worker, limit=200)
    db.advance("5s")
    lost: list[tuple[str, int]] = []
    reaped: list[str] = []
    barrier = threading.Barrier(2)

    def settle() -> None:
        barrier.wait()
        for n in range(0, 200, 10):
            lost.extend(db.settle_all([make.settlement(c, "succeeded") for c in claims[n : n + 10]], worker))

    def reap() -> None:
        barrier.wait()
        for _ in range(40):
            reaped.extend(each.job_id for each in db.reap(limit=7))

    threads = [threading.Thread(target=settle), threading.Thread(target=reap)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    db.reap()
    assert sorted(job_id for job_id, _ in lost) == sorted(reaped)
    for job_id in ids:
        (attempt,) = db.attempts(job_id)
        assert (attempt.status, db.status(job_id)) in [("succeeded", "succeeded"), ("lost", "scheduled")]


def test_the_same_settle_at_once_is_written_once_and_lost_by_nobody(db, make, session, until):
    worker = db.worker()
    claim = db.start(worker, delivery="at_most_once")
    one, two = session(), session()
    op = db.ops.settle(worker, [make.settlement(claim, "failed", charge=1)])
    assert one.run(op).lost == []
    second = two.start(op)
    until(lambda: two.blocked() or second.done())
    one.commit()
    assert second.result(SOON).lost == []
    assert len(db.attempts(claim.id)) == 1
    assert len(db.find(retry_of=claim.id)) == 1


def test_a_cancel_that_meets_an_uncommitted_claim_asks_the_worker(db, session, until):
    worker = db.worker()
    job_id = db.enqueue().id
    claimer, operator = session(), session()
    (claim,) = claimer.run(db.ops.claim(worker, "default", 1))
    answer = operator.start(db.ops.cancel([job_id], tenant_id=None, reason=None, actor=None))
    until(operator.blocked)
    claimer.commit()
    assert answer.result(SOON) == {job_id: "running"}
    assert db.heartbeat(worker).canceling == [(job_id, claim.fence)]


def test_a_claim_skips_a_job_with_an_uncommitted_cancel(db, session):
    job_id = db.enqueue().id
    other = db.enqueue().id
    operator = session()
    operator.run(db.ops.cancel([job_id], tenant_id=None, reason=None, actor=None))
    assert [claim.id for claim in db.claim()] == [other]
    operator.commit()
    assert db.claim() == []
    assert db.status(job_id) == "canceled"


def test_once_pause_returned_no_claim_commits(db, session, until):
    job_id = db.enqueue().id
    worker = db.worker()
    claimer, operator = session(), session()
    assert len(claimer.run(db.ops.claim(worker, "default", 1))) == 1
    paused = operator.start(db.ops.pause("default", actor="ann"))
    until(operator.blocked)
    assert not paused.done()
    claimer.commit()
    paused.result(SOON)
    db.enqueue()
    assert db.claim() == []
    assert db.status(job_id) == "running"


def test_a_pause_of_one_queue_does_not_wait_for_claims_of_another(db, session):
    db.enqueue(queue="mail")
    worker = db.worker()
    claimer = session()
    claimer.run(db.ops.claim(worker, "mail", 1))
    db.pause("post")
    claimer.commit()


def test_two_retries_at_once_make_one_new_job(db, session, until):
    claim = db.start(delivery="at_most_once")
    db.settle(claim, "dead")
    one, two = session(), session()
    op = db.ops.retry([claim.id], tenant_id=None, actor=None)
    first = one.run(op)
    second = two.start(op)
    until(lambda: two.blocked() or second.done())
    one.commit()
    with pytest.raises(Duplicate) as caught:
        second.result(SOON)
    assert caught.value.job_id == first[claim.id]
    assert len(db.find(retry_of=claim.id)) == 1


def test_promotes_at_once_queue_each_job_once(db):
    ids = db.enqueue_ids(300, delay_ms=1_000)
    db.advance("2s")
    counts: list[int] = []
    barrier = threading.Barrier(3)

    def promote() -> None:
        barrier.wait()
        for _ in range(40):
            counts.append(db.promote(limit=20).queued)

    threads = [threading.Thread(target=promote) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 300
    assert len({db_job.position for db_job in db.find()}) == len(ids)


def test_batches_with_the_same_keys_in_opposite_order_never_deadlock(db, make):
    """Two enqueues of overlapping keys: each waits for the other, or both come through; nothing is lost."""
    barrier = threading.Barrier(2)
    answers: dict[int, list[str]] = {}
    errors: list[BaseException] = []

    def enqueue(order: int) -> None:
        try:
            for n in range(20):
                keys = [f"{n}-{k}" for k in range(20)][::order]
                barrier.wait()
                batch = db.enqueue_all([make.job(unique_key=key) for key in keys])
                answers.setdefault(order, []).extend(a.id for a in (batch if order == 1 else batch[::-1]))
        except BaseException as error:
            barrier.abort()
            errors.append(error)

    threads = [threading.Thread(target=enqueue, args=(order,)) for order in (1, -1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert answers[1] == answers[-1]
    assert len(db.find()) == 400


def test_a_poll_that_finds_nothing_writes_nothing(db):
    """No transaction id is taken; another database's autovacuum may take one now and then."""
    worker = db.worker()
    db.enqueue(queue="other")
    db.claim(worker)

    def next_id() -> int:
        return int(db.sql("select pg_snapshot_xmax(pg_current_snapshot())")[0][0])

    for _ in range(5):
        before = next_id()
        for _ in range(10):
            assert db.claim(worker) == []
            db.promote()
        if next_id() == before:
            return
    raise AssertionError("an empty claim or promote writes")


@pytest.mark.parametrize("isolation", ["READ_COMMITTED", "REPEATABLE_READ", "SERIALIZABLE"])
def test_a_reap_passes_over_an_outcome_that_is_about_to_be_committed(db, make, session, isolation):
    """The lease runs out while the handler's transaction is open."""
    worker = db.worker()
    claim = db.start(worker)
    other = db.start(worker)
    own = session(isolation)
    own.run(db.ops.commit_outcome(make.settlement(claim, "succeeded", result="1")))
    db.advance("61s")
    assert [each.job_id for each in db.reap()] == [other.id]
    own.commit()
    assert [(each.job_id, each.committed) for each in db.reap()] == [(claim.id, True)]
    db.settle_committed(claim)
    assert (db.status(claim.id), db.job(claim.id).losses) == ("succeeded", 0)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_outcome_that_meets_a_reap_is_refused_if_that_commits(db, make, session, until, end):
    worker = db.worker()
    claim = db.start(worker)
    reaper, own = session(), session()
    reaper.run(db.ops.reap([worker], limit=10))
    later = own.start(db.ops.commit_outcome(make.settlement(claim, "succeeded", result="1")))
    until(own.blocked)
    getattr(reaper, end)()
    if end == "commit":
        with pytest.raises(LeaseLost):
            later.result(SOON)
        assert (db.committed(claim), db.status(claim.id)) == (None, "scheduled")
    else:
        later.result(SOON)
        assert db.committed(claim) is not None


def test_a_settle_beside_the_open_transaction_is_busy_and_then_refused(db, make, session):
    worker = db.worker()
    claim, other = db.start(worker), db.start(worker)
    own = session()
    own.run(db.ops.commit_outcome(make.settlement(claim, "succeeded", result="1")))
    late = [make.settlement(each, "scheduled", charge=1, delay_ms=9) for each in (claim, other)]
    answer = db.run(db.ops.settle(worker, late))
    assert (answer.busy, answer.lost) == ([(claim.id, claim.fence)], [])
    own.commit()
    assert db.settle_all(late[:1], worker) == [(claim.id, claim.fence)]
    assert db.settle_committed(claim)[0].result == "1"


def test_the_same_handler_cannot_wait_for_its_own_first_transaction_for_ever(db, make, session):
    claim = db.start()
    db.store.side.execute("alter function headway.commit_outcome set lock_timeout = '50ms'")
    one, two = session(), session()
    one.run(db.ops.commit_outcome(make.settlement(claim, "succeeded")))
    with pytest.raises(LockNotAvailable):
        two.run(db.ops.commit_outcome(make.settlement(claim, "succeeded")))


@pytest.mark.parametrize("train", [None, "t"])
@pytest.mark.parametrize("where", ["before", "after"])
def test_a_job_enqueued_last_does_not_overtake_one_that_never_moved(db, make, session, train, where):
    """A gap that closes is made again beside an enqueue that is not committed."""
    ids = [db.enqueue(train=train).id for _ in range(16)]
    first, *moved, last = ids if train is None else ids[1:]
    late = make.job(train=train)
    open_ = session()
    open_.run(db.ops.enqueue([late]))
    for job_id in moved:
        db.move(job_id, **{where: last if where == "before" else first})
    open_.commit()
    moved = moved if where == "before" else moved[::-1]
    assert db.drain() == [*ids[: ids.index(first)], first, *moved, last, late.id]


@contextmanager
def paused(db, function):
    """What this function is called for waits until the lock is given back."""
    ((definition,),) = db.sql("select pg_get_functiondef(?::regprocedure)", function)
    head, _, _rest = definition.partition("AS $function$")
    with closing(db.connect()) as user:
        user.execute("begin")
        user.execute("select pg_advisory_xact_lock(7)")
        db.sql(
            "do $do$ begin execute $text$"
            + head.replace("STABLE", "VOLATILE")
            + "AS $function$ declare "
            + "begin perform pg_advisory_xact_lock(7); end $function$"
            + "$text$; end $do$"
        )
        try:
            yield user
        finally:
            user.execute("rollback")
            db.sql("do $do$ begin execute $text$" + definition + "$text$; end $do$")


@pytest.mark.parametrize("train", [None, "t"])
def test_an_enqueue_whose_key_gets_free_while_it_looks_for_the_holder_has_it(db, make, session, until, train):
    """In the caller's transaction, which stays usable."""
    holder = db.start(unique_key="k")
    job = make.job(unique_key="k", train=train)
    caller = session()
    with paused(db, "headway.check_kinds(text[],jsonb[],uuid[],uuid)") as user:
        later = caller.start(db.ops.enqueue([job]))
        until(caller.blocked)
        db.finish(holder)
        user.execute("rollback")
        (answer,) = later.result(SOON)
    caller.commit()
    assert (answer.id, answer.created) == (job.id, True)
    assert db.drain() == [job.id]


def test_a_batch_of_which_a_key_gets_free_while_it_waits_for_another_has_it(db, make, session, until):
    holder = db.start(unique_key="a")
    one, two = session(), session()
    one.run(db.ops.enqueue([make.job(unique_key="b")]))
    jobs = [make.job(unique_key="a"), make.job(unique_key="b"), make.job(unique_key="c"), make.job()]
    later = two.start(db.ops.enqueue(jobs))
    until(two.blocked)
    db.finish(holder)
    one.rollback()
    assert [(each.id, each.created) for each in later.result(SOON)] == [(job.id, True) for job in jobs]
    two.commit()
    assert sorted(db.drain()) == sorted(job.id for job in jobs)
