"""What verbs that know nothing of steps do to machines: cancel, retry, change, release, prune, order and exclusion."""

from __future__ import annotations

import pytest

from tests.store.machines.machine_calls import QUIET, changed, checkpoint, ids_of, inbox, on

OUTCOMES = {
    "next": {},
    "on": {},
    "replay": {"progress": False, "delay_ms": 5_000},
    "await": {"awaiting": ("paid",)},
    "sleep": {"delay_ms": 60_000},
}


def settle(db, make, claim, outcome, **values):
    """End it with any outcome after which it would go on."""
    if outcome == "spawn":
        return db.turn(claim, "spawn", children=(make.job(queue="children"),), **values)
    to = "running" if outcome == "on" else None
    return db.turn(claim, "next" if to else outcome, to, **OUTCOMES[outcome], **values)


def waiting(db, how, make, **options):
    """The id of a machine that waits for a signal or for a child."""
    if how == "await":
        return db.parked("paid", **options)
    claim = db.begin(**options)
    db.spawn(claim, make.job(queue="children"))
    return claim.id


HOW = pytest.mark.parametrize("how", ["await", "spawn"])


# cancel


@pytest.mark.parametrize("outcome", [*OUTCOMES, "spawn"])
def test_a_machine_asked_to_cancel_ends_canceled_instead_of_going_on(db, make, outcome):
    claim = db.begin(state={"n": 1})
    sent = db.signal(claim.id, "paid")
    db.cancel(claim.id, reason="not needed")
    assert settle(db, make, claim, outcome, state={"n": 2}, step="two", consumed=(sent.id,)) == QUIET
    job = db.job(claim.id)
    assert (job.status, job.finished_at, job.cancel_requested_at) == ("canceled", db.now(), None)
    assert (job.worker_id, job.fence) == (None, 1)
    assert "not needed" in job.error
    (attempt,) = db.attempts(claim.id)
    assert attempt.outcome == ("next" if outcome == "on" else outcome)
    assert db.claim() == db.claim(queue="children") == []
    assert {each.status for each in db.find(queue="children")} <= {"canceled"}


def test_a_spawn_that_a_cancel_overtook_is_done_again_when_retried(db, make):
    """No child was made: what comes after the Spawn must not run without them."""
    claim = db.begin(step="fan", state={"n": 1}, awaiting=("paid",), match="all", woken="signal")
    sent = db.signal(claim.id, "paid")
    db.cancel(claim.id)
    db.turn(claim, "spawn", step="sum", state={"n": 2}, consumed=(sent.id,), children=(make.job(queue="kids"),))
    assert db.status(claim.id) == "canceled"
    assert db.find(queue="kids") == []
    db.retry(claim.id)
    again = db.take()
    at = checkpoint(again)
    assert (at.step, bytes(at.state), at.awaiting, at.match, at.woken) == (
        "fan",
        b'{"n":1}',
        ("paid",),
        "all",
        "signal",
    )
    assert inbox(again) == ["paid"]


@pytest.mark.parametrize(("outcome", "status"), [("done", "succeeded"), ("stop", "dead")])
def test_a_machine_asked_to_cancel_that_ends_by_itself_ends_so(db, outcome, status):
    claim = db.begin()
    db.cancel(claim.id)
    db.turn(claim, outcome)
    assert db.status(claim.id) == status


@HOW
def test_a_waiting_machine_is_canceled_at_once(db, make, how):
    job_id = waiting(db, how, make)
    before = db.job(job_id)
    db.advance("1s")
    assert db.cancel(job_id, reason="enough") == {job_id: "canceled"}
    db.process_arrivals()
    after = db.job(job_id)
    assert (after.status, after.finished_at, after.pending) == ("canceled", db.now(), False)
    assert "enough" in after.error
    assert (after.step, after.awaiting, after.joining) == (before.step, before.awaiting, before.joining)
    assert db.claim() == []


def test_a_waiting_machine_expires(db):
    job_id = db.parked("paid", expires_at=db.after(5_000))
    db.advance("6s")
    assert db.promote().expired == 1
    assert db.status(job_id) == "canceled"


