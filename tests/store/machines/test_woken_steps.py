"""A step that was woken keeps what woke it until it has an outcome, however often it is given back: one table, on both
stores. The step must not run as if it had not been woken, nor wait once more for what has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headway.model.job import Claim
from headway.model.reported import Failure
from tests.store.machines.machine_calls import checkpoint, inbox
from tests.store.machines.test_waits import MACHINES, QUEUE, Wait, all_of, begun, put_back
from tests.store.store_marks import POSTGRES

Way = Callable[[Any, Claim], str]
"""Takes the step off its worker, which it ran on; gives the id that runs next."""


def release(db: Any, claim: Claim) -> str:
    db.release(claim)
    return claim.id


def release_for_a_while(db: Any, claim: Claim) -> str:
    db.release(claim, delay_ms=30_000)
    return claim.id


def lose(db: Any, claim: Claim) -> str:
    db.release(claim)
    gone = db.worker()
    db.take(gone, QUEUE)
    assert [each.to for each in db.reap(gone)] == ["scheduled"]
    return claim.id


def fail(db: Any, claim: Claim) -> str:
    db.settle(claim, "scheduled", charge=1, delay_ms=1_000, error="boom")
    return claim.id


def fail_over_http(db: Any, claim: Claim) -> str:
    db.fail(Failure(claim.id, claim.fence, "boom"))
    return claim.id


def snooze(db: Any, claim: Claim) -> str:
    db.settle(claim, "scheduled", status="snoozed", delay_ms=1_000)
    return claim.id


def replay(db: Any, claim: Claim) -> str:
    db.turn(claim, "replay", delay_ms=1_000, progress=False)
    return claim.id


def cancel_and_retry(db: Any, claim: Claim) -> str:
    db.cancel(claim.id)
    db.settle(claim, "canceled")
    return put_back(db, claim.id)


def cancel_what_was_given_back(db: Any, claim: Claim) -> str:
    db.release(claim)
    db.cancel(claim.id)
    return put_back(db, claim.id)


def die_and_retry(db: Any, claim: Claim) -> str:
    db.settle(claim, "dead", charge=1, error="boom")
    (runs_as,) = db.retry(claim.id).values()
    return str(runs_as)


def pause_and_move(db: Any, claim: Claim) -> str:
    db.pause(QUEUE)
    db.release(claim)
    if db.job(claim.id).train is None:
        db.move(claim.id, last=True)
    db.resume(QUEUE)
    return claim.id


def limit(db: Any, claim: Claim) -> str:
    db.limit("kind", claim.kind, max_running=1)  # another one of its group runs
    db.release(claim)
    assert db.claim(queue=QUEUE) == []
    db.limit("kind", claim.kind)
    return claim.id


WAYS: tuple[Way, ...] = (
    *(release, release_for_a_while, lose, fail, fail_over_http, snooze, replay),
    *(cancel_and_retry, cancel_what_was_given_back, die_and_retry, pause_and_move, limit),
)


def woken(db: Any, make: Any, wait: Wait, **options: Any) -> Claim:
    """What it waits for has come, and its step runs."""
    before = begun(db, make, wait, **options)
    wait.come(db, before.id)
    claim: Claim = db.take(queue=QUEUE)
    assert (claim.id, checkpoint(claim).woken) == (before.id, wait.woken)
    return claim


def seen(db: Any, claim: Claim) -> Any:
    at = checkpoint(claim)
    children = [(each.status, each.result) for each in db.children(claim.id)]
    return at.step, at.awaiting, at.match, at.woken, inbox(claim), at.joining is not None, children


def is_as_before(db: Any, before: Any, runs_as: str) -> Claim:
    for ahead in db.claim(queue="others"):  # the cars that came first meanwhile
        db.finish(ahead)
    db.advance("1m")
    db.promote()
    db.process_arrivals()
    claim: Claim = db.take(queue=QUEUE)
    assert claim.id == runs_as
    assert seen(db, claim) == before
    return claim


@all_of("wait", MACHINES)
@all_of("way", WAYS)
@pytest.mark.parametrize("train", [None, "t"])
def test_a_step_that_is_given_back_was_woken_by_what_woke_it(db, make, wait, way, train):
    claim = woken(db, make, wait, train=train)
    if train is not None:
        db.machine(train=train, queue="others")
    before = seen(db, claim)
    again = is_as_before(db, before, way(db, claim))
    # and once more, by another way
    is_as_before(db, before, release(db, again))


@all_of("wait", MACHINES)
@all_of("way", (cancel_and_retry, die_and_retry))
def test_the_new_job_that_retries_an_at_most_once_one_was_woken_by_it(db, make, wait, way):
    claim = woken(db, make, wait, delivery="at_most_once")
    before = seen(db, claim)
    is_as_before(db, before, way(db, claim))


@POSTGRES
@all_of("wait", MACHINES)
@pytest.mark.parametrize("train", [None, "t"])
def test_sql_cancels_and_retries_a_woken_step_alike(db, make, wait, train):
    claim = woken(db, make, wait, train=train)
    before = seen(db, claim)
    db.sql("select headway.cancel(array[?]::uuid[])", claim.id)
    db.settle(claim, "canceled")
    ((runs_as,),) = db.sql("select runs_as::text from headway.retry(array[?]::uuid[])", claim.id)
    db.process_arrivals()
    is_as_before(db, before, runs_as)
