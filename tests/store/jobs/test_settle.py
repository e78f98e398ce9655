"""The contract of settle: the job's move and one attempt row, only for the fence that runs, once."""

from __future__ import annotations

import msgspec
import pytest

from headway.model.ids import new_id
from headway.model.job import Report


def test_a_success_ends_the_job_with_its_result(db):
    worker = db.worker()
    started = db.now()
    claim = db.start(worker)
    ended = db.advance("3s")
    assert db.settle(claim, "succeeded", worker, result='{"sum": [1, 2.5, "drei"]}') == []
    job = db.job(claim.id)
    assert (job.status, job.result, job.error) == ("succeeded", {"sum": [1, 2.5, "drei"]}, None)
    assert (job.started_at, job.finished_at) == (started, ended)
    assert (job.tries, job.losses, job.fence) == (0, 0, 1)
    assert db.running(worker) == []


def test_every_field_of_an_ended_attempt_is_stored(db):
    worker = db.worker()
    started = db.now()
    claim = db.start(worker)
    ended = db.advance("3s")
    db.settle(
        claim,
        "dead",
        worker,
        status="timeout",
        charge=1,
        error="error-1",
        exit_code=-9,
        stdout_tail="out-2 \u2603",
        stderr_tail="err-3",
        pid=4_711,
    )
    (attempt,) = db.attempts(claim.id)
    assert msgspec.structs.asdict(attempt) == {
        "job_id": claim.id,
        "fence": 1,
        "status": "timeout",
        "started_at": started,
        "finished_at": ended,
        "worker_id": worker,
        "error": "error-1",
        "step": None,
        "state": None,
        "exit_code": -9,
        "stdout_tail": "out-2 \u2603",
        "stderr_tail": "err-3",
        "pid": 4_711,
        "version": None,
        "outcome": None,
        "note": None,
        "woken": None,
        "artifacts": (),
    }


def test_a_settled_job_has_no_open_attempt(db):
    claim = db.start()
    db.settle(claim, "succeeded")
    job = db.job(claim.id)
    assert job.attempt_started_at is None
    assert [attempt.status for attempt in db.attempts(claim.id)] == ["succeeded"]


@pytest.mark.parametrize(("to", "status"), [("succeeded", "succeeded"), ("dead", "failed"), ("canceled", "canceled")])
def test_an_end_is_one_move_and_one_attempt(db, to, status):
    claim = db.start()
    ended = db.advance("1s")
    db.settle(claim, to, charge=int(to == "dead"), error="why")
    job = db.job(claim.id)
    assert (job.status, job.finished_at, job.tries) == (to, ended, int(to == "dead"))
    assert [(attempt.fence, attempt.status) for attempt in db.attempts(claim.id)] == [(1, status)]


@pytest.mark.parametrize("to", ["dead", "canceled"])
def test_a_bad_end_says_why(db, to):
    claim = db.start()
    db.settle(claim, to, error="it went wrong")
    assert db.job(claim.id).error == "it went wrong"
    assert db.attempts(claim.id)[0].error == "it went wrong"


def test_a_retry_is_scheduled_after_its_delay_and_charged(db):
    claim = db.start()
    db.settle(claim, "scheduled", charge=1, delay_ms=90_500, error="boom")
    job = db.job(claim.id)
    assert (job.status, job.scheduled_for, job.tries) == ("scheduled", db.after(90_500), 1)
    assert (job.finished_at, job.worker_id, job.attempt_started_at) == (None, None, None)
    assert job.error == "boom"


def test_a_retry_without_delay_is_queued(db):
    claim = db.start()
    db.settle(claim, "scheduled", charge=1, delay_ms=0)
    assert db.status(claim.id) == "queued"
    assert db.take().tries == 1


def test_a_snooze_charges_nothing(db):
    claim = db.start()
    db.settle(claim, "scheduled", status="snoozed", delay_ms=1_000)
    assert (db.job(claim.id).tries, db.attempts(claim.id)[0].status) == (0, "snoozed")


def test_a_retry_keeps_its_position(db):
    first, second, third = db.enqueue_ids(3)
    position = db.job(first).position
    claim = db.take()
    db.settle(claim, "scheduled", charge=1, delay_ms=1_000)
    assert db.job(first).position == position
    db.advance("2s")
    db.promote()
    assert db.job(first).position == position
    assert [claim.id for claim in db.claim()] == [first, second, third]


def test_a_job_given_back_keeps_its_place_and_its_tries(db):
    first, second = db.enqueue_ids(2)
    db.settle(db.take(), "queued", error="shutting down")
    job = db.job(first)
    assert (job.status, job.tries, job.losses, job.finished_at) == ("queued", 0, 0, None)
    assert [attempt.status for attempt in db.attempts(first)] == ["released"]
    assert [claim.id for claim in db.claim()] == [first, second]