# an operator's retry


@pytest.mark.parametrize(("outcome", "status"), [("done", "succeeded"), ("stop", "dead")])
def test_a_retried_machine_goes_on_with_the_step_at_which_it_ended(db, outcome, status):
    claim = db.begin()
    claim = db.go_on(claim, "ship", state={"n": 2})
    db.turn(claim, outcome)
    assert db.status(claim.id) == status
    db.advance("1m")
    assert db.retry(claim.id, actor="ann") == {claim.id: claim.id}
    again = db.take()
    assert (again.fence, again.tries, checkpoint(again).step, bytes(checkpoint(again).state)) == (
        3,
        0,
        "ship",
        b'{"n":2}',
    )


def test_a_retried_step_sees_the_signals_that_it_never_consumed(db):
    job_id = db.parked("paid")
    db.signal(job_id, "paid")
    db.settle(db.take(), "dead", charge=1, error="boom")
    assert [status for _, status, _ in db.inboxes(job_id)] == ["undelivered"]
    db.retry(job_id)
    assert [status for _, status, _ in db.inboxes(job_id)] == ["pending"]
    again = db.take()
    assert (inbox(again), checkpoint(again).awaiting, checkpoint(again).woken) == (["paid"], ("paid",), "signal")


def test_a_machine_that_was_canceled_while_it_waited_waits_again(db):
    job_id = db.parked("paid", deadline_ms=600_000)
    db.cancel(job_id, reason="by mistake")
    db.advance("1m")
    before = db.job(job_id)
    assert db.retry(job_id) == {job_id: job_id}
    difference = changed(before, db.job(job_id))
    difference.pop("queued_at", None)  # it is not queued
    assert difference == {"status": "waiting", "finished_at": None, "error": None}
    assert db.claim() == []
    db.signal(job_id, "paid")
    assert inbox(db.take()) == ["paid"]


def test_a_retried_machine_whose_deadline_has_passed_times_out(db):
    job_id = db.parked("paid", deadline_ms=5_000)
    db.cancel(job_id)
    db.advance("1m")
    assert db.promote().queued == 0
    db.retry(job_id)
    db.promote()
    assert db.woken(job_id) == ("queued", "timeout")


def test_a_retried_machine_still_has_the_signals_that_came_before_its_cancel(db):
    job_id = db.parked("paid", "other", match="all")
    db.signal(job_id, "paid")
    db.process_arrivals()
    db.cancel(job_id)
    db.retry(job_id)
    assert db.woken(job_id) == ("waiting", None)
    db.signal(job_id, "other")
    assert db.woken(job_id) == ("queued", "signal")


def test_a_machine_canceled_after_it_was_woken_is_queued_when_retried(db):
    job_id = db.parked("paid")
    db.signal(job_id, "paid")
    assert db.woken(job_id) == ("queued", "signal")
    db.cancel(job_id)
    db.retry(job_id)
    assert db.woken(job_id) == ("queued", "signal")


@pytest.mark.parametrize("when", ["while it slept", "before"])
def test_a_machine_that_was_canceled_while_it_slept_sleeps_on_until_its_time(db, when):
    claim = db.begin()
    if when == "before":
        db.cancel(claim.id)
    db.turn(claim, "sleep", delay_ms=60_000, step="two")
    if when == "while it slept":
        db.cancel(claim.id)
    db.advance("20s")
    db.retry(claim.id)
    assert db.claim() == []
    assert db.promote().next_due_ms == 40_000
    db.advance("40s")
    db.promote()
    assert checkpoint(db.take()).step == "two"


@pytest.mark.parametrize("how", ["it is late", "it was woken", "another time"])
def test_a_machine_whose_sleep_is_over_is_queued_when_retried(db, how):
    claim = db.begin()
    db.turn(claim, "sleep", delay_ms=60_000, step="two")
    if how == "it was woken":
        db.change(claim.id, delay_ms=0)
    db.cancel(claim.id)
    db.advance("20s" if how != "it is late" else "61s")
    db.retry(claim.id, **({"delay_ms": 0} if how == "another time" else {}))
    assert checkpoint(db.take()).step == "two"


