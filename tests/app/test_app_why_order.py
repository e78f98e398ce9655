"""why() of jobs that order and exclusion hold back: what stands in the way, and the way out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from headway import Headway
from headway.testing import drain, held

AT = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
SINCE = "2031-05-06T07:08:09+00:00"


@pytest.fixture
def work(app: Headway) -> Any:
    @app.job(queue="mail", max_attempts=1)
    def work(fails: bool = False) -> None:
        if fails:
            raise LookupError("no such user")

    return work


@contextmanager
def running(app: Headway, kind: Any, count: int) -> Iterator[list[str]]:
    """Run so many jobs of a blocking kind, with more slots than that; gives the ids of those that run."""
    blocked = threading.Event()
    release.append(blocked)
    worker = threading.Thread(target=lambda: drain(app, concurrency=count + 2))
    worker.start()
    try:
        while app.counts().get("running", 0) < count:
            blocked.wait(0.005)
        blocked.wait(0.05)
        yield [job.id for job in app.jobs(status="running")]
    finally:
        blocked.set()
        worker.join()
        release.clear()


release: list[threading.Event] = []


def blocks() -> None:
    release[0].wait(60)


def first(app: Any, job: Any) -> str:
    return str(app.why(job.id).reasons[0])


def test_a_car_behind_others(app: Headway, work: Any) -> None:
    jobs = [work.using(train="dest_42").enqueue() for _ in range(13)]
    assert first(app, jobs[2]) == (
        f"held behind job {jobs[0].id} (queued), third in train dest_42: headway trains show dest_42; "
        f"to run it before the others, headway jobs move {jobs[2].id} --first"
    )
    assert "(queued), second in train dest_42:" in first(app, jobs[1])
    assert "(queued), 12th in train dest_42:" in first(app, jobs[11])
    assert "(queued), 13th in train dest_42:" in first(app, jobs[12])
    assert app.why(jobs[2].id).reasons[1] == (
        "no worker listens to queue mail: start one with headway worker module:app --queues mail"
    )


def test_a_car_of_another_tenant(app: Headway, work: Any) -> None:
    acme = app.tenant("acme")
    jobs = [acme.enqueue(work.using(train="t").build()) for _ in range(2)]
    for seen_by in (app, acme):
        assert "second in train t: headway trains show t --tenant acme;" in first(seen_by, jobs[1])


def test_a_train_on_hold_after_a_death(app: Headway, work: Any) -> None:
    with held(app, AT):
        bad = work.using(train="dest_42", on_dead="hold").enqueue(fails=True)
        jobs = [work.using(train="dest_42").enqueue() for _ in range(2)]
        drain(app)
    on_hold = (
        f"train dest_42 has been on hold since {SINCE}, because job {bad.id} is dead: headway trains resume dest_42 "
        f"goes on without it, headway jobs retry {bad.id} with it"
    )
    assert app.why(jobs[0].id).reasons[0] == on_hold
    second = app.why(jobs[1].id).reasons
    assert second[0] == on_hold
    assert second[1].startswith(f"held behind job {jobs[0].id} (held), second in train dest_42: headway trains show")


def test_a_train_that_somebody_put_on_hold(app: Headway, work: Any) -> None:
    with held(app, AT):
        app.hold_train("t", reason="migration", actor="ada")
        job = work.using(train="t").enqueue()
        assert (
            first(app, job)
            == f"train t has been on hold since {SINCE}, put on hold by ada (migration): headway trains resume t"
        )


def test_a_scheduled_car_says_that_its_train_waits(app: Headway, work: Any) -> None:
    job = work.using(train="t", delay="5m").enqueue()
    behind = work.using(train="t").enqueue()
    assert first(app, job).endswith("; train t waits for it")
    assert f"held behind job {job.id} (scheduled), second in train t" in first(app, behind)


def test_a_job_that_waits_for_others(app: Headway, work: Any) -> None:
    one, two = work.enqueue(), work.using(delay="1h").enqueue()
    job = work.using(after=[one, two]).enqueue()
    reason = first(app, job)
    assert reason.startswith("it waits for 2 jobs: ")
    assert f"{one.id} (queued)" in reason
    assert f"{two.id} (scheduled)" in reason
    assert reason.endswith(f", or headway jobs cancel {job.id}")
    many = work.using(after=[work.enqueue() for _ in range(8)]).enqueue()
    assert " and 3 more: headway jobs why " in first(app, many)


def test_a_member_of_a_group_that_waits(app: Headway, work: Any) -> None:
    group = app.group([work.build(), work.build()], mode="sequential")
    assert f"(it is in group {group.id}: headway groups show {group.id})" in first(app, group.jobs[1])


def test_a_car_that_waits_for_others_too(app: Headway, work: Any) -> None:
    one = work.enqueue()
    head = work.using(train="t", after=one).enqueue()
    behind = work.using(train="t").enqueue()
    assert first(app, head).startswith("it waits for 1 job")
    assert len([reason for reason in app.why(head.id).reasons if "train t" in reason]) == 0
    assert f"held behind job {head.id} (which waits for other jobs), second in train t" in first(app, behind)


def test_a_held_job_that_is_due_later(app: Headway, work: Any) -> None:
    with held(app, AT):
        work.using(train="t").enqueue()
        job = work.using(train="t", delay="5m").enqueue()
        assert app.why(job.id).reasons[1] == (
            "once nothing holds it, it is scheduled for 2031-05-06T07:13:09+00:00 (in 5m 0s)"
        )


def limited(app: Headway, options: dict[str, Any], before: Callable[[], Any] = lambda: None) -> tuple[list[str], str]:
    kind = app.job(name="blocks", **options)(blocks)
    before()
    jobs = [kind.enqueue() for _ in range(3)]
    with running(app, kind, 1) as ids:
        waiting = next(job for job in reversed(jobs) if job.id not in ids)
        return ids, first(app, waiting)


def test_a_partition_that_is_busy(app: Headway) -> None:
    (busy,), reason = limited(app, {"partition": "order:42"})
    assert reason == (
        f"partition order:42 is busy with job {busy}; 2 jobs wait for that: it runs when that has ended; to see it, "
        "headway jobs list --status running"
    )


def test_a_key_that_is_full(app: Headway) -> None:
    _, reason = limited(app, {"concurrency": 1, "concurrency_key": "7"})
    assert reason == (
        "limited: 1 of 1 jobs of kind blocks with key 7 run now; 2 jobs wait for that: it runs when one has ended "
        "(concurrency= of the kind)"
    )


def test_a_kind_that_is_full(app: Headway) -> None:
    said = "limited: 1 of 1 jobs of kind blocks run now; 2 jobs wait for that: "
    way_out = "headway limits set --kind blocks --max-running N"
    assert limited(app, {"concurrency": 1})[1] == said + way_out


def test_a_kind_that_is_full_by_an_operators_limit(app: Headway) -> None:
    _, reason = limited(app, {"concurrency": 9}, lambda: app.limit(kind="blocks", max_running=1))
    assert reason.startswith("limited: 1 of 1 jobs of kind blocks run now")


def test_a_tenant_that_is_full(app: Headway) -> None:
    _, reason = limited(app, {}, lambda: app.limit(tenant="*", max_running=1))
    assert reason == (
        "limited: 1 of 1 jobs of tenant default run now; 2 jobs wait for that: "
        "headway limits set --tenant default --max-running N"
    )


def test_a_queue_that_is_full(app: Headway) -> None:
    _, reason = limited(app, {"queue": "gpu"}, lambda: app.limit(queue="gpu", max_running=1))
    assert reason == "queue gpu is at its limit, 1 of 1 jobs run now: headway queues set gpu --max-running N"


def test_a_rate_that_is_used_up(app: Headway) -> None:
    @app.job(rate="2/min", rate_key="7", burst=1)
    def work() -> None: ...

    work.enqueue()
    job = work.enqueue()
    acme = app.tenant("acme").enqueue(work.build())
    drain(app)
    assert first(app, job) == (
        "rate 2/min of kind work with key 7 is used up; 1 job waits for that: a start becomes possible every 30.0s, in "
        "order; rate= of the kind changes that"
    )
    assert app.get(acme.id).status == "succeeded"  # a key is a tenant's own


def test_a_limited_job_of_a_tenant(app: Headway) -> None:
    @app.job(rate="1/h")
    def work() -> None: ...

    acme = app.tenant("acme")
    acme.enqueue("work")
    job = acme.enqueue("work")
    drain(app)
    assert first(acme, job) == (
        "rate 1/h of kind work is used up; 1 job waits for that: the next may start 1h 0m after the oldest start of "
        "that time, in order; headway limits set --kind work --rate N/min changes that"
    )


def test_a_reserved_queue(app: Headway, work: Any) -> None:
    with held(app, AT):
        job = work.enqueue()
        with app.reserve("mail", expires="10m", holder="host:7"):
            assert first(app, job) == (
                "queue mail is reserved by host:7 until 2031-05-06T07:18:09+00:00, unless it is renewed: its jobs "
                "start again when the reservation is released, or has expired after its process ended"
            )
        assert "reserved" not in first(app, job)


def test_a_queue_of_two_tenants(app: Headway, work: Any) -> None:
    for _ in range(3):
        work.enqueue()
    job, next_ = (work.using(tenant="acme").enqueue() for _ in range(2))
    acme = app.tenant("acme")
    turns = ": tenants take turns, so the 3 jobs of others before it do not hold it up"
    assert app.why(job.id).reasons[-1] == f"it is next of tenant acme in queue mail; 0 of its jobs run now{turns}"
    assert app.why(next_.id).reasons[-1] == f"1 job of queue mail comes before it, 0 run now{turns}"
    assert acme.why(job.id).reasons[-1] == (
        "it is next in queue mail; 0 of its jobs run now, in turn with other tenants"
    )
    app.fair("mail", False)
    assert app.why(job.id).reasons[-1] == "3 jobs of queue mail come before it, 0 run now"
    assert acme.why(job.id).reasons[-1] == (
        "it is next in queue mail; 0 of its jobs run now, after what other tenants have before it"
    )
