"""What operators do: cancel, retry, change, pause and resume, and the audit of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.errors import NotAllowed
from headway.model.ids import new_id
from headway.model.machine import Checkpoint
from headway.model.status import FINISHED
from tests.tenant_ids import tenant_id

ACME = tenant_id("acme")


def finished(db, to, **options):
    claim = db.start(**options)
    db.settle(claim, to, error="boom", charge=1)
    return claim.id


# cancel


@pytest.mark.parametrize("delay_ms", [None, 60_000])
def test_a_job_that_does_not_run_is_canceled_at_once(db, delay_ms):
    job_id = db.enqueue(delay_ms=delay_ms).id
    db.advance("1s")
    assert db.cancel(job_id, reason="not needed", actor="ann") == {job_id: "canceled"}
    job = db.job(job_id)
    assert (job.status, job.finished_at, job.started_at) == ("canceled", db.now(), None)
    assert "not needed" in job.error
    assert db.claim() == []
    assert db.attempts(job_id) == []


def test_a_running_job_is_asked_to_stop_and_stays_running(db):
    worker = db.worker()
    claim = db.start(worker)
    db.advance("1s")
    assert db.cancel(claim.id, reason="enough") == {claim.id: "running"}
    job = db.job(claim.id)
    assert (job.status, job.cancel_requested_at, job.fence) == ("running", db.now(), 1)
    assert db.heartbeat(worker).canceling == [(claim.id, 1)]
    assert db.settle(claim, "canceled", worker, error="enough") == []
    assert db.status(claim.id) == "canceled"


@pytest.mark.parametrize("to", ["succeeded", "dead", "canceled"])
def test_a_finished_job_is_not_canceled(db, to):
    job_id = finished(db, to)
    before = db.job(job_id)
    db.advance("1m")
    assert db.cancel(job_id) == {job_id: to}
    assert db.job(job_id) == before


def test_a_cancel_may_be_repeated(db):
    queued, running = db.enqueue(queue="q").id, db.start().id
    db.cancel(queued, running)
    before = [db.job(queued), db.job(running)]
    db.advance("1m")
    assert db.cancel(queued, running) == {queued: "canceled", running: "running"}
    assert [db.job(queued), db.job(running)] == before


def test_a_cancel_of_many_answers_for_each_known_job(db):
    queued = db.enqueue(queue="q").id
    done = finished(db, "succeeded")
    running = db.start().id
    answer = db.cancel(queued, new_id(), done, running)
    assert answer == {queued: "canceled", done: "succeeded", running: "running"}


def test_a_cancel_reaches_only_its_tenant(db):
    mine = db.enqueue(tenant="acme", tenant_id=ACME).id
    theirs = db.enqueue().id
    assert db.cancel(mine, theirs, tenant_id=ACME) == {mine: "canceled"}
    assert db.status(theirs) == "queued"


# retry


@pytest.mark.parametrize("to", ["succeeded", "dead", "canceled"])
def test_a_finished_job_is_queued_again_with_a_full_budget_at_its_old_position(db, to):
    job_id = finished(db, to)
    position = db.job(job_id).position
    db.advance("1m")
    assert db.retry(job_id) == {job_id: job_id}
    job = db.job(job_id)
    assert (job.status, job.position, job.tries, job.losses) == ("queued", position, 0, 0)
    assert (job.finished_at, job.result, job.queued_at) == (None, None, db.now())
    claim = db.take()
    assert (claim.id, claim.fence, claim.tries) == (job_id, 2, 0)


def test_a_retried_job_runs_in_its_old_place(db):
    first, second = db.enqueue_ids(2)
    db.settle(db.take(), "dead", charge=1)
    db.retry(first)
    assert [claim.id for claim in db.claim()] == [first, second]


def test_a_retry_resets_losses_too(db):
    worker = db.worker()
    claim = db.start(worker, max_losses=1)
    db.unregister(worker)
    db.reap()
    assert db.status(claim.id) == "dead"
    db.retry(claim.id)
    assert db.job(claim.id).losses == 0


def test_a_retry_forgets_that_the_job_was_asked_to_cancel(db):
    claim = db.start()
    db.cancel(claim.id)
    db.settle(claim, "canceled")
    db.retry(claim.id)
    assert db.job(claim.id).cancel_requested_at is None
    again = db.take()
    db.settle(again, "scheduled", delay_ms=1_000, charge=1)
    assert db.status(claim.id) == "scheduled"


def test_a_job_canceled_before_its_time_gets_a_position_when_retried(db):
    job_id = db.enqueue(delay_ms=60_000).id
    db.cancel(job_id)
    assert db.retry(job_id) == {job_id: job_id}
    assert db.job(job_id).position is not None
    assert db.take().id == job_id


def test_an_expired_job_that_is_retried_runs(db):
    job_id = db.enqueue(expires_at=db.after(1_000)).id
    db.advance("2s")
    db.promote()
    assert db.status(job_id) == "canceled"
    db.retry(job_id)
    db.promote()
    assert [claim.id for claim in db.claim()] == [job_id]


def test_a_retry_of_what_is_not_finished_does_nothing(db):
    queued, scheduled = db.enqueue(queue="q").id, db.enqueue(delay_ms=60_000).id
    running = db.start().id
    before = [db.job(job_id) for job_id in (queued, scheduled, running)]
    db.advance("1m")
    assert db.retry(queued, scheduled, running, new_id()) == {}
    assert [db.job(job_id) for job_id in (queued, scheduled, running)] == before
    assert db.audit(queued) == []


def test_a_retry_may_be_repeated(db):
    job_id = finished(db, "dead")
    db.retry(job_id)
    before = db.job(job_id)
    db.retry(job_id)
    assert db.job(job_id) == before
    assert len(db.find()) == 1


def test_many_are_retried_at_once(db):
    ids = [finished(db, to) for to in ("dead", "succeeded", "canceled")]
    assert db.retry(*ids) == {job_id: job_id for job_id in ids}
    assert [claim.id for claim in db.claim()] == ids


def test_a_retry_may_come_later_with_another_budget_and_payload(db):
    job_id = finished(db, "dead", payload='{"n": 1}', max_attempts=4)
    behind = db.enqueue().id
    later = db.now() + timedelta(hours=1)
    assert db.retry(job_id, actor="ann", scheduled_for=later, max_attempts=9, payload='{"n": 2}') == {job_id: job_id}
    job = db.job(job_id)
    assert (job.status, job.scheduled_for, job.max_attempts, job.payload) == ("scheduled", later, 9, {"n": 2})
    assert [entry.action for entry in db.audit(job_id)] == ["retry", "change"]
    assert [claim.id for claim in db.claim()] == [behind]
    db.advance("2h")
    db.promote()
    claim = db.claim()[0]
    assert (claim.id, claim.fence, claim.payload, claim.tries) == (job_id, 2, '{"n": 2}', 0)


def test_a_retry_that_is_refused_its_change_changes_nothing(db):
    machine = finished(db, "dead", checkpoint=Checkpoint(version=1, step="start"))
    once = finished(db, "dead", delivery="at_most_once")
    before = [db.job(machine), db.job(once)]
    with pytest.raises(NotAllowed, match="is a machine that has run"):
        db.retry(once, machine, payload="{}")
    assert [db.job(machine), db.job(once)] == before
    assert db.retry(machine, delay_ms=60_000) == {machine: machine}
    assert db.status(machine) == "scheduled"
    copy = db.retry(once, payload='{"n": 2}', delay_ms=60_000)[once]
    assert (db.status(copy), db.job(copy).payload, db.job(once).payload) == ("scheduled", {"n": 2}, before[1].payload)


def test_a_car_that_is_retried_later_waits_for_its_turn_and_its_time(db):
    car = finished(db, "dead", train="t")
    assert db.retry(car, delay_ms=60_000, max_attempts=2) == {car: car}
    assert db.job(car).max_attempts == 2
    assert db.claim() == []
    db.advance("2m")
    db.promote()
    assert db.claim()[0].id == car


def test_a_retry_reaches_only_its_tenant(db):
    theirs = finished(db, "dead")
    mine = finished(db, "dead", tenant="acme", tenant_id=ACME)
    assert db.retry(mine, theirs, tenant_id=ACME) == {mine: mine}
    assert db.status(theirs) == "dead"


# change


def test_every_field_that_can_be_changed_is_changed(db):
    job_id = db.enqueue(payload='{"old": 1}').id
    expiry = db.after(99_000)
    status = db.change(
        job_id,
        priority=-3,
        queue="slow",
        max_attempts=21,
        max_losses=22,
        timeout_ms=23_000,
        expires_at=expiry,
        payload='{"new": 24}',
    )
    job = db.job(job_id)
    assert status == "queued"
    assert (job.priority, job.queue, job.max_attempts, job.max_losses) == (-3, "slow", 21, 22)
    assert (job.timeout_ms, job.expires_at, job.payload) == (23_000, expiry, {"new": 24})
    assert db.take(queue="slow").id == job_id


def test_a_change_leaves_the_rest_as_it_is(db):
    job_id = db.enqueue(
        priority=3, queue="q", max_attempts=4, max_losses=6, timeout_ms=7, expires_at=db.after(8_000), payload="[9]"
    ).id
    before = db.job(job_id)
    assert db.change(job_id, priority=5) == "queued"
    after = db.job(job_id)
    changed = {name for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name)}
    assert changed == {"priority"}


def test_none_clears_a_timeout_and_an_expiry(db):
    job_id = db.enqueue(timeout_ms=7, expires_at=db.after(8_000)).id
    db.change(job_id, timeout_ms=None, expires_at=None)
    job = db.job(job_id)
    assert (job.timeout_ms, job.expires_at) == (None, None)


def test_a_queued_job_can_be_put_off(db):
    job_id = db.enqueue().id
    later = db.after(60_000)
    assert db.change(job_id, scheduled_for=later) == "scheduled"
    assert db.job(job_id).scheduled_for == later
    assert db.claim() == []
    db.advance("2m")
    db.promote()
    assert db.take().id == job_id


def test_a_scheduled_job_can_be_moved_in_time(db):
    job_id = db.enqueue(delay_ms=60_000).id
    assert db.change(job_id, scheduled_for=db.after(90_000)) == "scheduled"
    assert db.promote().next_due_ms == 90_000


@pytest.mark.parametrize("when", ["none", "past"])
def test_a_scheduled_job_can_be_let_go_now(db, when):
    job_id = db.enqueue(delay_ms=60_000).id
    assert db.change(job_id, scheduled_for=None if when == "none" else db.after(-1_000)) == "queued"
    job = db.job(job_id)
    assert (job.status, job.queued_at) == ("queued", db.now())
    assert job.position is not None
    assert db.take().id == job_id


def test_a_change_of_priority_changes_the_order(db):
    first, second = db.enqueue_ids(2)
    db.change(second, priority=1)
    assert [claim.id for claim in db.claim()] == [second, first]


def test_a_running_job_is_not_changed(db):
    claim = db.start()
    before = db.job(claim.id)
    with pytest.raises(NotAllowed):
        db.change(claim.id, priority=1)
    assert db.job(claim.id) == before
    assert db.audit(claim.id) == []


@pytest.mark.parametrize("to", ["succeeded", "dead", "canceled"])
def test_a_finished_job_is_not_changed(db, to):
    job_id = finished(db, to)
    before = db.job(job_id)
    with pytest.raises(NotAllowed):
        db.change(job_id, priority=1)
    assert db.job(job_id) == before


def test_the_payload_is_immutable_once_the_job_has_run(db):
    claim = db.start(payload='{"old": 1}')
    db.settle(claim, "queued")
    with pytest.raises(NotAllowed):
        db.change(claim.id, payload='{"new": 2}', priority=1)
    job = db.job(claim.id)
    assert (job.payload, job.priority) == ({"old": 1}, 100)
    assert db.change(claim.id, priority=1) == "queued"


def test_a_change_of_an_unknown_job_gives_none(db):
    assert db.change(new_id(), priority=1) is None


def test_a_change_reaches_only_its_tenant(db):
    theirs = db.enqueue().id
    assert db.change(theirs, tenant_id=ACME, priority=1) is None
    assert db.job(theirs).priority == 100


# pause and resume


def test_nothing_is_claimed_from_a_paused_queue(db):
    job_id = db.enqueue(queue="mail").id
    other = db.enqueue(queue="post").id
    db.pause("mail", actor="ann")
    assert db.claim(queue="mail") == []
    assert [claim.id for claim in db.claim(queue="post")] == [other]
    db.resume("mail", actor="bob")
    assert [claim.id for claim in db.claim(queue="mail")] == [job_id]


def test_running_jobs_of_a_paused_queue_go_on(db):
    claim = db.start()
    db.pause()
    assert db.settle(claim, "succeeded") == []
    assert db.status(claim.id) == "succeeded"


def test_a_paused_queue_accepts_and_promotes(db):
    db.pause()
    db.enqueue()
    db.enqueue(delay_ms=1_000)
    db.advance("2s")
    assert db.promote().queued == 1
    assert db.claim() == []
    db.resume()
    assert len(db.claim()) == 2


def test_queues_show_who_paused_them_and_when(db):
    db.pause("mail", actor="ann")
    paused_at = db.now()
    db.advance("1m")
    mail = db.queues()["mail"]
    assert (mail.paused, mail.paused_at, mail.paused_by) == (True, paused_at, "ann")
    db.resume("mail", actor="bob")
    mail = db.queues().get("mail")
    assert mail is None or (mail.paused, mail.paused_at, mail.paused_by) == (False, None, None)


def test_pause_and_resume_may_be_repeated(db):
    db.enqueue()
    db.pause()
    db.pause()
    db.resume()
    db.resume()
    assert len(db.claim()) == 1


# audit


def test_every_mutation_by_a_person_is_in_the_audit_oldest_first(db):
    job_id = db.enqueue().id
    times = [db.now()]
    db.change(job_id, priority=1, actor="ann")
    times.append(db.advance("1s"))
    db.cancel(job_id, reason="because", actor="bob")
    times.append(db.advance("1s"))
    db.retry(job_id, actor="cat")
    entries = db.audit(job_id)
    assert [(entry.at, entry.actor, entry.action) for entry in entries] == [
        (times[0], "ann", "change"),
        (times[1], "bob", "cancel"),
        (times[2], "cat", "retry"),
    ]
    assert entries[1].detail == "because"


def test_an_audit_without_an_actor_is_kept_too(db):
    job_id = db.enqueue().id
    db.cancel(job_id)
    (entry,) = db.audit(job_id)
    assert (entry.actor, entry.action) == (None, "cancel")


def test_an_audit_is_read_only_by_its_tenant(db):
    job_id = db.enqueue(tenant="acme", tenant_id=ACME).id
    db.cancel(job_id, actor="ann")
    assert len(db.audit(job_id, ACME)) == 1
    assert db.audit(job_id, tenant_id("beta")) == []


def test_finished_means_what_the_model_says():
    assert set(FINISHED) == {"succeeded", "failed", "dead", "canceled"}