# at_most_once


def test_the_job_that_retries_a_machine_is_where_that_was(db):
    claim = db.begin(
        delivery="at_most_once",
        version=3,
        step="pay",
        state={"n": 1},
        awaiting=("paid", "late"),
        match="all",
        joining=7,
        woken="signal",
        home_queue="h-1",
        home_partition="h-2",
    )
    used, kept = db.signal(claim.id, "used", dedup_key="d-1"), db.signal(claim.id, "kept", {"a": 2}, dedup_key="d-2")
    claim = db.go_on(claim, "ship", consumed=(used.id,))
    old = db.job(claim.id)
    db.settle(claim, "failed", charge=1, error="boom")
    (new,) = db.find(retry_of=claim.id)
    same = ("version", "step", "state", "awaiting", "match", "joining", "woken", "home_queue", "home_partition")
    assert {name: getattr(new, name) for name in same} == {name: getattr(old, name) for name in same}
    again = db.take()
    assert (again.id, inbox(again), checkpoint(again).step) == (new.id, ["kept"], "ship")
    assert [(each.id, each.name) for each in db.signals(new.id)] == [(kept.id, "kept")]
    assert db.inboxes(claim.id) == [("used", "consumed", 1)]


def test_a_lost_machine_that_may_not_run_twice_goes_on_as_another_job(db):
    gone = db.worker()
    claim = db.begin(gone, delivery="at_most_once", step="pay", state={"n": 1}, awaiting=("paid",), woken="signal")
    db.signal(claim.id, "paid")
    db.reap(gone)
    db.advance("1h")
    db.promote()
    again = db.take()
    assert again.id != claim.id
    assert (checkpoint(again).step, checkpoint(again).awaiting, inbox(again)) == ("pay", ("paid",), ["paid"])


# versions, queues and partitions of steps


def test_an_outcome_writes_the_version_that_ran(db):
    claim = db.begin(version=1)
    db.turn(claim, "next", version=2, step="two")
    assert (db.job(claim.id).version, db.attempts(claim.id)[0].version) == (2, 2)
    assert checkpoint(db.take()).version == 2


def test_a_release_gives_the_machine_back_as_it_was(db):
    claim = db.begin(version=9, step="pay", state={"n": 1}, awaiting=("paid",), woken="timeout")
    db.signal(claim.id, "paid")
    before = db.job(claim.id)
    assert db.release(claim, delay_ms=30_000) == 1
    difference = changed(before, db.job(claim.id))
    assert set(difference) <= {"status", "scheduled_for", "worker_id", "attempt_started_at", "started_at"}
    assert db.attempts(claim.id) == []
    db.advance("1m")
    db.promote()
    assert inbox(db.take()) == ["paid"]


def test_a_step_may_go_to_another_queue_and_come_home(db):
    claim = db.begin(queue="shop", partition="order:1")
    away = {"queue": "gpu", "partition": "card:1", "home_queue": "shop", "home_partition": "order:1"}
    db.turn(claim, "next", step="render", **away)
    job = db.job(claim.id)
    assert (job.queue, job.partition, job.home_queue, job.home_partition) == ("gpu", "card:1", "shop", "order:1")
    assert db.claim(queue="shop") == []
    claim = db.take(queue="gpu")
    assert (checkpoint(claim).home_queue, checkpoint(claim).home_partition) == ("shop", "order:1")
    db.turn(claim, "next", step="ship", queue="shop", partition="order:1")
    job = db.job(claim.id)
    assert (job.queue, job.partition, job.home_queue, job.home_partition) == ("shop", "order:1", None, None)
    assert checkpoint(db.take(queue="shop")).home_queue is None


def test_the_partition_that_a_step_left_is_free(db):
    claim = db.begin(partition="p")
    behind = db.machine(partition="p")
    assert db.claim() == []
    db.turn(claim, "next", step="two", queue="other", partition="q")
    assert [each.id for each in db.claim()] == [behind]


