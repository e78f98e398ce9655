"""The public API for plain jobs, line by line of DESIGN section 3, in both colours on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from headway import Context, Enqueued, Headway, Job, Outcome
from headway.errors import Duplicate, InvalidJob, NotAllowed, NotFound, UnknownKind
from headway.testing import drain

Call = Callable[..., Any]


@pytest.fixture
def welcome(app: Headway) -> Any:
    @app.job(queue="mail", max_attempts=3, timeout="30s")
    async def welcome(user_id: int) -> str:
        return f"hello {user_id}"

    return welcome


@pytest.fixture
def fails(app: Headway) -> Any:
    @app.job(max_attempts=1)
    def fails(user_id: int) -> None:
        raise LookupError(f"no user {user_id}")

    return fails


def test_a_job_is_enqueued_run_and_its_result_read(app: Headway, welcome: Any, call: Call) -> None:
    job = call(welcome, "enqueue", user_id=7)
    assert isinstance(job, Enqueued)
    assert (job.status, job.created) == ("queued", True)
    stored = call(app, "get", job.id)
    assert (stored.kind, stored.queue, stored.payload) == ("welcome", "mail", {"user_id": 7})
    assert (stored.max_attempts, stored.max_losses, stored.timeout_ms, stored.priority) == (3, 3, 30_000, 100)
    assert drain(app).succeeded == 1
    assert call(app, "result", job.id, timeout=120) == Outcome("succeeded", "hello 7", None)
    assert call(app, "get", UUID(job.id)).result == "hello 7"


def test_arguments_go_by_place_or_by_name(welcome: Any, app: Headway, call: Call) -> None:
    for job in (call(welcome, "enqueue", 7), call(welcome, "enqueue", user_id=7)):
        assert call(app, "get", job.id).payload == {"user_id": 7}
    assert asyncio.run(welcome(7)) == "hello 7"  # still a function
    with pytest.raises(InvalidJob, match="there is no such parameter; it takes user_id"):
        call(welcome, "enqueue", user=7)


def test_using_sets_what_one_job_has_of_its_own(app: Headway, welcome: Any, call: Call) -> None:
    expires_at = datetime.now(UTC) + timedelta(days=1)
    kind = welcome.using(
        priority=10,
        delay="5m",
        unique_key="w7",
        queue="slow",
        max_attempts=9,
        max_losses=2,
        timeout="1m",
        backoff=("2s", "1h"),
        expires_at=expires_at,
        idempotency_key="once",
        correlation_id="c1",
        trace_id="t1",
        source="system",
        source_ref="s1",
        created_by="ada",
        meta={"a": [1]},
        tenant="acme",
        delivery="at_most_once",
    )
    job = call(app, "get", call(kind, "enqueue", user_id=7).id)
    assert job.status == "scheduled"
    assert job.scheduled_for is not None
    assert timedelta(minutes=4) < job.scheduled_for - job.created_at <= timedelta(minutes=5)
    assert (job.priority, job.unique_key, job.queue, job.max_attempts, job.max_losses) == (10, "w7", "slow", 9, 2)
    assert (job.timeout_ms, job.backoff_base_ms, job.backoff_cap_ms) == (60_000, 2_000, 3_600_000)
    assert (job.expires_at, job.idempotency_key) == (expires_at, "once")
    assert (job.correlation_id, job.trace_id, job.source, job.source_ref) == ("c1", "t1", "system", "s1")
    assert (job.created_by, job.meta, job.tenant, job.delivery) == ("ada", {"a": [1]}, "acme", "at_most_once")
    assert call(app, "get", call(welcome, "enqueue", user_id=8).id).priority == 100  # the kind stays as it was


def test_many_are_one_batch_in_order_all_or_none(app: Headway, welcome: Any, call: Call) -> None:
    jobs = call(app, "enqueue_many", (welcome.build(user_id=i) for i in range(1_000)))
    assert len({job.id for job in jobs}) == 1_000
    found = call(app, "jobs", kind="welcome", limit=1_000)
    assert [job.payload["user_id"] for job in reversed(found)] == list(range(1_000))
    taken = welcome.using(unique_key="x", on_conflict="raise")
    with pytest.raises(Duplicate):
        call(app, "enqueue_many", [taken.build(1), welcome.build(2), taken.build(3)])
    assert app.counts() == {"queued": 1_000}
    assert call(app, "enqueue_many", []) == []


def test_a_kind_is_enqueued_by_name_known_here_or_not(app: Headway, welcome: Any, call: Call) -> None:
    known = call(app, "enqueue", "welcome", {"user_id": 7}, tenant="acme")
    job = call(app, "get", known.id)
    assert (job.queue, job.max_attempts, job.tenant) == ("mail", 3, "acme")
    with pytest.raises(UnknownKind, match="did you mean welcome"):
        call(app, "enqueue", "wlecome", {"user_id": 7})
    with pytest.raises(UnknownKind, match="did you mean welcome"):
        call(app.tenant("acme"), "enqueue", "wlecome", {"user_id": 7})
    producer = Headway(app.url)  # has no code at all
    unknown = call(producer, "enqueue", "elsewhere", {"any": ["thing"]}, queue="theirs", priority=1)
    app.change_definition("elsewhere", queue="theirs")
    assert call(app, "enqueue", "elsewhere", {}).created, "a definition is enough"
    call(producer, "close")
    job = call(app, "get", unknown.id)
    assert (job.kind, job.queue, job.max_attempts, job.priority) == ("elsewhere", "theirs", 5, 1)
    assert job.payload == {"any": ["thing"]}
    built = call(app, "enqueue", welcome.using(priority=3).build(7))
    assert call(app, "get", built.id).priority == 3
    with pytest.raises(InvalidJob, match="the argument user_id is missing"):
        call(app, "enqueue", "welcome")
    with pytest.raises(InvalidJob, match="give its options to using"):
        call(app, "enqueue", welcome.build(7), priority=1)


def test_an_existing_job_is_returned_or_raised(app: Headway, welcome: Any, call: Call) -> None:
    for option in ("unique_key", "idempotency_key"):
        first = call(welcome.using(**{option: "w7"}), "enqueue", user_id=7)
        second = call(welcome.using(**{option: "w7"}), "enqueue", user_id=8)
        assert (second.id, second.created, second.status) == (first.id, False, "queued")
    with pytest.raises(Duplicate) as caught:
        call(welcome.using(unique_key="w7", on_conflict="raise"), "enqueue", user_id=9)
    assert caught.value.job_id == next(job.id for job in app.jobs() if job.unique_key == "w7")
    drain(app)
    assert call(welcome.using(unique_key="w7"), "enqueue", user_id=7).created is True  # out of scope
    assert call(welcome.using(idempotency_key="w7"), "enqueue", user_id=7).created is False  # forever


def test_jobs_are_found_by_filters_page_by_page(app: Headway, welcome: Any, fails: Any, call: Call) -> None:
    call(fails, "enqueue", 1)
    drain(app)
    ids = [call(welcome, "enqueue", n).id for n in range(5)]
    (dead,) = call(app, "jobs", status="dead", kind="fails", limit=50)
    assert isinstance(dead, Job)
    assert dead.error is not None
    assert dead.error.startswith("LookupError: no user 1")
    assert [job.id for job in call(app, "jobs", queue="mail", limit=2)] == ids[:2:-1]
    assert [job.id for job in call(app, "jobs", queue="mail", limit=9, before=ids[3])] == ids[2::-1]
    assert call(app, "jobs", created_after=datetime.now(UTC) + timedelta(hours=1)) == []
    assert call(app, "counts") == {"queued": 5, "dead": 1}


def test_attempts_are_listed_and_a_dead_job_is_retried(app: Headway, fails: Any, call: Call) -> None:
    job = call(fails, "enqueue", user_id=1)
    drain(app)
    (attempt,) = call(app, "attempts", job.id)
    assert (attempt.job_id, attempt.fence, attempt.status) == (job.id, 1, "failed")
    assert attempt.finished_at is not None
    assert attempt.finished_at >= attempt.started_at
    assert call(app, "retry", job.id, actor="ada") == job.id
    assert call(app, "get", job.id).status == "queued"
    with pytest.raises(NotAllowed, match="only a finished job can be retried"):
        call(app, "retry", job.id)
    drain(app)
    assert [attempt.fence for attempt in call(app, "attempts", job.id)] == [1, 2]
    assert [(entry.actor, entry.action) for entry in call(app, "audit", job.id)] == [("ada", "retry")]


def test_a_job_is_canceled_changed_and_explained(app: Headway, welcome: Any, call: Call) -> None:
    job = call(welcome, "enqueue", user_id=7)
    later = datetime.now(UTC) + timedelta(hours=1)
    status = call(app, "change", job.id, priority=1, scheduled_for=later, max_attempts=9, queue="slow")
    assert status == "scheduled"
    changed = call(app, "get", job.id)
    assert (changed.priority, changed.max_attempts, changed.queue) == (1, 9, "slow")
    assert changed.scheduled_for == later
    assert "scheduled for" in str(call(app, "why", job.id))
    assert call(app, "change", job.id, scheduled_for=None, payload={"user_id": 8}) == "queued"
    assert call(app, "cancel", job.id, reason="not needed", actor="ada") == "canceled"
    ended = call(app, "get", job.id)
    assert (ended.status, ended.error, ended.payload) == ("canceled", "not needed", {"user_id": 8})
    with pytest.raises(NotAllowed):
        call(app, "change", job.id, priority=2)
    assert call(app, "cancel", job.id) == "canceled"


def test_a_queue_is_paused_and_resumed(app: Headway, welcome: Any, call: Call) -> None:
    call(welcome, "enqueue", user_id=7)
    call(app, "pause", "mail", actor="ada")
    assert drain(app).succeeded == 0
    (queue,) = [queue for queue in call(app, "queues") if queue.name == "mail"]
    assert (queue.paused, queue.paused_by, queue.counts) == (True, "ada", {"queued": 1})
    call(app, "resume", "mail")
    assert drain(app).succeeded == 1
    assert call(app, "workers") == []


def test_what_is_not_there_is_not_found(app: Headway, call: Call) -> None:
    missing = str(uuid4())
    for verb in ("get", "attempts", "cancel", "retry", "why"):
        with pytest.raises(NotFound, match=f"there is no job {missing}"):
            call(app, verb, missing)
    with pytest.raises(NotFound, match=missing):
        call(app, "change", missing, priority=1)
    with pytest.raises(NotFound, match=missing):
        call(app, "result", missing, timeout=0)
    with pytest.raises(NotFound, match="'seven' is not a job id"):
        call(app, "get", "seven")


def test_many_are_counted_canceled_and_retried_by_filter(app: Headway, welcome: Any, fails: Any) -> None:
    app.enqueue_many(welcome.build(n) for n in range(5))
    assert app.count_jobs(kind="welcome") == 5
    assert app.cancel_jobs(kind="welcome", reason="all of them") == 5
    assert app.cancel_jobs(kind="welcome") == 0
    assert app.retry_jobs(kind="welcome", status="canceled") == 5
    assert drain(app).succeeded == 5


@pytest.mark.parametrize("keep_place", [False, True])
def test_a_mass_retry_runs_what_waits_for_others_after_them_and_behind_live_work(
    app: Headway, welcome: Any, keep_place: bool
) -> None:
    first = welcome.enqueue(1)
    second = welcome.using(after=[first.id]).enqueue(2)
    drain(app)
    live = welcome.enqueue(3)
    assert app.retry_jobs(kind="welcome", status="succeeded", keep_place=keep_place) == 2
    # positions, not start times: a claim passes over a row that a promote has locked at that moment
    places = {job.id: app.get(job.id).position or 0 for job in (first, live)}
    assert (places[first.id] < places[live.id]) is keep_place
    assert drain(app, concurrency=1).succeeded == 3
    started = [app.attempts(job.id)[-1].started_at for job in (first, second)]
    assert started == sorted(started)


def test_a_handler_sees_its_context(app: Headway) -> None:
    seen: list[Any] = []

    @app.job(name="mails.welcome", queue="mail")
    def welcome(ctx: Context, user_id: int) -> None:
        ctx.progress(0.4, "nearly")
        ctx.log("line one")
        ctx.log("line two")
        seen.append((ctx.job_id, ctx.tenant, ctx.kind, ctx.queue, ctx.tries, ctx.losses, ctx.fence))
        seen.append((ctx.trace_id, ctx.correlation_id, ctx.meta, ctx.canceled))

    job = welcome.using(tenant="acme", trace_id="t", correlation_id="c", meta={"m": 1}).enqueue(user_id=7)
    assert drain(app).succeeded == 1
    assert seen == [(job.id, "acme", "mails.welcome", "mail", 0, 0, 1), ("t", "c", {"m": 1}, False)]
    stored = app.get(job.id)
    assert (stored.progress, stored.progress_note, stored.log_tail) == (0.4, "nearly", "line one\nline two")
