"""What a job waits for, and everything that takes it off and puts it back: one table, on both stores.

A job waits for signals, children, a time, capacity or other jobs. It is canceled, skipped, cleared, expired or stopped
with its group, and retried: at once, as a car when its turn comes, or behind the jobs before it. A machine's Await,
Spawn and Sleep are part of what it does and are kept, with their deadlines. A delay, a backoff and a poll (Replay) say
when to try: a retry tries now. The store decides, so no worker is asked: none may even see such a job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from headway.errors import NotAllowed
from headway.model.ids import new_id
from headway.model.job import Job, Settlement
from headway.model.machine import Began, forked
from tests.store.machines.machine_calls import changed, checkpoint, inbox, new_machine
from tests.store.store_marks import POSTGRES

HOUR = 3_600_000
QUEUE = "waits"


@dataclass(frozen=True)
class Wait:
    """One thing to wait for: `begin` gives a job that waits for it, `come` lets it happen."""

    name: str
    begin: Callable[..., str]
    status: str
    kept: bool = True  # a retry waits again
    woken: str | None = None  # what the step sees then
    come: Callable[[Any, str], None] = lambda db, job_id: None


def _await(*names: str, there: tuple[str, ...] = (), **values: Any) -> Callable[..., str]:
    def begin(db: Any, **options: Any) -> str:
        job_id = db.parked(*names, queue=QUEUE, deadline_ms=HOUR, **options, **values)
        for name in there:
            db.signal(job_id, name)
        db.process_arrivals()
        return job_id

    return begin


def _spawn(db: Any, **options: Any) -> str:
    claim = db.begin(queue=QUEUE, **options)
    db.spawn(claim, new_machine(queue="kids"), step="join")
    db.claim(queue="kids")  # it runs, so that a cancel only asks it to stop
    return claim.id


def _ends(outcome: str, **values: Any) -> Callable[..., str]:
    def begin(db: Any, **options: Any) -> str:
        claim = db.begin(queue=QUEUE, **options)
        db.turn(claim, outcome, delay_ms=HOUR, **values)
        return claim.id

    return begin


def _fails(db: Any, **options: Any) -> str:
    claim = db.begin(queue=QUEUE, **options)
    db.settle(claim, "scheduled", delay_ms=HOUR, charge=1, error="boom")
    return claim.id


def _delayed(db: Any, **options: Any) -> str:
    return db.machine(queue=QUEUE, scheduled_for=db.after(HOUR), **options)


def _limited(db: Any, **options: Any) -> str:
    job_id = db.machine(queue=QUEUE, kind="few", **options)
    db.limit("kind", "few", max_running=1)
    db.machine(queue="busy", kind="few")
    db.claim(queue="busy")
    assert db.claim(queue=QUEUE) == []
    return job_id


def _child_ends(db: Any, job_id: str) -> None:
    (child,) = db.children(job_id)
    job = db.job(child.id)
    assert db.settle_all([Settlement(id=job.id, fence=job.fence, status="succeeded", to="succeeded")]) == []


def _later(db: Any, job_id: str) -> None:
    db.advance("61m")
    db.promote()


def _room(db: Any, job_id: str) -> None:
    db.limit("kind", "few", max_running=2)


WAITS = (
    Wait("signal", _await("paid"), "waiting", woken="signal", come=lambda db, job_id: db.signal(job_id, "paid")),
    Wait(
        "signals",
        _await("paid", "packed", match="all", there=("paid",)),
        "waiting",
        woken="signal",
        come=lambda db, job_id: db.signal(job_id, "packed"),
    ),
    Wait("deadline", _await("paid"), "waiting", woken="timeout", come=_later),
    Wait("children", _spawn, "waiting", woken="children", come=_child_ends),
    Wait("sleep", _ends("sleep", step="morning"), "scheduled", come=_later),
    Wait("capacity", _limited, "queued", come=_room),
    Wait("poll", _ends("replay", progress=False), "scheduled", kept=False),
    Wait("backoff", _fails, "scheduled", kept=False),
    Wait("delay", _delayed, "scheduled", kept=False),
)
MACHINES = WAITS[:5]
by_name = {"ids": lambda value: getattr(value, "name", None) or getattr(value, "__name__", str(value)).strip("_")}


def all_of(name: str, values: Any) -> Any:
    return pytest.mark.parametrize(name, values, **by_name)


def goes_on_as_before(db: Any, wait: Wait, before: Job, job_id: str) -> None:
    """Its turn is there: it stands where it stood, with the same deadline, and no worker gets it before that has come.
    What is not kept runs at once."""
    db.process_arrivals()
    if wait.kept:
        assert db.claim(queue=QUEUE) == []
        after = db.job(job_id)
        assert after.status == wait.status
        if wait.name == "capacity":
            assert after.limited_by is not None
        else:
            same = ("step", "state", "awaiting", "match", "deadline_at", "joining", "woken", "pending")
            assert {name: getattr(after, name) for name in same} == {name: getattr(before, name) for name in same}
        if wait.status == "scheduled":
            assert after.scheduled_for == before.scheduled_for
        wait.come(db, job_id)
    (claim,) = db.claim(queue=QUEUE)
    at = checkpoint(claim)
    assert (claim.id, claim.tries, at.step, at.woken) == (job_id, 0, before.step, wait.woken)
    assert inbox(claim) == {"signal": ["paid"], "signals": ["paid", "packed"]}.get(wait.name, [])


# how a job is taken off


def cancel(db: Any, job_id: str) -> None:
    db.cancel(job_id)


def expire(db: Any, job_id: str) -> None:
    db.change(job_id, expires_at=db.after(1_000))
    db.advance("2s")
    assert db.promote().expired == 1


def group(db: Any, job_id: str) -> None:
    db.cancel_group(db.job(job_id).group_id)


def skip(db: Any, job_id: str) -> None:
    db.skip(job_id)


def clear(db: Any, job_id: str) -> None:
    db.clear_train("t")


def twice(db: Any, job_id: str) -> None:
    """Retried, and canceled again."""
    db.cancel(job_id)
    db.process_arrivals()
    (job_id,) = db.retry(job_id).values()
    db.process_arrivals()
    db.cancel(job_id)


def begun(db: Any, make: Any, wait: Wait, *, parent: Any = None, **options: Any) -> Job:
    """It waits; the row as it is then."""
    grouped = make.group()
    db.enqueue_all([make.machine(queue="members", group_id=grouped.id)], grouped)
    db.claim(queue="members")
    if parent is not None:
        db.finish(parent)
    job_id = wait.begin(db, group_id=grouped.id, **options)
    db.process_arrivals()
    job = db.job(job_id)
    assert job.status == wait.status
    return job


def put_back(db: Any, job_id: str) -> str:
    db.process_arrivals()
    assert db.status(job_id) == "canceled"
    (runs_as,) = db.retry(job_id).values()
    return runs_as


@all_of("wait", WAITS)
@all_of("way", (cancel, expire, group, twice))
def test_a_retried_job_waits_for_what_it_waited_for(db, make, wait, way):
    before = begun(db, make, wait)
    way(db, before.id)
    goes_on_as_before(db, wait, before, put_back(db, before.id))


@all_of("wait", WAITS)
@all_of("way", (cancel, expire, group, skip, clear, twice))
def test_a_retried_car_waits_for_what_it_waited_for(db, make, wait, way):
    before = begun(db, make, wait, train="t")
    behind = db.machine(train="t", queue="others")
    way(db, before.id)
    if way is not clear:
        (other,) = db.claim(queue="others")
    runs_as = put_back(db, before.id)
    if way is not clear:
        assert db.statuses(runs_as, behind) == ["held", "running"]
        db.finish(other)
    goes_on_as_before(db, wait, before, runs_as)


@all_of("wait", WAITS)
@pytest.mark.parametrize("train", [None, "t"])
def test_a_retried_job_behind_another_waits_first_for_that_one(db, make, wait, train):
    """Both are retried together; and so is a job whose parent had died, which had stopped it."""
    parent = db.start(queue="parents")
    before = begun(db, make, wait, train=train, after=(parent.id,), parent=parent)
    db.cancel(before.id)
    runs = db.retry(before.id, parent.id)
    assert db.statuses(*runs.values()) in (["held", "queued"], ["queued", "held"])
    assert db.claim(queue=QUEUE) == []
    db.finish(*db.claim(queue="parents"))
    goes_on_as_before(db, wait, before, runs[before.id])


@all_of("wait", WAITS)
@pytest.mark.parametrize("train", [None, "t"])
def test_the_new_job_that_retries_an_at_most_once_one_waits_for_what_that_waited_for(db, make, wait, train):
    before = begun(db, make, wait, train=train, delivery="at_most_once")
    cancel(db, before.id)
    runs_as = put_back(db, before.id)
    assert (runs_as == before.id) == (before.fence == 0)
    db.process_arrivals()
    cancel(db, runs_as)
    assert put_back(db, runs_as) == runs_as  # it has not run
    goes_on_as_before(db, wait, before, runs_as)


# how the turn of a retried car comes


def _ends_well(db: Any, ahead: Any, job_id: str) -> None:
    db.finish(ahead)


def _dies(db: Any, ahead: Any, job_id: str) -> None:
    db.settle(ahead, "dead", error="boom")


def _is_stopped(db: Any, ahead: Any, job_id: str) -> None:
    db.cancel(ahead.id)
    db.settle(ahead, "canceled")


def _is_lost(db: Any, ahead: Any, job_id: str) -> None:
    db.release(ahead)
    gone = db.worker()
    db.take(gone, "others")
    assert [each.to for each in db.reap(gone)] == ["dead"]


def _train_resumes(db: Any, ahead: Any, job_id: str) -> None:
    db.hold_train("t")
    db.finish(ahead)
    db.process_arrivals()
    assert db.status(job_id) == "held"
    db.resume_train("t")


def _moves(db: Any, ahead: Any, job_id: str) -> None:
    """Behind another car, and to the front again."""
    other = db.machine(train="t", queue="others")
    db.move(job_id, last=True)
    db.move(job_id, before=other)
    db.finish(ahead)


def _next_is_skipped(db: Any, ahead: Any, job_id: str) -> None:
    """It stands behind another held car."""
    other = db.machine(train="t", queue="others")
    db.move(job_id, after=other)
    db.skip(other)
    db.finish(ahead)


def _queue_is_paused(db: Any, ahead: Any, job_id: str) -> None:
    db.pause(QUEUE)
    db.finish(ahead)
    db.process_arrivals()
    db.resume(QUEUE)


@all_of("wait", WAITS)
@all_of(
    "turn",
    (
        *(_ends_well, _dies, _is_stopped, _is_lost, _train_resumes),
        *(_moves, _next_is_skipped, _queue_is_paused),
    ),
)
def test_a_car_waits_again_however_its_turn_comes(db, make, wait, turn):
    before = begun(db, make, wait, train="t")
    db.machine(train="t", queue="others", max_losses=1)
    cancel(db, before.id)
    (ahead,) = db.claim(queue="others")
    runs_as = put_back(db, before.id)
    turn(db, ahead, runs_as)
    goes_on_as_before(db, wait, before, runs_as)


@all_of("wait", MACHINES)
@pytest.mark.parametrize("when", ["canceled", "held"])
def test_what_comes_before_its_turn_counts(db, make, wait, when):
    before = begun(db, make, wait, train="t")
    db.machine(train="t", queue="others")
    db.cancel(before.id)
    (ahead,) = db.claim(queue="others")
    if when == "canceled" and wait.name in ("signal", "signals"):
        db.retry(before.id)  # a canceled job takes no signals
        wait.come(db, before.id)
        db.cancel(before.id)
    elif when == "canceled":
        wait.come(db, before.id)
    db.retry(before.id)
    if when == "held":
        wait.come(db, before.id)
    db.process_arrivals()
    assert db.claim(queue=QUEUE) == []
    db.finish(ahead)
    db.process_arrivals()
    db.promote()
    (claim,) = db.claim(queue=QUEUE)
    assert (claim.id, checkpoint(claim).step, checkpoint(claim).woken) == (before.id, before.step, wait.woken)


# what leaves a waiting job alone


def _retry_refused(db: Any, job: Job) -> None:
    assert db.retry(job.id) == {}


def _pause_and_resume(db: Any, job: Job) -> None:
    db.pause(QUEUE)
    db.resume(QUEUE)


def _hold_and_resume(db: Any, job: Job) -> None:
    db.hold_train("t")
    db.process_arrivals()
    db.resume_train("t")


def _limits(db: Any, job: Job) -> None:
    db.limit("queue", QUEUE, max_running=1)
    db.limit("tenant", job.tenant_id, max_running=5)
    db.limit("tenant", job.tenant_id)
    db.limit("queue", QUEUE)


def _reserve(db: Any, job: Job) -> None:
    reservation = new_id()
    db.reserve(reservation, QUEUE)
    db.claim(queue=QUEUE)
    db.unreserve(reservation, QUEUE)


def _suspend_and_resume_tenant(db: Any, job: Job) -> None:
    db.run(db.ops.suspend_tenant(job.tenant_id, actor=None))
    db.claim(queue=QUEUE)
    db.run(db.ops.resume_tenant(job.tenant_id, actor=None))


def _move_refused(db: Any, job: Job) -> None:
    with pytest.raises(NotAllowed):
        db.move(job.id, first=True)


def _sweep(db: Any, job: Job) -> None:
    db.promote()
    db.sweep()
    db.claim(queue=QUEUE)


def _other_worker_is_gone(db: Any, job: Job) -> None:
    gone = db.worker()
    db.enqueue(queue="elsewhere")
    db.take(gone, "elsewhere")
    db.reap(gone)


def _other_car_is_canceled_and_retried(db: Any, job: Job) -> None:
    other = db.machine(train="t", queue="others")
    db.cancel(other)
    db.retry(other)
    db.process_arrivals()
    assert db.status(other) == "held"


@all_of("wait", WAITS)
@all_of(
    "verb",
    (
        *(_retry_refused, _pause_and_resume, _hold_and_resume, _limits, _reserve, _move_refused),
        *(_suspend_and_resume_tenant, _sweep, _other_worker_is_gone, _other_car_is_canceled_and_retried),
    ),
)
def test_what_leaves_a_waiting_locomotive_alone(db, make, wait, verb):
    before = begun(db, make, wait, train="t")
    verb(db, before)
    db.process_arrivals()
    assert changed(before, db.job(before.id)) == {}


# by SQL


@POSTGRES
@all_of("wait", WAITS)
@pytest.mark.parametrize("train", [None, "t"])
def test_sql_takes_a_job_off_and_puts_it_back_alike(db, make, wait, train):
    before = begun(db, make, wait, train=train)
    db.sql("select headway.cancel(array[?]::uuid[])", before.id)
    ((runs_as,),) = db.sql("select runs_as::text from headway.retry(array[?]::uuid[])", before.id)
    goes_on_as_before(db, wait, before, runs_as)


# forks


@all_of("wait", MACHINES)
def test_a_fork_of_a_car_begins_with_the_step_that_ran(db, make, wait):
    """It does not wait for what its origin waits for: it runs again what led there."""
    before = begun(db, make, wait, train="t")
    (attempt,) = db.attempts(before.id)
    at, seen = forked(
        before, [attempt], db.signals(before.id), Began(), at=1, state=None, step=None, encode=lambda value: "{}"
    )
    fork = make.machine(train="t", queue="forks", **{name: getattr(at, name) for name in ("step", "awaiting", "woken")})
    db.fork(fork, *(make.signal(fork.id, each.name) for each in seen))
    assert db.statuses(fork.id) == ["held"]
    db.skip(before.id)
    assert [claim.id for claim in db.claim(queue="forks")] == [fork.id]


def test_a_fork_of_a_step_that_ran_before_it_was_woken_runs_it_again(db, make):
    """As an older library ran the step of a car that was canceled while it waited, and retried."""
    claim = db.begin(step="ship", awaiting=("paid",), woken=None)
    sent = db.signal(claim.id, "paid")
    db.turn(claim, "next", step="two", consumed=(sent.id,))
    attempts, signals = db.attempts(claim.id), db.signals(claim.id)
    at, seen = forked(db.job(claim.id), attempts, signals, Began(), at=1, state=None, step=None, encode=str)
    assert (at.step, at.awaiting, at.woken, [each.id for each in seen]) == ("ship", ("paid",), "signal", [sent.id])
