"""Workers: register, heartbeat, unregister, report, and what a beat says of the fleet."""

from __future__ import annotations

import msgspec
import pytest

from headway.model.definition import NewDefinition
from headway.model.ids import new_id
from headway.model.job import Report
from headway.model.served import Entry, ServedChange


def test_every_field_of_a_worker_is_stored(db, make):
    new = make.worker(
        hostname="host-2",
        pid=4_000_001,
        machine="boot-3",
        process_started="start-4",
        version="0.5.6",
        queues={"mail": 7, "post": 8},
        kinds=("invoice", "report"),
        concurrency=9,
        lease_ms=10_000,
        metadata={"region": "eu-11", "n": {"deep": [1]}},
    )
    started = db.now()
    db.run(db.ops.register(new))
    assert msgspec.structs.asdict(db.workers()[new.id]) == {
        "id": new.id,
        "hostname": "host-2",
        "pid": 4_000_001,
        "machine": "boot-3",
        "process_started": "start-4",
        "version": "0.5.6",
        "queues": {"mail": 7, "post": 8},
        "kinds": ("invoice", "report"),
        "concurrency": 9,
        "running": 0,
        "started_at": started,
        "heartbeat_at": started,
        "lease_expires_at": db.after(10_000),
        "metadata": {"region": "eu-11", "n": {"deep": [1]}},
        "wanted": None,
    }


def test_a_new_worker_is_alive_with_a_fresh_lease(db, make):
    beat = db.run(db.ops.register(make.worker(queues={"mail": 1, "post": 1})))
    assert (beat.alive, beat.canceling) == (True, [])
    assert beat.fleet == {"mail": 1, "post": 1}


def test_registering_may_be_repeated(db, make):
    new = make.worker()
    db.run(db.ops.register(new))
    assert db.run(db.ops.register(new)).alive
    assert len(db.workers()) == 1


def test_a_heartbeat_renews_the_lease_and_shows_what_runs(db):
    worker = db.worker(lease_ms=60_000)
    started = db.now()
    db.advance("20s")
    assert db.heartbeat(worker, running=3).alive
    stored = db.workers()[worker]
    assert (stored.started_at, stored.heartbeat_at) == (started, db.now())
    assert (stored.lease_expires_at, stored.running) == (db.after(60_000), 3)


def test_a_late_heartbeat_of_a_worker_that_was_not_reaped_renews(db):
    worker = db.worker(lease_ms=1_000)
    db.advance("1h")
    assert db.heartbeat(worker).alive
    assert db.reap() == []
    assert db.workers()[worker].lease_expires_at == db.after(1_000)


def test_a_heartbeat_of_a_worker_that_is_gone_writes_nothing(db):
    worker = db.worker(lease_ms=1_000)
    db.advance("2s")
    db.reap()
    beat = db.heartbeat(worker, running=1)
    assert (beat.alive, beat.fleet, beat.canceling) == (False, {}, [])
    assert db.workers() == {}
    assert not db.heartbeat(new_id()).alive


def test_a_worker_that_is_gone_is_told_nothing_of_its_jobs(db):
    worker = db.worker()
    claim = db.start(worker)
    db.cancel(claim.id)
    db.unregister(worker)
    beat = db.heartbeat(worker)
    assert (beat.alive, beat.fleet, beat.canceling) == (False, {}, [])


def test_a_beat_counts_the_live_workers_with_free_slots_of_each_queue(db):
    one = db.worker(queues={"mail": 1, "post": 1})
    two = db.worker(queues={"mail": 1})
    three = db.worker(queues={"report": 1})
    assert db.heartbeat(one).fleet == {"mail": 2, "post": 1}
    assert db.heartbeat(two, busy=["mail"]).fleet == {"mail": 1}
    assert db.heartbeat(one).fleet == {"mail": 1, "post": 1}
    assert db.heartbeat(two).fleet == {"mail": 2}
    assert db.heartbeat(three).fleet == {"report": 1}


def test_a_beat_does_not_count_workers_whose_lease_is_over(db):
    db.worker(queues={"mail": 1}, lease_ms=1_000)
    live = db.worker(queues={"mail": 1}, lease_ms=60_000)
    assert db.heartbeat(live).fleet == {"mail": 2}
    db.advance("2s")
    assert db.heartbeat(live).fleet == {"mail": 1}