def test_a_settle_with_an_old_fence_changes_nothing(db):
    """Invariant 2."""
    old = db.start()
    db.release(old)
    new = db.take()
    before, attempts = db.job(old.id), db.attempts(old.id)
    for to in ("succeeded", "scheduled", "dead", "failed", "canceled"):
        lost = db.settle(old, to, error="late", result="1")
        assert lost == [(old.id, old.fence)], to
    assert (db.job(old.id), db.attempts(old.id)) == (before, attempts)
    assert db.settle(new, "succeeded") == []


def test_a_plain_success_with_an_old_fence_changes_nothing(db):
    """By the same worker, and with nothing that another execution has left on the row."""
    old = db.start()
    db.release(old)
    new = db.claim()[0]
    before, attempts = db.job(old.id), db.attempts(old.id)
    assert db.settle(old, "succeeded", result="1") == [(old.id, old.fence)]
    assert (db.job(old.id), db.attempts(old.id)) == (before, attempts)
    assert db.settle(new, "succeeded") == []


def test_a_settle_with_a_fence_of_the_future_changes_nothing(db):
    claim = db.start()
    ahead = msgspec.structs.replace(claim, fence=claim.fence + 1)
    before = db.job(claim.id)
    assert db.settle(ahead, "succeeded") == [(claim.id, 2)]
    assert db.job(claim.id) == before


def test_a_settle_of_an_unknown_job_is_lost(db):
    claim = msgspec.structs.replace(db.start(), id=new_id())
    assert db.settle(claim, "succeeded") == [(claim.id, 1)]


def test_a_reaped_job_ignores_its_first_worker(db):
    worker = db.worker(lease_ms=1_000)
    claim = db.start(worker)
    db.advance("2s")
    db.reap()
    before, attempts = db.job(claim.id), db.attempts(claim.id)
    assert db.settle(claim, "succeeded", worker, result='"late"') == [(claim.id, 1)]
    assert (db.job(claim.id), db.attempts(claim.id)) == (before, attempts)


@pytest.mark.parametrize("to", ["succeeded", "scheduled", "queued", "dead", "canceled"])
def test_a_settlement_repeated_after_a_lost_acknowledgement_is_a_no_op(db, to):
    claim = db.start()
    values = {"delay_ms": 5_000 if to == "scheduled" else 0, "charge": 1, "error": "e"}
    assert db.settle(claim, to, **values) == []
    before, attempts = db.job(claim.id), db.attempts(claim.id)
    db.advance("1m")
    assert db.settle(claim, to, **values) == []
    assert (db.job(claim.id), db.attempts(claim.id)) == (before, attempts)


def test_a_settlement_repeated_after_the_job_moved_on_is_still_a_no_op(db):
    claim = db.start()
    db.settle(claim, "scheduled", charge=1, delay_ms=0)
    db.take()
    before = db.job(claim.id)
    assert db.settle(claim, "scheduled", charge=1, delay_ms=0) == []
    assert db.job(claim.id) == before


def test_a_batch_settles_what_it_can_and_names_the_rest(db, make):
    ids = db.enqueue_ids(4)
    claims = db.claim()
    stale = msgspec.structs.replace(claims[1], fence=7)
    unknown = msgspec.structs.replace(claims[2], id=new_id())
    lost = db.settle_all(
        [
            make.settlement(claims[0], "succeeded", result="0"),
            make.settlement(stale, "succeeded", result="1"),
            make.settlement(unknown, "dead", error="2"),
            make.settlement(claims[3], "scheduled", charge=1, delay_ms=3_000, error="3"),
        ]
    )
    assert sorted(lost) == sorted([(stale.id, 7), (unknown.id, 1)])
    assert [db.status(job_id) for job_id in ids] == ["succeeded", "running", "running", "scheduled"]


def test_a_batch_of_every_outcome_is_written_row_by_row(db, make):
    outcomes = ["succeeded", "scheduled", "queued", "dead", "failed", "canceled"] * 20
    db.enqueue_ids(len(outcomes))
    claims = db.claim(limit=200)
    settlements = [
        make.settlement(
            claim,
            to,
            charge=int(to in ("scheduled", "dead", "failed")),
            delay_ms=1_000 + n if to in ("scheduled", "failed") else 0,
            result=str(n) if to == "succeeded" else None,
            error=None if to == "succeeded" else f"error {n}",
            exit_code=n,
            stdout_tail=f"out {n}",
            stderr_tail=f"err {n}",
        )
        for n, (claim, to) in enumerate(zip(claims, outcomes, strict=True))
    ]
    assert db.settle_all(settlements) == []
    for n, (claim, to) in enumerate(zip(claims, outcomes, strict=True)):
        job, (attempt,) = db.job(claim.id), db.attempts(claim.id)
        assert job.status == to
        assert job.result == (n if to == "succeeded" else None)
        assert job.tries == settlements[n].charge
        assert (attempt.status, attempt.exit_code) == (settlements[n].status, n)
        assert (attempt.stdout_tail, attempt.stderr_tail) == (f"out {n}", f"err {n}")
        assert attempt.error == settlements[n].error
        if to == "scheduled":
            assert job.scheduled_for == db.after(1_000 + n)


