"""The contract of enqueue_claimed: enqueued and claimed in one transaction, only where a claim would do the same."""

from __future__ import annotations

import msgspec
import pytest

from headway.errors import NotAllowed, QueueFull
from headway.model.ids import new_id, tenant_id


@pytest.fixture
def hand(db, make):
    """Enqueue a job for a worker; gives what became of it, and the claim."""

    def hand(worker=None, **options):
        return db.run(db.ops.enqueue_claimed(make.job(**options), worker or db.home()))

    return hand


def test_the_job_is_running_and_the_claim_is_what_a_claim_would_give(db, make, hand):
    worker = db.worker()
    job = make.job(
        kind="invoice",
        queue="billing",
        payload='{"n": 1}',
        priority=7,
        max_attempts=3,
        max_losses=4,
        backoff_base_ms=5,
        backoff_cap_ms=6,
        timeout_ms=9,
    )
    enqueued, claim = db.run(db.ops.enqueue_claimed(job, worker))
    assert (enqueued.id, enqueued.status, enqueued.created) == (job.id, "queued", True)
    row = db.job(job.id)
    assert (row.status, row.fence, row.worker_id, row.priority) == ("running", 1, worker, 7)
    assert row.created_at == row.queued_at == row.started_at == row.attempt_started_at == db.now()
    (attempt,) = db.attempts(job.id)
    assert (attempt.fence, attempt.status, attempt.worker_id) == (1, "running", worker)

    db.release(claim)
    (again,) = db.claim(worker, "billing")
    assert msgspec.structs.replace(again, fence=1) == claim


def test_its_row_is_that_of_a_job_that_was_enqueued_and_then_claimed(db, make, hand):
    worker = db.worker()
    one, two = make.job(), make.job()
    db.run(db.ops.enqueue_claimed(one, worker))
    db.run(db.ops.enqueue([two]))
    db.take(worker)
    rows = [msgspec.structs.asdict(db.job(job.id)) for job in (one, two)]
    positions = [row.pop("position") for row in rows]
    assert positions[0] < positions[1]
    assert {rows[0].pop("id"), rows[1].pop("id")} == {one.id, two.id}
    assert rows[0] == rows[1]
    stored = [db.sql("select * from {jobs} where id = ?", job.id)[0] for job in (one, two)]
    assert sum(left != right for left, right in zip(*stored, strict=True)) == 2  # id and position


def test_it_is_settled_like_any_other(db, hand):
    enqueued, claim = hand()
    assert db.settle(claim, "succeeded") == []
    assert db.status(enqueued.id) == "succeeded"
    assert [attempt.status for attempt in db.attempts(enqueued.id)] == ["succeeded"]


def test_it_is_reaped_like_any_other(db, hand):
    worker = db.worker()
    enqueued, _ = hand(worker)
    db.unregister(worker)
    (lost,) = db.reap()
    assert (lost.job_id, lost.fence) == (enqueued.id, 1)
    assert [attempt.status for attempt in db.attempts(enqueued.id)] == ["lost"]


def test_what_is_queued_before_it_goes_first(db, hand):
    first = db.enqueue(priority=101).id
    enqueued, claim = hand(priority=-5)
    assert (enqueued.status, claim) == ("queued", None)
    assert [each.id for each in db.claim()] == [enqueued.id, first]


def test_other_queues_and_what_is_not_queued_are_not_in_its_way(db, hand):
    db.enqueue(queue="other")
    db.enqueue(delay_ms=60_000)
    db.start()
    db.pause("other")
    db.limit("queue", "other", max_running=1)
    _, claim = hand()
    assert claim is not None


def _paused(db):
    db.pause()


def _reserved(db):
    db.reserve(new_id())


def _fair(db):
    db.set_fair()


def _fair_for_long(db):
    db.set_fair()
    db.claim()


def _limited_queue(db):
    db.limit("queue", "default", max_running=5)


def _limited_kind(db):
    db.limit("kind", "any", max_running=5)


def _rated_kind(db):
    db.limit("kind", "any", rate_count=5, rate_period_ms=1_000)


def _limited_tenant(db):
    db.limit("tenant", "*", max_running=5)


def _metered_tenant(db):
    db.limit("tenant", "*", max_pending=5)


