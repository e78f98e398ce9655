"""Invariant 6: one job in scope per unique key; one job per idempotency key."""

from __future__ import annotations

import pytest

from headway.errors import Duplicate
from tests.tenant_ids import tenant_id

KEYS = pytest.mark.parametrize("key", ["unique_key", "idempotency_key"])


@KEYS
def test_a_second_job_with_the_key_is_answered_with_the_first(db, key):
    first = db.enqueue(**{key: "k"})
    second = db.enqueue(**{key: "k"})
    assert (first.created, second.created) == (True, False)
    assert (second.id, second.status) == (first.id, "queued")
    assert len(db.find()) == 1


def test_a_unique_key_that_raises_names_the_job_that_has_it(db):
    first = db.enqueue(unique_key="k")
    with pytest.raises(Duplicate) as caught:
        db.enqueue(unique_key="k", on_conflict="raise")
    assert caught.value.job_id == first.id
    assert len(db.find()) == 1


def test_an_idempotency_key_is_answered_whatever_on_conflict_says(db):
    first = db.enqueue(idempotency_key="k")
    again = db.enqueue(idempotency_key="k", on_conflict="raise")
    assert (again.id, again.created) == (first.id, False)


@KEYS
def test_a_key_is_one_job_also_inside_one_batch(db, make, key):
    jobs = [make.job(**{key: "k"}), make.job(), make.job(**{key: "k"}), make.job(**{key: "other"})]
    answers = db.enqueue_all(jobs)
    assert [answer.id for answer in answers] == [jobs[0].id, jobs[1].id, jobs[0].id, jobs[3].id]
    assert [answer.created for answer in answers] == [True, True, False, True]
    assert len(db.find()) == 3


def test_a_key_that_raises_inside_one_batch_enqueues_none(db, make):
    jobs = [make.job(unique_key="k"), make.job(unique_key="k", on_conflict="raise")]
    with pytest.raises(Duplicate):
        db.enqueue_all(jobs)
    assert db.find() == []


@KEYS
def test_a_taken_key_is_answered_with_its_own_tenants_job(db, key):
    acme = {"tenant": "acme", "tenant_id": tenant_id("acme")}
    ours, theirs = db.enqueue(**{key: "k"}), db.enqueue(**{key: "k"}, **acme)
    assert db.enqueue(**{key: "k"}).id == ours.id
    assert db.enqueue(**{key: "k"}, **acme).id == theirs.id


@KEYS
@pytest.mark.parametrize("field", ["kind", "tenant"])
def test_a_key_reaches_only_its_tenant_and_kind(db, key, field):
    other = {"kind": {"kind": "post"}, "tenant": {"tenant": "acme", "tenant_id": tenant_id("acme")}}[field]
    first = db.enqueue(**{key: "k"})
    second = db.enqueue(**{key: "k"}, **other)
    assert second.created
    assert second.id != first.id


@KEYS
def test_a_key_may_be_long_and_of_any_script(db, key):
    text = "ключ ☃ 'quoted' %s ? $1 " * 20
    first = db.enqueue(**{key: text})
    assert db.enqueue(**{key: text}).id == first.id
    assert getattr(db.job(first.id), key) == text


def test_a_job_may_meet_one_by_either_of_its_keys(db):
    by_id = db.enqueue(idempotency_key="i").id
    by_unique = db.enqueue(unique_key="u").id
    assert db.enqueue(idempotency_key="i", unique_key="free").id == by_id
    assert db.enqueue(idempotency_key="free", unique_key="u").id == by_unique
    assert len(db.find()) == 2


@pytest.mark.parametrize("to", ["succeeded", "dead", "canceled"])
def test_an_idempotency_key_holds_for_as_long_as_the_row_lives(db, to):
    claim = db.start(idempotency_key="k")
    db.settle(claim, to)
    again = db.enqueue(idempotency_key="k")
    assert (again.id, again.status, again.created) == (claim.id, to, False)

    db.advance("1h")
    assert db.prune(to, older_than_ms=1_000) == 1
    fresh = db.enqueue(idempotency_key="k")
    assert (fresh.created, fresh.status) == (True, "queued")


@pytest.mark.parametrize("to", ["succeeded", "dead", "canceled"])
def test_leaving_the_scope_frees_a_unique_key(db, to):
    claim = db.start(unique_key="k")
    assert db.enqueue(unique_key="k").id == claim.id  # running is in the default scope
    db.settle(claim, to)
    fresh = db.enqueue(unique_key="k")
    assert fresh.created
    assert fresh.id != claim.id


def test_cancel_and_expiry_free_a_unique_key(db):
    first = db.enqueue(unique_key="k").id
    db.cancel(first)
    second = db.enqueue(unique_key="k", expires_at=db.after(1_000))
    assert second.created
    db.advance("2s")
    db.promote()
    assert db.enqueue(unique_key="k").created