def test_a_batch_of_successes_of_every_sort_is_written_row_by_row(db, make):
    """The fast path is for plain jobs, as nearly all are; others in the same batch lose nothing by it."""
    db.limit("kind", "narrow", max_running=1)
    worker = db.worker()
    again = db.start(worker)
    began = db.now()
    db.advance("1s")
    db.settle(again, "queued", worker, status="released")
    sorts = {
        "plain": {},
        "key": {"unique_key": "a"},
        "entering": {"unique_key": "b", "unique_scope": ("queued", "succeeded")},
        "train": {"train": "t"},
        "partition": {"partition": "p"},
        "limit": {"concurrency": 1},
        "kind": {"kind": "narrow"},
        "canceled": {},
        "logged": {},
    }
    ids = {name: db.enqueue(**options).id for name, options in sorts.items()}
    behind = [db.enqueue(**sorts[name]).id for name in ("train", "partition", "limit", "kind")]
    waiting = db.enqueue(after=(ids["plain"],)).id
    db.advance("1s")
    claims = db.claim(worker)
    assert sorted(claim.id for claim in claims) == sorted([again.id, *ids.values()])
    second = db.now()
    taking = db.enqueue(**sorts["entering"]).id
    db.cancel(ids["canceled"])
    db.report(worker, Report(ids["logged"], 1, 0.5, "half", "its words", 9))
    ended = db.advance("1s")
    results = {claim.id: str(n) for n, claim in enumerate(claims)}
    assert db.settle_all([make.settlement(each, "succeeded", result=results[each.id]) for each in claims], worker) == []
    for job_id, result in results.items():
        job, attempt = db.job(job_id), db.attempts(job_id)[-1]
        assert (job.status, job.result, job.error, job.finished_at) == ("succeeded", int(result), None, ended)
        assert job.started_at == (began if job_id == again.id else second)
        assert (attempt.fence, attempt.status, attempt.error) == (2 if job_id == again.id else 1, "succeeded", None)
        assert (attempt.started_at, attempt.finished_at, attempt.worker_id) == (second, ended, worker)
        assert attempt.stdout_tail == ("its words" if job_id == ids["logged"] else None)
        assert not job.cancel_requested_at
    assert sorted(claim.id for claim in db.claim(worker)) == sorted([*behind, waiting, taking])
    assert [db.job(job_id).unique_key for job_id in (ids["key"], ids["entering"], taking)] == ["a", "b", "b"]


def test_one_execution_named_twice_in_a_batch_ends_once(db, make):
    claim = db.start()
    db.settle_all([make.settlement(claim, "succeeded"), make.settlement(claim, "succeeded")])
    assert db.status(claim.id) == "succeeded"
    assert len(db.attempts(claim.id)) == 1


def test_an_empty_settle_is_nothing(db):
    assert db.settle_all([]) == []


@pytest.mark.parametrize(("to", "delay_ms"), [("scheduled", 5_000), ("scheduled", 0), ("queued", 0), ("failed", 0)])
def test_a_retry_of_a_job_asked_to_cancel_ends_canceled(db, to, delay_ms):
    claim = db.start()
    db.cancel(claim.id, reason="not needed")
    db.settle(claim, to, charge=1, delay_ms=delay_ms, error="boom")
    job = db.job(claim.id)
    assert (job.status, job.finished_at) == ("canceled", db.now())
    assert len(db.attempts(claim.id)) == 1
    assert db.find(retry_of=claim.id) == []


@pytest.mark.parametrize("to", ["succeeded", "dead", "canceled"])
def test_a_job_asked_to_cancel_that_ends_by_itself_ends_so(db, to):
    claim = db.start()
    db.cancel(claim.id)
    db.settle(claim, to)
    assert db.status(claim.id) == to


def test_a_batch_may_hold_two_fences_of_one_job(db, make):
    old = db.start()
    db.release(old)
    new = db.take()
    lost = db.settle_all([make.settlement(old, "dead"), make.settlement(new, "succeeded")])
    assert lost == [(old.id, old.fence)]
    assert db.status(new.id) == "succeeded"


def test_every_ended_attempt_is_one_row_that_never_changes(db):
    """Invariant 1."""
    job_id = db.enqueue().id
    seen: list[object] = []
    for to, status in [("queued", "released"), ("scheduled", "failed"), ("scheduled", "snoozed"), ("dead", "timeout")]:
        db.advance("1s")
        db.settle(db.take(), to, status=status, error=f"{to} {status}")
        attempts = db.attempts(job_id)
        assert attempts[:-1] == seen
        assert attempts[-1].status == status
        seen = attempts
    db.retry(job_id)
    assert db.attempts(job_id) == seen


def test_an_attempt_is_never_changed(db):
    """Not even by an outside hand; it goes with its job."""
    claim = db.start()
    db.finish(claim)
    before = db.attempts(claim.id)
    with pytest.raises(Exception, match="never changed"):
        db.sql("update {attempts} set status = 'failed' where job_id = ?", claim.id)
    assert db.attempts(claim.id) == before
    db.advance("1h")
    assert db.prune("succeeded", older_than_ms=1_000) == 1
    assert db.sql("select count(*) from {attempts}") == [(0,)]
