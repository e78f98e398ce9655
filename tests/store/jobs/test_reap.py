"""The contract of reap: executions end with their worker's lease, are charged a loss, and run again or die."""

from __future__ import annotations

import pytest

from headway.errors import LeaseLost
from headway.model.ids import new_id

HOUR_MS = 3_600_000


def test_a_worker_with_a_lease_keeps_its_jobs(db):
    worker = db.worker(lease_ms=60_000)
    claim = db.start(worker)
    db.advance("59s")
    assert db.reap() == []
    assert db.status(claim.id) == "running"
    assert worker in db.workers()


def test_a_heartbeat_keeps_jobs_of_any_age(db):
    worker = db.worker(lease_ms=60_000)
    claim = db.start(worker)
    for _ in range(10):
        db.advance("50s")
        db.heartbeat(worker, running=1)
        assert db.reap() == []
    assert db.status(claim.id) == "running"


@pytest.mark.parametrize("how", ["expired", "unregistered", "gone"])
def test_executions_of_a_lost_worker_end_as_lost(db, how):
    worker = db.worker(lease_ms=60_000)
    claim = db.start(worker, kind="invoice", max_losses=5)
    started = db.now()
    ended = db.advance("61s" if how == "expired" else "1s")
    if how == "unregistered":
        db.unregister(worker)
    (reaped,) = db.reap(*([worker] if how == "gone" else []))
    assert (reaped.job_id, reaped.fence, reaped.kind) == (claim.id, 1, "invoice")
    assert (reaped.worker_id, reaped.to) == (worker, "scheduled")

    job = db.job(claim.id)
    assert (job.status, job.losses, job.tries, job.worker_id) == ("scheduled", 1, 0, None)
    (attempt,) = db.attempts(claim.id)
    assert (attempt.status, attempt.fence, attempt.worker_id) == ("lost", 1, worker)
    assert (attempt.started_at, attempt.finished_at) == (started, ended)


@pytest.mark.parametrize(("delivery", "to"), [("at_least_once", "scheduled"), ("at_most_once", "failed")])
def test_a_worker_that_was_stopping_loses_its_jobs_at_no_charge(db, delivery, to):
    worker = db.worker(lease_ms=60_000)
    claim = db.start(worker, max_losses=1, delivery=delivery)
    db.run(db.ops.retire(worker))
    assert db.reap() == [], "it still runs them"
    db.advance("61s")
    (reaped,) = db.reap()
    assert (reaped.job_id, reaped.to) == (claim.id, to)
    job = db.job(claim.id)
    assert (job.status, job.losses, job.tries) == (to, 0, 0)
    (attempt,) = db.attempts(claim.id)
    assert (attempt.status, attempt.worker_id) == ("lost", worker)


def test_a_stopping_worker_makes_the_next_try_wait_no_longer(db):
    jobs = [db.enqueue(max_losses=9, backoff_base_ms=10_000, backoff_cap_ms=HOUR_MS) for _ in range(30)]
    first = db.worker(lease_ms=60_000)
    assert len(db.claim(first, limit=30)) == 30
    db.advance("61s")
    assert len(db.reap()) == 30
    db.advance("1h")
    db.promote()
    second = db.worker(lease_ms=60_000)
    assert len(db.claim(second, limit=30)) == 30
    db.run(db.ops.retire(second))
    lost_at = db.advance("61s")
    assert len(db.reap()) == 30
    # after one loss a random part of 20 s, as before: of 30 parts of 40 s some would be longer
    assert max(db.job(job.id).scheduled_for - lost_at for job in jobs).total_seconds() <= 20


def test_a_reaped_worker_is_removed(db):
    lost, idle, alive = db.worker(lease_ms=1_000), db.worker(lease_ms=2_000), db.worker()
    db.start(lost)
    db.advance("5s")
    db.reap()
    assert set(db.workers()) == {alive}
    for worker in (lost, idle):
        assert not db.heartbeat(worker).alive


def test_a_worker_named_gone_is_removed_before_its_lease_ends(db):
    gone, alive = db.worker(), db.worker()
    kept = db.start(alive)
    lost = db.start(gone)
    assert [reaped.job_id for reaped in db.reap(gone)] == [lost.id]
    assert set(db.workers()) == {alive}
    assert db.status(kept.id) == "running"


def test_naming_an_unknown_worker_gone_is_harmless(db):
    claim = db.start()
    assert db.reap(new_id()) == []
    assert db.status(claim.id) == "running"


def test_reaping_twice_charges_once(db):
    worker = db.worker()
    claim = db.start(worker)
    db.unregister(worker)
    db.reap()
    before = db.job(claim.id)
    assert db.reap(worker) == []
    assert db.job(claim.id) == before
    assert len(db.attempts(claim.id)) == 1


