"""Signals: durable, in order, once per dedup_key; consumed exactly as seen; and they wake the machines that wait."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

import msgspec
import pytest

from headway.errors import InvalidPayload, NotAllowed, NotFound
from headway.model.ids import DEFAULT_TENANT_ID, new_id
from tests.store.machines.machine_calls import QUIET, checkpoint, ids_of, inbox
from tests.tenant_ids import tenant_id

ACME, BETA = tenant_id("acme"), tenant_id("beta")


def names_of(db, job_id):
    return [each.name for each in db.signals(job_id)]


def test_every_field_of_a_signal_is_stored(db):
    job_id = db.machine(queue="shop")
    signal_id = new_id()
    sent_at = db.now()
    sent = db.signal(job_id, "paid \u2603", {"n": [1, 2.5, None]}, id=signal_id, dedup_key="evt-7", created_by="key:k")
    assert msgspec.structs.asdict(sent) == {"id": signal_id, "job_id": job_id, "queue": "shop", "created": True}
    db.advance("1m")
    claim = db.take(queue="shop")
    (seen,) = checkpoint(claim).signals
    assert (seen.id, seen.name, seen.payload, seen.dedup_key) == (
        signal_id,
        "paid \u2603",
        {"n": [1, 2.5, None]},
        "evt-7",
    )
    assert seen.sent_at == round(sent_at.timestamp() * 1_000_000)
    consumed_at = db.advance("1m")
    db.turn(claim, "done", consumed=(signal_id,))
    assert [msgspec.structs.asdict(each) for each in db.signals(job_id)] == [
        {
            "id": signal_id,
            "job_id": job_id,
            "name": "paid \u2603",
            "payload": {"n": [1, 2.5, None]},
            "dedup_key": "evt-7",
            "sent_at": sent_at,
            "status": "consumed",
            "consumed_at": consumed_at,
            "fence": 1,
            "created_by": "key:k",
        }
    ]


@pytest.mark.parametrize("payload", [None, 0, False, "", [], {"s": "Grüße 🚂 ' \" \\"}, 2**53 + 1])
def test_a_payload_is_any_json(db, payload):
    job_id = db.machine()
    db.signal(job_id, "paid", payload)
    assert db.signals(job_id)[0].payload == payload
    assert checkpoint(db.take()).signals[0].payload == payload


@pytest.mark.parametrize(
    "payload", [{"body": {"$secret": "NAME"}}, {"$secret": 7, "x": 1}, [[{"a": {"$secret": None}}]]]
)
def test_a_signal_with_a_reference_to_a_secret_is_refused(db, payload):
    job_id = db.machine()
    with pytest.raises(InvalidPayload) as refused:
        db.signal(job_id, "paid", payload)
    assert str(refused.value) == (
        'the data of a signal holds a reference to a secret ("$secret"), which only payloads of jobs, templates and '
        "triggers may: nothing was sent"
    )
    db.signal(job_id, "paid", {"text": '{"$secret": "NAME"}'})
    assert len(db.signals(job_id)) == 1


def test_a_signal_after_the_await_wakes_the_machine(db):
    job_id = db.parked("paid", deadline_ms=60_000)
    before = db.job(job_id)
    db.advance("1s")
    db.signal(job_id, "paid")
    assert db.woken(job_id) == ("queued", "signal")
    job = db.job(job_id)
    assert (job.queued_at, job.position) == (db.now(), before.position)
    assert (job.awaiting, job.deadline_at) == (("paid",), None)
    claim = db.take()
    assert (checkpoint(claim).awaiting, checkpoint(claim).woken, inbox(claim)) == (("paid",), "signal", ["paid"])


def test_a_claim_alone_wakes_it(db):
    job_id = db.parked("paid")
    db.signal(job_id, "paid")
    assert [claim.id for claim in db.claim()] == [job_id]


def test_a_signal_before_the_await_is_enough(db):
    claim = db.begin()
    db.signal(claim.id, "paid")
    assert db.park(claim, "paid", deadline_ms=60_000) == "queued"
    assert (db.job(claim.id).woken, db.job(claim.id).deadline_at) == ("signal", None)
    assert inbox(db.take()) == ["paid"]


def test_a_signal_before_the_first_step_is_seen_by_it(db):
    job_id = db.machine(delay_ms=60_000)
    db.signal(job_id, "early")
    assert db.status(job_id) == "scheduled"
    db.advance("2m")
    db.promote()
    assert inbox(db.take()) == ["early"]


def test_a_signal_of_another_name_stays_for_a_later_await(db):
    job_id = db.parked("paid")
    db.signal(job_id, "shipped")
    assert db.woken(job_id) == ("waiting", None)
    db.signal(job_id, "paid")
    claim = db.take()
    assert inbox(claim) == ["shipped", "paid"]
    assert db.park(claim, "shipped", consumed=ids_of(claim, "paid")) == "queued"
    claim = db.take()
    assert inbox(claim) == ["shipped"]
    db.turn(claim, "done", consumed=ids_of(claim, "shipped"))
    assert db.inboxes(job_id) == [("shipped", "consumed", 3), ("paid", "consumed", 2)]


def test_any_of_several_names_wakes(db):
    job_id = db.parked("paid", "refunded")
    db.signal(job_id, "refunded")
    assert db.woken(job_id) == ("queued", "signal")


def test_all_of_several_names_wake_only_together(db):
    job_id = db.parked("a", "b", "c", match="all")
    for name in ("a", "c", "a", "x"):
        db.signal(job_id, name)
        assert db.woken(job_id) == ("waiting", None)
    db.signal(job_id, "b")
    assert db.woken(job_id) == ("queued", "signal")
    assert inbox(db.take()) == ["a", "c", "a", "x", "b"]


def test_all_of_several_names_may_be_there_before(db):
    claim = db.begin()
    db.signal_all([])
    for name in ("a", "b"):
        db.signal(claim.id, name)
    assert db.park(claim, "a", "b", match="all") == "queued"
    assert db.job(claim.id).match == "all"


def test_some_of_all_there_before_is_not_enough(db):
    claim = db.begin()
    db.signal(claim.id, "a")
    assert db.park(claim, "a", "b", match="all") == "waiting"


def test_several_signals_of_one_name_are_all_seen_in_order_of_arrival(db, make):
    job_id = db.parked("tick")
    db.signal_all([make.signal(job_id, "tick", n) for n in reversed(range(10))])
    db.signal(job_id, "tick", 10)
    claim = db.take()
    assert [each.payload for each in checkpoint(claim).signals] == [*reversed(range(10)), 10]
    assert [each.payload for each in db.signals(job_id)] == [*reversed(range(10)), 10]
    # one that came while the step ran is not consumed by it
    db.signal(job_id, "tick", 11)
    assert db.park(claim, "tick", consumed=ids_of(claim, "tick")) == "queued"
    assert [each.payload for each in checkpoint(db.take()).signals] == [11]


def test_names_may_hold_anything(db):
    names = ("a,b", '{"x"}', "null", "ü ☃", "%s", "a' or 1=1 --")
    for name in names:
        job_id = db.parked(name, "never", queue="q")
        db.signal(job_id, name.upper() + "?")
        assert db.woken(job_id) == ("waiting", None)
        db.signal(job_id, name)
        assert db.woken(job_id) == ("queued", "signal")
        db.turn(db.take(queue="q"), "done")


# repeats


def test_a_repeated_dedup_key_is_answered_with_the_first(db):
    job_id = db.machine(queue="shop")
    first = db.signal(job_id, "paid", 1, dedup_key="evt-1")
    again = db.signal(job_id, "paid", 2, dedup_key="evt-1")
    assert again == msgspec.structs.replace(first, created=False)
    assert [each.payload for each in db.signals(job_id)] == [1]


def test_a_dedup_key_is_a_repeat_also_when_its_signal_was_consumed(db):
    claim = db.begin()
    first = db.signal(claim.id, "paid", dedup_key="evt-1")
    db.park(claim, "paid", consumed=(first.id,))
    assert db.signal(claim.id, "paid", dedup_key="evt-1").created is False
    assert db.woken(claim.id) == ("waiting", None)


@pytest.mark.parametrize("consumed", [True, False])
@pytest.mark.parametrize("end", ["done", "stop", "cancel"])
def test_a_dedup_key_is_a_repeat_also_when_the_machine_is_over(db, end, consumed):
    claim = db.begin()
    first = db.signal(claim.id, "paid", dedup_key="evt-1")
    db.cancel(claim.id)
    db.turn(claim, "next" if end == "cancel" else end, consumed=(first.id,) if consumed else ())
    again = db.signal(claim.id, "paid", dedup_key="evt-1")
    assert (again.id, again.created) == (first.id, False)
    with pytest.raises(NotAllowed):
        db.signal(claim.id, "paid", dedup_key="evt-2")


def test_a_dedup_key_is_of_its_job_alone(db):
    one, two = db.machine(), db.machine()
    assert db.signal(one, "paid", dedup_key="k").created
    assert db.signal(two, "paid", dedup_key="k").created


def test_a_dedup_key_inside_one_batch_is_one_signal(db, make):
    job_id = db.machine()
    answers = db.signal_all([make.signal(job_id, "a", n, dedup_key="k" if n < 2 else None) for n in range(4)])
    assert [answer.created for answer in answers] == [True, False, True, True]
    assert answers[1].id == answers[0].id
    assert [each.payload for each in db.signals(job_id)] == [0, 2, 3]


def test_the_same_signal_sent_twice_is_there_once(db, make):
    """A sender that lost the answer sends it again under the same id."""
    job_id = db.machine()
    signal = make.signal(job_id, "paid")
    assert [db.signal_all([signal])[0].created for _ in range(2)] == [True, False]
    assert len(db.signals(job_id)) == 1


# who may be signaled


def test_a_signal_to_nobody_is_an_error(db):
    with pytest.raises(NotFound):
        db.signal(new_id(), "paid")


@pytest.mark.parametrize("end", ["done", "stop", "canceled"])
def test_a_signal_to_a_machine_that_is_over_is_refused(db, end):
    claim = db.begin()
    db.settle(claim, "canceled") if end == "canceled" else db.turn(claim, end)
    with pytest.raises(NotAllowed, match=claim.id):
        db.signal(claim.id, "paid")
    assert db.signals(claim.id) == []


def test_a_machine_that_was_enqueued_by_its_name_alone_takes_signals_in_its_first_execution(db):
    claim = db.start()
    assert db.job(claim.id).step is None
    assert db.signal(claim.id, "go").created


@pytest.mark.parametrize("where", ["scheduled", "queued"])
def test_a_signal_to_a_plain_job_that_has_run_is_refused(db, where):
    claim = db.start()
    db.settle(claim, "scheduled", charge=1, delay_ms=60_000 if where == "scheduled" else 0)
    with pytest.raises(NotAllowed):
        db.signal(claim.id, "paid")


@pytest.mark.parametrize("options", [{}, {"delay_ms": 60_000}])
def test_a_job_that_never_ran_may_be_a_machine_and_is_signaled(db, options):
    job_id = db.enqueue(**options).id
    assert db.signal(job_id, "paid").created


def test_a_held_machine_is_signaled(db):
    db.machine(train="t")
    second = db.machine(train="t")
    db.signal(second, "paid")
    db.turn(db.take(), "done")
    assert inbox(db.take()) == ["paid"]


@pytest.mark.parametrize("tenant", [DEFAULT_TENANT_ID, ACME])
def test_a_tenant_signals_only_its_own(db, tenant):
    job_id = db.machine(tenant="beta")
    with pytest.raises(NotFound):
        db.signal(job_id, "paid", tenant_id=tenant)
    assert db.signal(job_id, "paid", tenant_id=BETA).created
    assert db.signal(job_id, "paid").created  # who may act for all
    assert db.signals(job_id, tenant_id=tenant) == []
    assert len(db.signals(job_id, tenant_id=BETA)) == 2


# by unique key


def by_key(db, key, name="paid", **options):
    return db.signal(None, name, kind=options.pop("kind", "checkout"), unique_key=key, **options)


def test_a_signal_by_unique_key_finds_the_machine(db):
    job_id = db.parked("paid", unique_key="order:42", queue="shop")
    sent = by_key(db, "order:42", dedup_key="d")
    assert (sent.job_id, sent.queue, sent.created) == (job_id, "shop", True)
    assert db.woken(job_id) == ("queued", "signal")
    assert by_key(db, "order:42", dedup_key="d").created is False


@pytest.mark.parametrize("other", [{"kind": "other"}, {"tenant_id": ACME}, {"unique_key": "order:43"}])
def test_a_unique_key_is_of_its_kind_and_tenant(db, other):
    db.machine(unique_key="order:42")
    with pytest.raises(NotFound):
        db.signal(None, "paid", **{"kind": "checkout", "unique_key": "order:42", **other})


def test_a_unique_key_finds_the_tenants_machine(db):
    mine, theirs = db.machine(unique_key="k", tenant="acme"), db.machine(unique_key="k")
    assert by_key(db, "k", tenant_id=ACME).job_id == mine
    assert by_key(db, "k").job_id == theirs


def test_a_unique_key_out_of_scope_is_nobody(db):
    claim = db.begin(unique_key="order:42")
    db.turn(claim, "done")
    with pytest.raises(NotFound, match="order:42"):
        by_key(db, "order:42")


def test_a_key_whose_scope_holds_a_finished_machine_is_refused(db):
    claim = db.begin(unique_key="k", unique_scope=("queued", "running", "waiting", "succeeded"))
    db.turn(claim, "done")
    with pytest.raises(NotAllowed):
        by_key(db, "k")


# in bulk, and in the caller's own transaction


def test_a_batch_is_answered_in_order(db, make):
    ids = [db.machine(queue=f"q{n}", unique_key=f"k{n}") for n in range(20)]
    signals = [
        make.signal(job_id, "a") if n % 2 else make.signal(None, "a", kind="checkout", unique_key=f"k{n}")
        for n, job_id in enumerate(ids)
    ]
    answers = db.signal_all(signals)
    assert [(sent.id, sent.job_id, sent.queue, sent.created) for sent in answers] == [
        (signal.id, job_id, f"q{n}", True) for n, (signal, job_id) in enumerate(zip(signals, ids, strict=True))
    ]
    assert db.signal_all([]) == []


@pytest.mark.parametrize("wrong", ["unknown", "over", "key"])
def test_a_batch_is_all_or_none(db, make, wrong):
    job_id = db.parked("paid")
    over = db.begin()
    db.turn(over, "done")
    bad = {
        "unknown": make.signal(new_id(), "paid"),
        "over": make.signal(over.id, "paid"),
        "key": make.signal(None, "paid", kind="checkout", unique_key="nobody"),
    }[wrong]
    with pytest.raises((NotFound, NotAllowed)):
        db.signal_all([make.signal(job_id, "paid"), bad])
    assert (db.signals(job_id), db.woken(job_id)) == ([], ("waiting", None))


def test_a_signal_in_a_transaction_that_is_rolled_back_was_never_sent(db, make):
    job_id = db.parked("paid")
    with closing(db.connect()) as conn:
        conn.execute("begin")
        (sent,) = db.store.run_in(conn, db.ops.signal([make.signal(job_id, "paid", dedup_key="d")]))
        assert sent.created
        conn.execute("rollback")
    assert (db.signals(job_id), db.woken(job_id)) == ([], ("waiting", None))
    assert db.signal(job_id, "paid", dedup_key="d").created


def test_a_signal_in_a_transaction_wakes_when_that_commits(db, make):
    job_id = db.parked("paid")
    with closing(db.connect()) as conn:
        conn.execute("begin")
        db.store.run_in(conn, db.ops.signal([make.signal(job_id, "paid")]))
        conn.execute("commit")
    assert db.woken(job_id) == ("queued", "signal")


def test_a_machine_and_its_signal_may_come_in_one_transaction(db, make):
    new = make.machine(train="t")
    with closing(db.connect()) as conn:
        conn.execute("begin")
        db.store.run_in(conn, db.ops.enqueue([new]))
        db.store.run_in(conn, db.ops.signal([make.signal(new.id, "early")]))
        conn.execute("commit")
    assert inbox(db.take()) == ["early"]


# time


def test_an_await_times_out_by_the_held_clock(db):
    later = db.parked("paid", deadline_ms=5_001)
    job_id = db.parked("paid", deadline_ms=5_000)
    db.advance(4.999)
    promoted = db.promote()
    assert (promoted.queued, promoted.next_due_ms) == (0, 1)
    assert db.status(job_id) == "waiting"
    before = db.job(job_id)
    db.advance(0.001)
    assert db.promote().queued == 1
    assert db.status(later) == "waiting"
    job = db.job(job_id)
    assert (job.status, job.woken, job.deadline_at) == ("queued", "timeout", None)
    assert (job.queued_at, job.position) == (db.now(), before.position)
    claim = db.take()
    assert (checkpoint(claim).awaiting, checkpoint(claim).woken, inbox(claim)) == (("paid",), "timeout", [])


def test_a_signal_after_the_timeout_is_seen_by_the_step(db):
    """It was woken by the clock, and still finds what came before it started."""
    job_id = db.parked("paid", deadline_ms=5_000)
    db.advance("5s")
    db.promote()
    db.signal(job_id, "paid")
    claim = db.take()
    assert (checkpoint(claim).woken, inbox(claim)) == ("timeout", ["paid"])


def test_a_signal_at_the_deadline_wins_if_it_came_first(db):
    job_id = db.parked("paid", deadline_ms=5_000)
    db.advance("10s")  # nobody ticked
    db.signal(job_id, "paid")
    db.process_arrivals()
    db.promote()
    assert db.woken(job_id) == ("queued", "signal")


def test_a_woken_machine_does_not_time_out(db):
    job_id = db.parked("paid", deadline_ms=5_000)
    db.signal(job_id, "paid")
    claim = db.take()
    db.advance("1h")
    assert db.promote().queued == 0
    assert db.park(claim, "other", consumed=ids_of(claim, "paid")) == "waiting"
    assert db.promote().queued == 0
    assert db.job(job_id).deadline_at is None


def test_an_await_without_a_deadline_waits_for_ever(db):
    job_id = db.parked("paid")
    db.advance(timedelta(days=4_000))
    assert db.promote() == type(db.promote())(0, 0, None)
    assert db.status(job_id) == "waiting"


def test_deadlines_are_taken_a_few_at_a_time_the_first_first(db):
    ids = [db.parked("paid", deadline_ms=ms) for ms in (3_000, 1_000, 2_000)]
    db.advance("1m")
    assert db.promote(limit=2).queued == 2
    assert db.statuses(*ids) == ["waiting", "queued", "queued"]
    assert db.promote().queued == 1


def test_a_retry_of_a_timed_out_step_still_knows(db):
    job_id = db.parked("paid", deadline_ms=1_000)
    db.advance("1s")
    db.promote()
    db.settle(db.take(), "scheduled", charge=1)
    assert checkpoint(db.take()).woken == "timeout"
    assert db.attempts(job_id)[-2].woken == "timeout"


# the end


def test_signals_that_no_step_saw_are_undelivered(db):
    claim = db.begin()
    db.signal(claim.id, "seen")
    sent = db.signal(claim.id, "used")
    assert db.turn(claim, "done", consumed=(sent.id,)) == QUIET
    assert db.inboxes(claim.id) == [("seen", "undelivered", None), ("used", "consumed", 1)]


def test_a_sweep_wakes_a_machine_that_an_outside_hand_left_waiting(db):
    claim = db.begin()
    db.signal(claim.id, "paid", 1)
    sent = db.signal(claim.id, "paid", 2)
    db.park(claim, "paid", consumed=tuple(each.id for each in db.signals(claim.id)))
    db.sql(f"update {{signals}} set fence = null, consumed_at = null where id = '{sent.id}'")
    db.sweep()
    assert db.woken(claim.id) == ("queued", "signal")