@pytest.mark.parametrize(
    "prepare",
    [
        _paused,
        _reserved,
        _fair,
        _fair_for_long,
        _limited_queue,
        _limited_kind,
        _rated_kind,
        _limited_tenant,
        _metered_tenant,
    ],
)
def test_where_something_may_be_in_the_way_it_is_only_enqueued(db, hand, prepare):
    prepare(db)
    enqueued, claim = hand()
    assert (enqueued.status, enqueued.created, claim) == ("queued", True, None)
    assert db.status(enqueued.id) == "queued"
    assert db.running() == []


def test_a_queue_is_free_again_when_what_was_in_the_way_is_gone(db, hand):
    db.pause()
    reservation = new_id()
    db.reserve(reservation, "other")
    db.resume()
    db.unreserve(reservation, "other")
    assert hand()[1] is not None
    assert hand(queue="other")[1] is not None


def test_a_reservation_that_is_over_is_not_in_its_way(db, hand):
    db.reserve(new_id())
    db.advance("1h")
    assert hand(db.worker())[1] is not None


@pytest.mark.parametrize(
    "options",
    [
        {"delay_ms": 60_000},
        {"tenant": "acme", "tenant_id": tenant_id("acme")},
        {"unique_key": "k"},
        {"idempotency_key": "k"},
        {"train": "t"},
        {"partition": "p"},
        {"concurrency": 1},
        {"rate_count": 1, "rate_period_ms": 1_000},
        {"delivery": "at_most_once"},
        {"correlation_id": "c"},
        {"meta": "{}"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_is_not_plain_is_only_enqueued(db, hand, options):
    enqueued, claim = hand(**options)
    assert (enqueued.created, claim) == (True, None)
    assert db.status(enqueued.id) == ("scheduled" if "delay_ms" in options else "queued")


def test_a_worker_that_is_not_registered_gets_nothing_and_the_job_is_enqueued(db, hand):
    enqueued, claim = hand(new_id())
    assert (enqueued.status, claim) == ("queued", None)
    assert db.take().id == enqueued.id


def test_a_repeat_changes_nothing_and_tells_where_the_job_is(db, make):
    worker, job = db.worker(), make.job()
    db.run(db.ops.enqueue_claimed(job, worker))
    before = db.job(job.id)
    db.advance("1s")
    enqueued, claim = db.run(db.ops.enqueue_claimed(job, worker))
    assert (enqueued.id, enqueued.status, enqueued.created, claim) == (job.id, "running", True, None)
    assert db.job(job.id) == before


def test_a_repeat_of_what_was_enqueued_but_not_claimed_does_not_claim_it(db, make):
    job = make.job()
    db.run(db.ops.enqueue([job]))
    enqueued, claim = db.run(db.ops.enqueue_claimed(job, db.home()))
    assert (enqueued.id, enqueued.status, enqueued.created, claim) == (job.id, "queued", True, None)
    assert db.status(job.id) == "queued"


def test_a_kind_that_is_not_active_is_refused_as_ever(db, hand):
    db.change_definition("shut", active=False)
    with pytest.raises(NotAllowed, match="not active"):
        hand(kind="shut")
    assert db.find() == []


def test_a_tenant_that_is_full_is_refused_as_ever(db, hand):
    db.limit("tenant", "*", max_pending=1)
    hand()
    with pytest.raises(QueueFull):
        hand()
    assert len(db.find()) == 1


def test_it_overtakes_what_waited_for_a_rate_only_where_a_claim_would(db, make, hand):
    """Its token is back: on SQLite the next claim takes it first, on PostgreSQL what is queued."""

    def crowd(queue: str) -> str:
        rated = {"kind": queue, "queue": queue, "rate_count": 1, "rate_period_ms": 1_000}
        db.enqueue(**rated)
        waits = db.enqueue(**rated).id
        assert len(db.claim(queue=queue)) == 1
        return waits

    first, second = crowd("one"), crowd("two")
    db.advance("2s")
    _, claim = hand(queue="two")  # first, for a claim puts what waits for any rate back
    db.enqueue(queue="one")
    claims_rated = db.take(queue="one").id == first
    assert (claim is None) == claims_rated == (db.dialect == "sqlite")
    assert db.status(second) == "queued"