def test_a_beat_names_only_this_workers_jobs_that_were_asked_to_stop(db):
    one, two = db.worker(), db.worker()
    first, second, other = db.start(one), db.start(one), db.start(two)
    db.cancel(second.id, other.id)
    assert db.heartbeat(one).canceling == [(second.id, 1)]
    assert db.heartbeat(two).canceling == [(other.id, 1)]
    db.settle(second, "canceled", one)
    assert db.heartbeat(one).canceling == []
    assert db.status(first.id) == "running"


def test_an_unregistered_worker_is_gone_and_its_jobs_are_reaped(db):
    worker = db.worker()
    claim = db.start(worker)
    db.unregister(worker)
    assert worker not in db.workers()
    assert not db.heartbeat(worker).alive
    assert [(reaped.job_id, reaped.to) for reaped in db.reap()] == [(claim.id, "scheduled")]


def test_unregistering_may_be_repeated(db):
    worker = db.worker()
    db.unregister(worker)
    db.unregister(worker)
    assert db.workers() == {}


def test_a_report_shows_progress_note_and_tail(db):
    worker = db.worker()
    claim = db.start(worker)
    assert db.report(worker, Report(claim.id, 1, 0.4, "half way ☃", "line 1\nline 2")) == []
    job = db.job(claim.id)
    assert job.progress == pytest.approx(0.4, abs=1e-6)
    assert (job.progress_note, job.log_tail) == ("half way ☃", "line 1\nline 2")


def test_a_report_leaves_what_it_does_not_say(db):
    worker = db.worker()
    claim = db.start(worker)
    db.report(worker, Report(claim.id, 1, 0.25, "note", "tail"))
    db.report(worker, Report(claim.id, 1, 0.5, None, None))
    job = db.job(claim.id)
    assert (job.progress, job.progress_note, job.log_tail) == (0.5, "note", "tail")


def test_a_report_with_an_old_fence_changes_nothing(db):
    """Invariant 2."""
    worker = db.worker()
    old = db.start(worker)
    db.settle(old, "queued", worker)
    db.take(worker)
    before = db.job(old.id)
    db.report(worker, Report(old.id, 1, 0.9, "late", "late"))
    assert db.job(old.id) == before


def test_a_report_learns_which_jobs_were_asked_to_stop(db):
    worker = db.worker()
    first, second = db.start(worker), db.start(worker)
    db.cancel(second.id)
    assert db.report(worker, Report(first.id, 1, 0.5, None, None)) == [(second.id, 1)]
    assert db.report(worker) == [(second.id, 1)]


def test_a_worker_learns_of_what_was_set_for_it_and_tells_what_it_serves(db):
    worker, other = db.worker(), db.worker()
    assert db.heartbeat(worker).wanted is None
    first = ServedChange(entries=(Entry("b-*", 3), Entry("a")), order="strict")
    db.run(db.ops.set_worker(worker, first, actor="ann"))
    db.run(db.ops.set_worker(worker, ServedChange(total=6), actor="bob"))  # over the first
    db.run(db.ops.set_worker(worker, ServedChange(total=7), actor="bob"))
    text = db.heartbeat(worker).wanted
    assert text.count("total") == 1
    wanted = msgspec.json.decode(text, type=ServedChange)
    assert wanted == ServedChange(entries=first.entries, total=7, order="strict")
    assert (db.heartbeat(other).wanted, db.workers()[other].wanted) == (None, None)
    assert db.workers()[worker].wanted["total"] == 7
    reply = db.run(db.ops.heartbeat(worker, running=0, busy=["a"], serves=({"a": 7, "b-1": 3}, 7)))
    assert reply.fleet == {"a": 1, "b-1": 1}
    assert (db.workers()[worker].queues, db.workers()[worker].concurrency) == ({"a": 7, "b-1": 3}, 7)
    db.heartbeat(worker)
    assert db.workers()[worker].queues == {"a": 7, "b-1": 3}  # what is not told stays
    details = [entry.detail for entry in db.audit_log(action="worker.set")]
    assert details[0] == f'{worker}: {{"total":7}}'


def test_the_names_of_queues_are_those_somebody_uses(db):
    for queue in ("b", "a", "a", "b"):
        db.enqueue(queue=queue)
    db.enqueue(queue="later", delay_ms=60_000)
    db.finish(db.start(queue="done"))
    db.worker(queues={"served": 1})
    db.limit("queue", "limited", max_running=1)
    db.pause("paused")
    db.declare(NewDefinition(kind="k", queue="defined"))
    names = db.run(db.ops.queue_names())
    assert names == sorted(names)
    assert {*names} - {"default"} == {"a", "b", "defined", "limited", "paused", "served"}