def test_a_unique_key_holds_while_the_job_waits_for_its_retry(db):
    claim = db.start(unique_key="k")
    db.settle(claim, "scheduled", delay_ms=60_000, charge=1)
    assert db.enqueue(unique_key="k").id == claim.id


def test_a_scope_may_hold_a_key_after_the_end(db):
    claim = db.start(unique_key="k", unique_scope=("queued", "running", "succeeded"))
    db.settle(claim, "succeeded")
    again = db.enqueue(unique_key="k", unique_scope=("queued", "running", "succeeded"))
    assert (again.id, again.created, again.status) == (claim.id, False, "succeeded")


def test_a_narrow_scope_lets_the_next_job_in_while_the_first_runs(db):
    scope = ("queued", "scheduled")
    claim = db.start(unique_key="k", unique_scope=scope)
    second = db.enqueue(unique_key="k", unique_scope=scope)
    assert second.created
    assert db.enqueue(unique_key="k", unique_scope=scope).id == second.id
    db.settle(claim, "succeeded")
    assert db.status(claim.id) == "succeeded"


@pytest.mark.parametrize(
    ("scope", "to", "delay_ms"),
    [
        (scope, to, delay_ms)
        for scope in [("queued", "scheduled"), ("queued",), ("queued", "scheduled", "canceled")]
        for to, delay_ms in [("scheduled", 5_000), ("scheduled", 0), ("queued", 0)]
        if not delay_ms or "scheduled" in scope
    ],
)
def test_a_retry_that_would_reenter_a_taken_scope_is_superseded(db, to, delay_ms, scope):
    claim = db.start(unique_key="k", unique_scope=scope)
    second = db.enqueue(unique_key="k", unique_scope=scope)
    assert db.settle(claim, to, delay_ms=delay_ms, charge=1, error="boom") == []
    job = db.job(claim.id)
    assert (job.status, job.unique_key, job.finished_at) == ("canceled", "k", db.now())
    assert job.error.startswith("superseded")
    assert [attempt.fence for attempt in db.attempts(claim.id)] == [1]
    assert db.status(second.id) == "queued"


def test_the_attempt_of_a_superseded_job_says_how_it_ended_itself(db):
    scope = ("queued", "scheduled")
    claim = db.start(unique_key="k", unique_scope=scope)
    db.enqueue(unique_key="k", unique_scope=scope)
    db.settle(claim, "scheduled", delay_ms=1_000, charge=1, error="boom")
    (attempt,) = db.attempts(claim.id)
    assert (attempt.status, attempt.error) == ("failed", "boom")


def test_a_superseded_job_does_not_hold_up_the_others_of_its_batch(db, make):
    scope = ("queued", "scheduled")
    first = db.start(unique_key="k", unique_scope=scope)
    other = db.start()
    db.enqueue(unique_key="k", unique_scope=scope)
    settled = [make.settlement(first, "scheduled", delay_ms=1_000), make.settlement(other, "succeeded")]
    assert db.settle_all(settled) == []
    assert (db.status(first.id), db.status(other.id)) == ("canceled", "succeeded")


def test_two_jobs_that_reenter_one_scope_in_one_batch_leave_one_of_them(db, make):
    scope = ("queued", "scheduled")
    first = db.start(unique_key="k", unique_scope=scope)
    second = db.start(unique_key="k", unique_scope=scope)
    lost = db.settle_all([make.settlement(claim, "scheduled", delay_ms=1_000) for claim in (first, second)])
    assert lost == []
    assert sorted([db.status(first.id), db.status(second.id)]) == ["canceled", "scheduled"]


def test_a_release_that_would_reenter_a_taken_scope_is_superseded(db):
    scope = ("queued", "scheduled")
    claim = db.start(unique_key="k", unique_scope=scope)
    db.enqueue(unique_key="k", unique_scope=scope)
    db.release(claim)
    job = db.job(claim.id)
    assert (job.status, job.unique_key) == ("canceled", "k")
    assert job.error.startswith("superseded")


def test_a_reaped_job_that_would_reenter_a_taken_scope_is_superseded(db):
    scope = ("queued", "scheduled")
    worker = db.worker()
    claim = db.start(worker, unique_key="k", unique_scope=scope)
    db.enqueue(unique_key="k", unique_scope=scope)
    db.unregister(worker)
    (reaped,) = db.reap()
    assert reaped.to == "canceled"
    job = db.job(claim.id)
    assert (job.status, job.unique_key, job.losses) == ("canceled", "k", 1)
    assert job.error.startswith("superseded")


