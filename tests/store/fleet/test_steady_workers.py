"""Who may judge others: a worker whose own heartbeats came in time for one whole lease, and nobody else."""

from __future__ import annotations

from datetime import timedelta

import pytest


@pytest.fixture
def reaper(db):
    """A worker that is late half a minute after its last heartbeat."""
    return db.worker(lease_ms=60_000, late_ms=30_000)


def _reap(db, reaper, *gone):
    return [each.job_id for each in db.run(db.ops.reap(gone, limit=100, by=reaper))]


def _beat(db, *workers, times=1):
    for _ in range(times):
        db.advance("20s")
        for worker in workers:
            assert db.heartbeat(worker).alive


def test_a_worker_reaps_once_it_has_beaten_for_a_lease(db, reaper):
    lost = db.start(db.worker(lease_ms=1_000))
    _beat(db, reaper, times=2)
    assert _reap(db, reaper) == []
    _beat(db, reaper)
    assert _reap(db, reaper) == [lost.id]


def test_who_is_provably_gone_is_taken_by_a_worker_that_has_just_begun_and_nobody_else(db, reaper):
    silent, gone = db.worker(lease_ms=1_000), db.worker(lease_ms=60_000)
    kept, lost = db.start(silent), db.start(gone)
    db.advance("2s")
    assert _reap(db, reaper, gone) == [lost.id]
    assert db.status(kept.id) == "running"
    assert set(db.workers()) == {reaper, silent}


def test_after_the_database_stood_still_everybody_has_a_lease_to_be_heard(db, reaper):
    alive, killed = db.worker(lease_ms=60_000, late_ms=30_000), db.worker(lease_ms=60_000)
    kept, lost = db.start(alive), db.start(killed)
    _beat(db, reaper, alive, killed, times=6)
    db.advance("50s")  # nothing was heard of anybody: everybody's lease is over
    db.advance("20s")
    assert _reap(db, reaper) == []
    assert db.heartbeat(reaper).alive
    assert _reap(db, reaper) == []
    _beat(db, reaper, alive, times=2)
    assert _reap(db, reaper) == []
    _beat(db, reaper, alive)
    assert _reap(db, reaper) == [lost.id]
    assert db.status(kept.id) == "running"


def test_a_stop_that_is_shorter_than_a_lease_counts_too(db, reaper):
    """Its own lease is not over, but others', whose heartbeat was due, may be."""
    alive = db.worker(lease_ms=60_000)
    kept = db.start(alive)
    _beat(db, reaper, alive, times=4)
    db.advance("15s")
    assert db.heartbeat(reaper).alive
    db.advance("50s")
    assert _reap(db, reaper) == []
    assert db.heartbeat(alive).alive
    assert db.status(kept.id) == "running"


@pytest.mark.parametrize("jump", [timedelta(minutes=10), timedelta(minutes=-10)], ids=["forward", "back"])
def test_a_clock_that_was_set_loses_nobody(db, reaper, jump):
    alive = db.worker(lease_ms=60_000)
    kept = db.start(alive)
    _beat(db, reaper, alive, times=4)
    db.advance(jump)
    assert _reap(db, reaper) == []
    assert db.heartbeat(reaper).alive
    assert _reap(db, reaper) == []
    assert db.heartbeat(alive).alive
    _beat(db, reaper, alive, times=4)
    assert _reap(db, reaper) == []
    assert db.status(kept.id) == "running"


def test_a_worker_that_was_reaped_itself_reaps_nobody(db, reaper):
    db.start(db.worker(lease_ms=1_000))
    _beat(db, reaper, times=4)
    db.unregister(reaper)
    assert _reap(db, reaper) == []


def test_what_is_running_under_nobody_that_is_registered_is_taken_at_once(db, reaper):
    worker = db.worker()
    lost = db.start(worker)
    db.unregister(worker)
    assert _reap(db, reaper) == [lost.id]