def test_a_step_that_goes_into_a_queue_of_two_tenants_takes_its_turn(db):
    claim = db.begin()
    db.enqueue_ids(3, queue="shared", tenant="acme")
    for _ in range(2):
        db.finish(db.take(queue="shared"))
    db.turn(claim, "next", step="two", queue="shared")
    for tenant in ("acme", "beta"):
        db.enqueue_ids(9, queue="shared", tenant=tenant, priority=1)
    assert claim.id in [each.id for each in db.claim(queue="shared", limit=3)]


# unique keys


@pytest.mark.parametrize("outcome", ["await", "next", "sleep", "spawn"])
def test_a_machine_that_would_enter_a_taken_unique_scope_ends_canceled(db, make, outcome):
    scope = ("queued", "scheduled", "waiting")
    claim = db.begin(unique_key="k", unique_scope=scope)
    rival = db.machine(unique_key="k", unique_scope=scope, queue="other")
    assert settle(db, make, claim, outcome) == QUIET
    job = db.job(claim.id)
    assert job.status == "canceled"
    assert rival in job.error
    assert db.status(rival) == "queued"
    assert {each.status for each in db.find(queue="children")} <= {"canceled"}


@HOW
def test_a_waiting_machine_keeps_its_unique_key(db, make, how):
    job_id = waiting(db, how, make, unique_key="k")
    assert db.enqueue_all([make.machine(unique_key="k")])[0].id == job_id


def test_a_machine_that_leaves_its_scope_by_waiting_has_its_key_again_or_ends(db):
    """Waking enters the scope of `queued`, which another took meanwhile."""
    job_id = db.parked("paid", unique_key="k", unique_scope=("queued",))
    rival = db.machine(unique_key="k", unique_scope=("queued",), queue="other")
    db.signal(job_id, "paid")
    db.process_arrivals()
    job = db.job(job_id)
    assert job.status == "canceled"
    assert rival in job.error


# change and prune


def test_a_waiting_machine_may_be_changed(db):
    job_id = db.parked("paid")
    before = db.job(job_id)
    db.change(job_id, priority=7, queue="fast", max_attempts=9, expires_at=db.after(10_000))
    assert changed(before, db.job(job_id)) == {
        "priority": 7,
        "queue": "fast",
        "max_attempts": 9,
        "expires_at": db.after(10_000),
    }
    db.signal(job_id, "paid")
    assert db.take(queue="fast").id == job_id


def test_prune_takes_signals_and_attempts_along(db):
    claim = db.begin()
    sent = db.signal(claim.id, "paid")
    db.signal(claim.id, "late")
    db.turn(claim, "done", consumed=(sent.id,))
    db.advance("1h")
    assert db.prune("succeeded", older_than_ms=60_000) == 1
    assert db.sql("select count(*) from {signals}") == [(0,)]
    assert db.signals(claim.id) == db.attempts(claim.id) == []


def test_a_waiting_machine_is_never_pruned(db):
    job_id = db.parked("paid")
    db.advance("1000h")
    for status in ("succeeded", "dead", "canceled", "failed"):
        assert db.prune(status, older_than_ms=0) == 0
    assert db.status(job_id) == "waiting"


# order and exclusion


@HOW
def test_a_waiting_locomotive_keeps_its_train(db, make, how):
    claim = db.begin(train="t")
    behind = db.machine(train="t")
    if how == "await":
        db.park(claim, "paid")
    else:
        db.spawn(claim, make.job(queue="children"))
    assert db.statuses(claim.id, behind) == ["waiting", "held"]
    assert db.claim() == []
    db.signal(claim.id, "paid") if how == "await" else db.finish(db.take(queue="children"))
    again = db.take()
    assert again.id == claim.id
    db.turn(again, "done")
    assert [each.id for each in db.claim()] == [behind]


@pytest.mark.parametrize("outcome", ["next", "on", "replay", "sleep"])
def test_a_locomotive_keeps_its_train_through_its_steps(db, make, outcome):
    claim = db.begin(train="t")
    behind = db.machine(train="t")
    position = db.job(claim.id).position
    settle(db, make, claim, outcome)
    assert db.job(claim.id).position == position
    db.advance("2m")
    db.promote()
    assert [each.id for each in db.claim()] == ([] if outcome == "on" else [claim.id])
    assert db.statuses(behind) == ["held"]