@pytest.mark.parametrize(("losses", "middle"), [(1, 1_000), (2, 2_000), (3, 4_000), (4, 5_000), (6, 5_000)])
def test_a_lost_job_waits_for_a_jittered_backoff(db, losses, middle):
    """base × 2^(losses-1), from 0 % to 200 % of it, so that it parts from the neighbours it took along; at most cap."""
    ids = db.enqueue_ids(200, max_losses=50, backoff_base_ms=1_000, backoff_cap_ms=5_000)
    db.sql("update {jobs} set losses = ?", losses - 1)
    worker = db.worker()
    db.claim(worker, limit=200)
    db.unregister(worker)
    db.reap()
    waits = [(db_job.scheduled_for - db.now()).total_seconds() * 1_000 for db_job in map(db.job, ids)]
    longest = min(2 * middle, 5_000)
    assert all(0 <= wait <= longest for wait in waits)
    assert min(waits) < longest / 4
    assert max(waits) > longest * 3 / 4
    assert len(set(waits)) > 50


def test_a_job_that_takes_its_worker_down_runs_exactly_max_losses_times(db):
    job_id = db.enqueue(max_losses=3, max_attempts=9).id
    ends = []
    for _ in range(3):
        worker = db.worker()
        db.take(worker)
        db.unregister(worker)
        ends += [reaped.to for reaped in db.reap()]
        db.advance("2h")
        db.promote()
    assert ends == ["scheduled", "scheduled", "dead"]
    job = db.job(job_id)
    assert (job.status, job.losses, job.tries) == ("dead", 3, 0)
    assert job.error
    assert job.finished_at is not None
    assert [attempt.status for attempt in db.attempts(job_id)] == ["lost"] * 3
    assert db.claim() == []


def test_a_reaped_job_keeps_its_position(db):
    first, second = db.enqueue_ids(2)
    position = db.job(first).position
    worker = db.worker()
    db.take(worker)
    db.unregister(worker)
    db.reap()
    db.advance("2h")
    db.promote()
    assert db.job(first).position == position
    assert [claim.id for claim in db.claim()] == [first, second]


@pytest.mark.parametrize("max_losses", [1, 5])
def test_a_lost_job_that_was_asked_to_cancel_is_canceled(db, max_losses):
    worker = db.worker()
    claim = db.start(worker, max_losses=max_losses)
    db.cancel(claim.id)
    db.unregister(worker)
    (reaped,) = db.reap()
    assert reaped.to == "canceled"
    job = db.job(claim.id)
    assert (job.status, job.finished_at, job.losses) == ("canceled", db.now(), 1)
    assert [attempt.status for attempt in db.attempts(claim.id)] == ["lost"]


def test_a_reap_takes_no_more_than_its_limit_and_the_next_goes_on(db):
    worker = db.worker(lease_ms=1_000)
    ids = db.enqueue_ids(10)
    db.claim(worker)
    db.advance("2s")
    reaped: list[str] = []
    for expected in (4, 4, 2, 0):
        batch = db.reap(limit=4)
        assert len(batch) == expected
        reaped += [each.job_id for each in batch]
    assert sorted(reaped) == sorted(ids)
    assert worker not in db.workers()


def test_a_lease_of_one_worker_says_nothing_of_another(db):
    short, long = db.worker(lease_ms=1_000), db.worker(lease_ms=HOUR_MS)
    lost = db.start(short)
    kept = db.start(long)
    db.advance("2s")
    assert [reaped.job_id for reaped in db.reap()] == [lost.id]
    assert db.status(kept.id) == "running"


def test_a_worker_that_is_declared_dead_loses_its_jobs_at_once_and_only_it(db):
    alive, frozen = db.worker(), db.worker(hostname="host-2", pid=9)
    kept = db.start(alive, queue="a")
    lost, doomed = (db.start(frozen, queue="b", max_losses=most) for most in (3, 1))
    late = db.worker(lease_ms=1_000)
    overdue = db.start(late, queue="c")
    db.advance("10s")  # the lease of the third is over, but nobody has looked
    assert {(each.job_id, each.to) for each in db.declare_dead(frozen, actor="ann")} == {
        (lost.id, "scheduled"),
        (doomed.id, "dead"),
    }
    assert (db.job(lost.id).losses, db.job(lost.id).error) == (1, "lost with its worker host-2:9")
    assert [db.status(claim.id) for claim in (kept, overdue)] == ["running", "running"]
    assert db.workers().keys() == {alive, late}
    # it lives after all: its words do not count, and it learns so
    assert db.settle(lost, "succeeded", frozen) == [(lost.id, 1)]
    assert not db.heartbeat(frozen).alive
    db.enqueue(queue="b")
    with pytest.raises(LeaseLost):
        db.claim(frozen, "b")
    (entry,) = db.audit_log(action="worker.dead")
    assert (entry.actor, entry.detail) == ("ann", f"{frozen} (host-2:9), 2 jobs")


def test_a_worker_that_stops_is_declared_dead_without_a_loss(db):
    worker = db.worker()
    claim = db.start(worker)
    db.run(db.ops.retire(worker))
    db.declare_dead(worker)
    assert (db.status(claim.id), db.job(claim.id).losses) == ("scheduled", 0)