def test_a_promoted_job_that_would_enter_a_taken_scope_is_superseded(db):
    scope = ("queued",)
    later = db.enqueue(delay_ms=1_000, unique_key="k", unique_scope=scope)
    bystander = db.enqueue(delay_ms=1_000)
    first = db.enqueue(unique_key="k", unique_scope=scope)
    assert first.created  # a scheduled job is outside this scope
    db.advance("5s")
    db.promote()
    job = db.job(later.id)
    assert (job.status, job.unique_key) == ("canceled", "k")
    assert job.error.startswith("superseded")
    assert db.status(bystander.id) == "queued"


def test_a_claim_never_starts_two_jobs_whose_scope_is_running(db):
    scope = ("running",)
    first = db.enqueue(unique_key="k", unique_scope=scope).id
    second = db.enqueue(unique_key="k", unique_scope=scope).id
    third = db.enqueue().id
    claimed = {claim.id for claim in db.claim() + db.claim()}
    assert third in claimed
    assert len(claimed & {first, second}) == 1


def test_an_operators_retry_into_a_taken_scope_raises_and_writes_nothing(db):
    claim = db.start(unique_key="k")
    db.settle(claim, "dead", error="boom")
    holder = db.enqueue(unique_key="k")
    bystander = db.start(queue="other")
    db.settle(bystander, "dead")
    before = [db.job(claim.id), db.job(bystander.id)]
    with pytest.raises(Duplicate) as caught:
        db.retry(bystander.id, claim.id)
    assert caught.value.job_id == holder.id
    assert [db.job(claim.id), db.job(bystander.id)] == before
    assert db.audit(bystander.id) == []


def test_a_change_into_a_taken_scope_raises_and_writes_nothing(db):
    scope = ("queued",)
    later = db.enqueue(delay_ms=60_000, unique_key="k", unique_scope=scope).id
    holder = db.enqueue(unique_key="k", unique_scope=scope).id
    before = db.job(later)
    with pytest.raises(Duplicate) as caught:
        db.change(later, scheduled_for=None)
    assert caught.value.job_id == holder
    assert db.job(later) == before


# a job that ended without its key


@pytest.mark.parametrize("scope", [("queued", "scheduled"), ("queued", "scheduled", "canceled")])
def test_a_superseded_job_is_not_retried_while_its_key_is_taken(db, scope):
    claim = db.start(unique_key="k", unique_scope=scope)
    second = db.enqueue(unique_key="k", unique_scope=scope)
    db.settle(claim, "scheduled", charge=1, error="boom")
    with pytest.raises(Duplicate, match=f'"k" is taken by job {second.id}') as caught:
        db.retry(claim.id)
    assert caught.value.job_id == second.id
    assert db.status(claim.id) == "canceled"


def test_a_superseded_job_that_is_retried_has_its_key_and_scope_again(db):
    scope = ("queued", "scheduled", "canceled")
    claim = db.start(unique_key="k", unique_scope=scope)
    second = db.enqueue(unique_key="k", unique_scope=scope)
    db.settle(claim, "scheduled", charge=1, error="boom")
    assert db.job(claim.id).unique_scope == scope
    db.finish(db.take())
    db.retry(claim.id)
    again = db.enqueue(unique_key="k", unique_scope=scope)
    assert (again.id, again.created) == (claim.id, False)
    db.cancel(claim.id)
    assert db.enqueue(unique_key="k", unique_scope=scope).id == claim.id
    assert db.status(second.id) == "succeeded"


def test_an_at_most_once_job_whose_retry_was_superseded_is_not_run_beside_the_other(db):
    scope = ("queued", "scheduled")
    claim = db.start(delivery="at_most_once", unique_key="k", unique_scope=scope)
    second = db.enqueue(unique_key="k", unique_scope=scope)
    db.settle(claim, "failed", charge=1, error="boom")
    (heir,) = db.find(retry_of=claim.id)
    assert heir.status == "canceled"
    with pytest.raises(Duplicate, match=second.id):
        db.retry(heir.id)


@pytest.mark.parametrize("to", ["succeeded", "scheduled", "failed", "dead"])
def test_a_job_asked_to_stop_settles_although_its_key_is_taken_where_it_ends(db, to):
    """The scope has canceled, and not running: where it really goes counts, not where its worker asked it to go."""
    scope = ("queued", "canceled", "succeeded", "dead")
    delivery = "at_most_once" if to == "failed" else "at_least_once"
    claim = db.start(unique_key="k", unique_scope=scope, delivery=delivery)
    second = db.enqueue(unique_key="k", unique_scope=scope)
    assert second.created
    db.cancel(claim.id)
    assert db.settle(claim, to, charge=1, error="boom", delay_ms=5_000) == []
    assert db.status(claim.id) == ("canceled" if to in ("scheduled", "failed") else to)
    assert db.enqueue(unique_key="k", unique_scope=scope).id == second.id
    with pytest.raises(Duplicate):
        db.retry(claim.id)