def test_a_waiting_locomotive_that_is_canceled_lets_its_train_go(db):
    job_id = db.parked("paid", train="t")
    behind = db.machine(train="t")
    db.cancel(job_id)
    assert [claim.id for claim in db.claim()] == [behind]


def test_a_retried_locomotive_waits_again_only_when_its_train_is_free(db):
    job_id = db.parked("paid", train="t")
    behind = db.machine(train="t")
    db.cancel(job_id)
    other = db.take()
    assert other.id == behind
    db.retry(job_id)
    db.signal(job_id, "paid")
    assert db.claim() == []
    assert db.statuses(job_id, behind) == ["held", "running"]
    db.finish(other)
    assert [claim.id for claim in db.claim()] == [job_id]


@HOW
def test_a_partition_is_free_while_its_machine_waits(db, make, how):
    job_id = waiting(db, how, make, partition="p")
    other = db.begin(partition="p")
    if how == "await":
        db.signal(job_id, "paid")
    else:
        db.finish(db.take(queue="children"))
    assert db.claim() == []  # woken, but the other has the key
    db.turn(other, "done")
    assert [claim.id for claim in db.claim()] == [job_id]


def test_one_that_goes_on_keeps_its_partition_and_its_limit(db):
    db.limit("queue", "default", max_running=1)
    claim = db.begin(partition="p")
    behind = [db.machine(partition="p"), db.machine()]
    again = db.go_on(claim)
    assert db.claim() == []
    db.turn(again, "done")
    assert [each.id for each in db.claim()] == behind[:1]


@HOW
def test_a_waiting_machine_counts_against_no_limit(db, make, how):
    db.limit("kind", "checkout", max_running=1)
    job_id = waiting(db, how, make)
    other = db.begin()
    db.signal(job_id, "paid") if how == "await" else db.finish(db.take(queue="children"))
    assert db.claim() == []
    db.turn(other, "done")
    assert [claim.id for claim in db.claim()] == [job_id]


def test_a_group_is_over_when_its_machines_are(db, make):
    group = make.group()
    member = make.machine(group_id=group.id)
    callback = make.job(after=(member.id,), queue="callbacks", group_id=None)
    db.enqueue_all([member, callback], make.group(id=group.id, callback_id=callback.id))
    db.park(db.take(), "paid")
    assert db.claim(queue="callbacks") == []
    db.signal(member.id, "paid")
    claim = db.take()
    db.turn(claim, "done", consumed=ids_of(claim, "paid"))
    assert [each.id for each in db.claim(queue="callbacks")] == [callback.id]


def test_a_machine_with_after_begins_when_the_others_are_over(db):
    first = db.start(queue="first")
    machine = db.machine(after=(first.id,), step="pay")
    db.signal(machine, "early")
    assert db.claim() == []
    db.finish(first)
    assert (inbox(claim := db.take()), checkpoint(claim).step) == (["early"], "pay")


def test_positions_are_kept_by_waking_and_new_after_next(db):
    first = db.begin()
    db.park(first, "paid")
    second, third = db.machine(), db.machine()
    db.signal(first.id, "paid")
    claims = db.claim()
    assert [claim.id for claim in claims] == [first.id, second, third]
    db.turn(claims[0], "next", step="two")
    fourth = db.machine()
    db.release(*claims[1:])
    assert [claim.id for claim in db.claim()] == [second, third, first.id, fourth]


def test_one_that_goes_on_may_be_reaped_and_stays_at_its_step(db):
    gone = db.worker()
    claim = db.begin(gone)
    db.turn(claim, "next", "running", gone, step="two", state={"n": 2})
    (reaped,) = db.reap(gone)
    assert (reaped.job_id, reaped.fence, reaped.to) == (claim.id, 2, "scheduled")
    job = db.job(claim.id)
    assert (job.step, job.state, job.losses) == ("two", {"n": 2}, 1)
    assert db.turn(on(claim), "done", worker=gone).lost == [(claim.id, 2)]
