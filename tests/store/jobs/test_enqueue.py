"""The contract of enqueue: what is written is what was asked for, all or none, in order, and safe to repeat."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta

import msgspec
import pytest

from headway.errors import Duplicate
from headway.model.ids import DEFAULT_TENANT_ID, new_id
from headway.model.job import NewJob
from headway.model.machine import Checkpoint
from tests.store.store_marks import ALL_LIBRARIES
from tests.tenant_ids import tenant_id


@dataclass
class Expected:
    """Every column of a job that was just enqueued with a different value in each."""

    tenant_id: str = tenant_id("acme")
    tenant: str = "acme"
    kind: str = "invoice"
    queue: str = "billing"
    status: str = "scheduled"
    priority: int = -7
    fence: int = 0
    tries: int = 0
    losses: int = 0
    max_attempts: int = 11
    max_losses: int = 12
    backoff_base_ms: int = 1_301
    backoff_cap_ms: int = 140_000_001
    timeout_ms: int = 15_001
    delivery: str = "at_most_once"
    idempotency_key: str = "idem-16"
    unique_key: str = "unique-17"
    unique_scope: tuple[str, ...] = ("scheduled", "running", "dead")
    queued_at: None = None
    started_at: None = None
    finished_at: None = None
    worker_id: None = None
    attempt_started_at: None = None
    cancel_requested_at: None = None
    progress: None = None
    progress_note: None = None
    log_tail: None = None
    result: None = None
    error: None = None
    correlation_id: str = "corr-18"
    trace_id: str = "00-trace-19"
    source: str = "event"
    source_ref: str = "ref-20"
    created_by: str = "ann-21"
    retry_of: None = None
    train: str = "train-22"
    on_canceled: str = "hold"
    on_dead: str = "hold"
    partition: str = "part-23"
    concurrency: int = 24
    concurrency_key: str = "key-25"
    rate_count: int = 26
    rate_period_ms: int = 27_001
    rate_burst: int = 28
    rate_key: str = "rate-29"
    limited_by: None = None
    group_id: str = "0190a6e0-0000-7000-8000-000000000030"
    pending: bool = False
    version: int = 31
    step: str = "step-32"
    awaiting: tuple[str, ...] = ("name-33", 'a {b}, "c"')
    match: str = "all"
    deadline_at: None = None
    joining: int = 34
    woken: str = "children"
    home_queue: str = "home-35"
    home_partition: str = "home-36"
    forked_from: str = "0190a6e0-0000-7000-8000-000000000037"
    parent_id: str = "0190a6e0-0000-7000-8000-000000000038"
    log_end: None = None
    template_id: str = "0190a6e0-0000-7000-8000-000000000040"
    template_revision: int = 41
    trigger_id: str = "0190a6e0-0000-7000-8000-000000000042"
    tags: tuple[str, ...] = ("eu-43", "vip-44")
    unique_group: str = "group-45"


@ALL_LIBRARIES
def test_every_field_of_a_job_is_stored_and_read_back(db, make):
    expected = Expected()
    due, expiry = db.after(3_600_001), db.after(7_200_002)
    payload = {"text": "Grüße, 世界 🚂", "n": [1, 2.5, None, True], "deep": {"a": {"b": ""}}}
    meta = {"tag": "m-22"}
    state = {"paid": [False, "Grüße 🚂"], "of": {"n": 39}}
    new = make.job(
        tenant="acme",
        tenant_id=expected.tenant_id,
        kind="invoice",
        queue="billing",
        payload=msgspec.json.encode(payload).decode(),
        priority=-7,
        scheduled_for=due,
        expires_at=expiry,
        max_attempts=11,
        max_losses=12,
        backoff_base_ms=1_301,
        backoff_cap_ms=140_000_001,
        timeout_ms=15_001,
        delivery="at_most_once",
        idempotency_key="idem-16",
        unique_key="unique-17",
        unique_scope=expected.unique_scope,
        unique_group=expected.unique_group,
        correlation_id="corr-18",
        trace_id="00-trace-19",
        source="event",
        source_ref="ref-20",
        created_by="ann-21",
        meta=msgspec.json.encode(meta).decode(),
        train="train-22",
        on_canceled="hold",
        on_dead="hold",
        partition="part-23",
        concurrency=24,
        concurrency_key="key-25",
        rate_count=26,
        rate_period_ms=27_001,
        rate_burst=28,
        rate_key="rate-29",
        group_id=expected.group_id,
        checkpoint=Checkpoint(
            version=expected.version,
            step=expected.step,
            state=msgspec.Raw(msgspec.json.encode(state)),
            awaiting=expected.awaiting,
            match=expected.match,
            joining=expected.joining,
            woken=expected.woken,
            home_queue=expected.home_queue,
            home_partition=expected.home_partition,
            forked_from=expected.forked_from,
            parent_id=expected.parent_id,
        ),
        template_id=expected.template_id,
        template_revision=expected.template_revision,
        trigger_id=expected.trigger_id,
        tags=expected.tags,
    )
    created_at = db.now()
    group = make.group(id=expected.group_id, tenant="acme", tenant_id=expected.tenant_id)
    (answer,) = db.enqueue_all([new], group)
    db.advance("1m")

    assert (answer.id, answer.status, answer.created) == (new.id, "scheduled", True)
    job = msgspec.structs.asdict(db.job(new.id))
    assert job.pop("position") > 0  # a car has its position from the start
    assert job == {
        **asdict(expected),
        "id": new.id,
        "payload": payload,
        "meta": meta,
        "state": state,
        "scheduled_for": due,
        "expires_at": expiry,
        "created_at": created_at,
    }


@ALL_LIBRARIES
def test_a_plain_job_has_the_documented_defaults(db):
    job_id = db.enqueue(kind="plain").id
    job = db.job(job_id)
    assert (job.status, job.queue, job.priority, job.payload) == ("queued", "default", 100, {})
    assert (job.max_attempts, job.max_losses, job.delivery) == (5, 5, "at_least_once")
    assert (job.backoff_base_ms, job.backoff_cap_ms, job.timeout_ms) == (1_000, 3_600_000, None)
    assert (job.tenant_id, job.tenant, job.source) == (DEFAULT_TENANT_ID, "default", "manual")
    assert (job.unique_key, job.idempotency_key, job.meta, job.expires_at) == (None, None, None, None)
    assert (job.created_at, job.queued_at) == (db.now(), db.now())
    assert job.position is not None
    assert (job.train, job.on_canceled, job.on_dead, job.partition) == (None, "advance", "advance", None)
    assert (job.concurrency, job.concurrency_key, job.rate_count, job.rate_key) == (None, None, None, None)
    assert (job.limited_by, job.group_id, job.pending) == (None, None, False)
    assert (job.version, job.step, job.state, job.awaiting, job.match) == (None, None, None, (), "any")
    assert (job.deadline_at, job.joining, job.woken, job.home_queue) == (None, None, None, None)
    assert (job.home_partition, job.forked_from, job.parent_id) == (None, None, None)


def test_no_field_of_a_new_job_is_forgotten_by_these_tests():
    stored_elsewhere = {"id", "payload", "meta", "scheduled_for", "expires_at"}  # compared beside Expected
    not_stored = {"delay_ms", "on_conflict", "after", "on_failure", "checkpoint"}  # or not in the job's own row
    not_stored |= {"replace", "debounce_max_ms"}  # for a job that is replaced
    not_stored |= {"unique_for_ms"}  # but in unique_windows
    fields = set(NewJob.__struct_fields__)
    assert fields - stored_elsewhere - not_stored <= set(asdict(Expected()))


def test_a_batch_is_answered_and_ordered_in_call_order(db, make):
    jobs = [make.job(priority=100) for _ in range(500)]
    jobs.reverse()  # ids against call order
    answers = db.enqueue_all(jobs)
    assert [answer.id for answer in answers] == [job.id for job in jobs]
    assert [claim.id for claim in db.claim(limit=500)] == [job.id for job in jobs]


def test_positions_follow_the_call_whatever_the_jobs_carry(db, make):
    """Rows may go in by their keys; checkpoints may not."""
    jobs = [
        make.job(**options)
        for options in (
            {},
            {"unique_key": "z"},
            {"train": "b"},
            {"unique_key": "a"},
            {},
            {"train": "a"},
            {"idempotency_key": "i"},
            {"train": "a"},
            {"partition": "p"},
        )
    ]
    db.enqueue_all(jobs)
    positions = [db.job(job.id).position for job in jobs]
    assert positions == sorted(set(positions))


def test_positions_strictly_increase_from_batch_to_batch(db):
    ids = db.enqueue_ids(3) + db.enqueue_ids(1) + db.enqueue_ids(2)
    positions = [db.job(job_id).position for job_id in ids]
    assert positions == sorted(set(positions))


def test_an_empty_batch_is_nothing(db):
    assert db.enqueue_all([]) == []


def test_a_large_batch_is_one_call(db, make):
    answers = db.enqueue_all([make.job(payload=f'{{"n": {n}}}') for n in range(5_000)])
    assert len({answer.id for answer in answers}) == 5_000
    assert db.run(db.ops.counts(tenant_id=None)).get("queued") == 5_000


def test_a_delay_counts_from_the_stores_now(db):
    job = db.job(db.enqueue(delay_ms=90_500).id)
    assert (job.status, job.scheduled_for) == ("scheduled", db.after(90_500))


def test_a_delayed_job_has_no_position_and_no_queued_at(db):
    job = db.job(db.enqueue(delay_ms=1).id)
    assert (job.position, job.queued_at) == (None, None)


@pytest.mark.parametrize("when", ["now", "past", "zero"])
def test_a_job_that_is_due_already_is_queued(db, when):
    options = {
        "now": {"scheduled_for": db.now()},
        "past": {"scheduled_for": db.after(-5_000)},
        "zero": {"delay_ms": 0},
    }
    answer = db.enqueue(**options[when])
    assert answer.status == "queued"
    assert db.job(answer.id).position is not None
    assert db.take().id == answer.id


def test_enqueueing_the_same_job_again_changes_nothing_and_does_not_say_created(db, make):
    job = make.job(payload='{"n": 1}', unique_key="u", idempotency_key="i")
    (first,) = db.enqueue_all([job])
    before = db.job(job.id)
    db.advance("1m")
    (second,) = db.enqueue_all([job])
    assert (first.created, second.created) == (True, False)
    assert (second.id, second.status) == (first.id, first.status)
    assert db.job(job.id) == before
    assert len(db.find()) == 1


def test_repeating_an_enqueue_that_raises_on_conflict_is_not_a_conflict_with_itself(db, make):
    job = make.job(unique_key="u", on_conflict="raise")
    db.enqueue_all([job])
    (again,) = db.enqueue_all([job])
    assert (again.id, again.created) == (job.id, False)


@pytest.mark.parametrize("more", [{}, {"train": "t"}, {"delay_ms": 1_000}, {"max_losses": 9}, {"partition": "p"}])
def test_created_tells_the_new_jobs_of_a_batch_from_those_that_were_there(db, make, more):
    old = make.job(**more)
    db.enqueue_all([old])  # at the same moment as what follows: the times of jobs do not tell who made them
    first, second, twice = (make.job(**more) for _ in range(3))
    answers = db.enqueue_all([first, old, second, twice, twice])
    assert [answer.id for answer in answers] == [first.id, old.id, second.id, twice.id, twice.id]
    assert [answer.created for answer in answers] == [True, False, True, True, False]
    assert [answer.created for answer in db.enqueue_all([first, old])] == [False, False]


def test_created_tells_the_new_jobs_of_a_batch_that_is_tied(db, make):
    first = make.job()
    second = make.job(after=(first.id,))
    assert [answer.created for answer in db.enqueue_all([first, second])] == [True, True]
    third = make.job(after=(second.id,))
    assert [answer.created for answer in db.enqueue_all([first, second, third])] == [False, False, True]
    assert db.statuses(first.id, second.id, third.id) == ["queued", "held", "held"]


def test_a_repeated_enqueue_is_answered_with_the_status_that_the_job_has_now(db, make):
    job = make.job()
    db.enqueue_all([job])
    db.take()
    (again,) = db.enqueue_all([job])
    assert (again.id, again.status) == (job.id, "running")


def test_a_batch_with_a_conflict_that_raises_enqueues_none(db, make):
    taken = db.enqueue(unique_key="taken").id
    jobs = [make.job(), make.job(unique_key="taken", on_conflict="raise"), make.job()]
    with pytest.raises(Duplicate) as caught:
        db.enqueue_all(jobs)
    assert caught.value.job_id == taken
    assert [job.id for job in db.find()] == [taken]


def test_a_batch_of_old_and_new_jobs_answers_each_in_its_place(db, make):
    old = make.job()
    db.enqueue_all([old])
    new = make.job()
    same_id_twice = make.job()
    answers = db.enqueue_all([new, old, same_id_twice, same_id_twice])
    assert [answer.id for answer in answers] == [new.id, old.id, same_id_twice.id, same_id_twice.id]
    assert len(db.find()) == 3


def test_an_enqueue_in_the_callers_transaction_exists_exactly_if_that_commits(db, make):
    job = make.job()
    db.find()  # a file is made by its first op
    conn = db.connect()
    conn.execute("begin")
    (answer,) = db.store.run_in(conn, db.ops.enqueue([job]))
    assert (answer.id, answer.created) == (job.id, True)
    assert db.run(db.ops.get([job.id], tenant_id=None)) == []
    conn.execute("rollback")
    assert db.run(db.ops.get([job.id], tenant_id=None)) == []

    conn.execute("begin")
    db.store.run_in(conn, db.ops.enqueue([job]))
    conn.execute("commit")
    conn.close()
    assert db.status(job.id) == "queued"


def test_the_names_of_tenants_are_kept(db, make):
    acme, beta = tenant_id("acme"), tenant_id("beta")
    db.enqueue_all([make.job(tenant="acme", tenant_id=acme), make.job(tenant="beta", tenant_id=beta)])
    assert db.run(db.ops.tenants([acme, beta, new_id()])) == {acme: "acme", beta: "beta"}


def test_microseconds_of_times_are_kept(db):
    due = db.now() + timedelta(days=400, microseconds=1)
    assert db.job(db.enqueue(scheduled_for=due).id).scheduled_for == due


@pytest.mark.parametrize(
    "payload",
    ['{"big": 9007199254740993}', '{"e": 1e-7}', '{"esc": "\\u00e9\\n\\"\\\\"}', '{"dup": " two  spaces "}', "[]"],
)
def test_a_payload_comes_back_as_it_was_written(db, payload):
    db.enqueue(payload=payload)
    assert msgspec.json.decode(db.take().payload) == msgspec.json.decode(payload)


@pytest.mark.parametrize(("attempts", "losses"), [(3, 5), (5, 3), (5, 5), (2, 2), (9, 5)])
@pytest.mark.parametrize("batch", [1, 2])
def test_both_budgets_are_kept_whatever_their_defaults(db, make, attempts, losses, batch):
    jobs = [make.job(max_attempts=attempts, max_losses=losses) for _ in range(batch)]
    for answer in db.enqueue_all(jobs):
        job = db.job(answer.id)
        assert (job.max_attempts, job.max_losses) == (attempts, losses)
