"""The dangerous moments of machines on PostgreSQL: signals, parks, ends and ticks that meet, step by step.

Whoever waits for an open transaction here runs into the lock timeout of the test database, or of the verb itself.
"""

from __future__ import annotations

import threading
import time

import pytest

from headway.errors import NotAllowed, StoreBusy
from headway.store.ops import Op, Statement
from tests.store.machines.machine_calls import QUIET, checkpoint, ids_of, inbox, on

pytestmark = pytest.mark.parametrize("store", ["postgres"], indirect=True)
SOON = 10
ISOLATIONS = pytest.mark.parametrize("isolation", ["READ_COMMITTED", "REPEATABLE_READ", "SERIALIZABLE"])
# how a signal (E, committed at e) and another transaction (S, committed at s) may lie
ORDERS = pytest.mark.parametrize("order", ["EeSs", "ESes", "ESse", "SEes", "SEse", "SsEe"])
CLAIMING = pytest.mark.parametrize("claiming", [False, True], ids=["alone", "with a claim between all steps"])


def play(db, order, sender, other, signal, op, claiming=False):
    """Run both ops in the given order of steps, each in its own open transaction; gives the ids claimed on the way."""
    steps = {
        "E": lambda: sender.run(signal),
        "e": sender.commit,
        "S": lambda: other.run(op),
        "s": other.commit,
    }
    claimed = []
    for step in order:
        steps[step]()
        if claiming:
            claimed += db.claim()
    return claimed + db.claim()


# a signal while the step parks


@pytest.mark.parametrize(
    ("isolation", "claiming"),
    [("READ_COMMITTED", False), ("READ_COMMITTED", True), ("REPEATABLE_READ", True), ("SERIALIZABLE", True)],
)
@ORDERS
def test_a_signal_sent_while_the_step_parks_wakes_it(db, make, session, isolation, order, claiming):
    """DESIGN 22: under READ COMMITTED each side misses the other."""
    claim = db.begin()
    signal = db.ops.signal([make.signal(claim.id, "paid")])
    park = db.ops.settle(db.home(), [make.turned(claim, "await", awaiting=("paid",))])
    (woken,) = play(db, order, session(isolation), session(), signal, park, claiming)
    assert (woken.id, woken.fence, inbox(woken)) == (claim.id, 2, ["paid"])
    assert db.turn(woken, "done", consumed=ids_of(woken, "paid")) == QUIET
    assert db.inboxes(claim.id) == [("paid", "consumed", 2)]


@ORDERS
def test_the_last_signal_of_all_sent_while_the_step_parks_wakes_it(db, make, session, order):
    claim = db.begin()
    db.signal(claim.id, "a")
    signal = db.ops.signal([make.signal(claim.id, "b")])
    park = db.ops.settle(db.home(), [make.turned(claim, "await", awaiting=("a", "b"), match="all")])
    (woken,) = play(db, order, session(), session(), signal, park, True)
    assert inbox(woken) == ["a", "b"]


@ORDERS
def test_a_signal_that_the_step_did_not_see_is_not_consumed_by_it(db, make, session, order):
    """Invariant 7: it consumes the one that it saw, and the other wakes the next step."""
    job_id = db.parked("paid")
    first = db.signal(job_id, "paid", 1)
    claim = db.take()
    signal = db.ops.signal([make.signal(job_id, "paid", 2)])
    park = db.ops.settle(db.home(), [make.turned(claim, "await", awaiting=("paid",), consumed=(first.id,))])
    (woken,) = play(db, order, session(), session(), signal, park, True)
    assert [each.payload for each in checkpoint(woken).signals] == [2]


@ORDERS
def test_a_signal_that_is_rolled_back_wakes_nobody(db, make, session, order):
    claim = db.begin()
    sender, parker = session(), session()
    sender.commit = sender.rollback
    signal = db.ops.signal([make.signal(claim.id, "paid")])
    park = db.ops.settle(db.home(), [make.turned(claim, "await", awaiting=("paid",))])
    assert play(db, order, sender, parker, signal, park, True) == []
    assert (db.woken(claim.id), db.signals(claim.id)) == (("waiting", None), [])


def test_a_park_that_is_rolled_back_parks_nobody(db, make, session):
    claim = db.begin()
    parker = session()
    parker.run(db.ops.settle(db.home(), [make.turned(claim, "await", awaiting=("paid",))]))
    db.signal(claim.id, "paid")
    assert db.claim() == []  # the row is taken: the arrival is left for the next time
    parker.rollback()
    assert db.woken(claim.id) == ("running", None)
    assert db.park(claim, "paid") == "queued"


def test_a_signal_committed_between_the_lock_and_the_recheck_is_seen(db, make, session, until):
    """The settle waits for its row; what commits meanwhile is there when it looks."""
    claim = db.begin()
    holder, parker = session(), session()
    holder.conn.execute("select from headway.jobs where id = %s for update", (claim.id,))
    parker.conn.execute("set lock_timeout = '15s'")
    settled = parker.start(db.ops.settle(db.home(), [make.turned(claim, "await", awaiting=("paid",))]))
    until(lambda: parker.blocked() or settled.done())
    db.signal(claim.id, "paid")
    holder.rollback()
    try:
        assert settled.result(SOON) == QUIET
    except StoreBusy:
        assert db.park(claim, "paid") == "queued"
    assert db.job(claim.id).woken == "signal"


def test_processing_arrivals_that_meets_a_settle_of_the_machine_waits_for_nobody(db, make, session):
    claim = db.begin()
    parker = session()
    parker.run(db.ops.settle(db.home(), [make.turned(claim, "await", awaiting=("paid",))]))
    db.signal(claim.id, "paid")
    other = db.parked("paid", queue="other")
    db.signal(other, "paid")
    assert db.claim() == []
    assert [each.id for each in db.claim(queue="other")] == [other]
    parker.commit()
    assert [each.id for each in db.claim()] == [claim.id]


@ISOLATIONS
def test_an_open_transaction_with_a_signal_holds_up_nobody(db, make, session, isolation):
    """Neither the settle of that machine, nor the claim, the cancel, the tick, other senders."""
    claim, other = db.begin(), db.begin()
    user = session(isolation)
    user.run(db.ops.signal([make.signal(job.id, "paid", dedup_key="mine") for job in (claim, other)]))
    assert db.turn_all([make.turned(claim, "await", awaiting=("x",)), make.turned(other, "done")]) == QUIET
    db.signal(claim.id, "x", dedup_key="yours")
    claim = db.take()
    assert inbox(claim) == ["x"]
    db.park(claim, "paid", deadline_ms=1_000, consumed=ids_of(claim, "x"))
    db.change(claim.id, priority=7)
    db.advance("2s")
    assert db.promote().queued == 1
    db.cancel(claim.id)
    db.retry(claim.id)
    user.commit()
    claim = db.take()
    assert inbox(claim) == ["paid"]
    # the one that lost the race against the end is shown, not lost
    assert db.inboxes(other.id) == [("paid", "undelivered", None)]


def test_a_snapshot_from_before_the_park_loses_no_signal(db, make, session):
    claim = db.begin()
    user = session("REPEATABLE_READ")
    user.conn.execute("select count(*) from headway.jobs")
    db.park(claim, "paid")
    user.run(db.ops.signal([make.signal(claim.id, "paid")]))
    user.commit()
    assert db.woken(claim.id) == ("queued", "signal")


# a signal while something else happens to the machine


@ORDERS
def test_a_signal_while_the_step_goes_on_is_seen_by_a_later_one(db, make, session, order):
    claim = db.begin()
    signal = db.ops.signal([make.signal(claim.id, "paid")])
    settle = db.ops.settle(db.home(), [make.turned(claim, "next", "running", step="two")])
    assert play(db, order, session(), session(), signal, settle, True) == []
    assert db.park(on(claim), "paid") == "queued"
    assert inbox(db.take()) == ["paid"]


@ORDERS
def test_a_signal_while_the_machine_ends_is_refused_or_undelivered(db, make, session, order):
    claim = db.begin()
    signal = db.ops.signal([make.signal(claim.id, "paid")])
    settle = db.ops.settle(db.home(), [make.turned(claim, "done")])
    try:
        assert play(db, order, session(), session(), signal, settle, True) == []
    except NotAllowed:
        assert order == "SsEe"
        assert db.signals(claim.id) == []
        return
    assert order != "SsEe"
    assert db.inboxes(claim.id) == [("paid", "undelivered", None)]
    assert db.status(claim.id) == "succeeded"


@ORDERS
def test_a_timeout_beside_a_signal_wakes_once(db, make, session, order):
    job_id = db.parked("paid", deadline_ms=1_000)
    db.advance("2s")
    signal = db.ops.signal([make.signal(job_id, "paid")])
    (woken,) = play(db, order, session(), session(), signal, db.ops.promote(limit=10), True)
    assert (woken.id, woken.fence) == (job_id, 2)
    assert checkpoint(woken).woken in ("signal", "timeout")
    if order[:2] == "Ee":
        assert inbox(woken) == ["paid"]
    assert db.claim() == []


@CLAIMING
@ORDERS
def test_a_cancel_beside_a_signal_leaves_one_end(db, make, session, order, claiming):
    job_id = db.parked("paid")
    signal = db.ops.signal([make.signal(job_id, "paid")])
    cancel = db.ops.cancel([job_id], tenant_id=None, reason=None, actor=None)
    try:
        claimed = play(db, order, session(), session(), signal, cancel, claiming)
    except NotAllowed:
        assert order == "SsEe"
        return
    if claimed:  # it was woken before, and so was asked
        assert [claim.id for claim in claimed] == [job_id]
        assert db.job(job_id).cancel_requested_at is not None
    else:
        assert db.woken(job_id) == ("canceled", None) or db.job(job_id).woken == "signal"
        assert db.status(job_id) == "canceled"
        assert db.inboxes(job_id) == [("paid", "undelivered", None)]


@ORDERS
def test_a_retry_beside_a_signal_forgets_it_not(db, make, session, order):
    job_id = db.parked("paid")
    user = session()
    user.run(db.ops.signal([make.signal(job_id, "paid")]))
    db.cancel(job_id)
    operator = session()
    retry = db.ops.retry([job_id], tenant_id=None, actor=None)
    steps = {"E": lambda: None, "e": user.commit, "S": lambda: operator.run(retry), "s": operator.commit}
    for step in order:
        steps[step]()
        db.claim(queue="nothing")
    assert db.woken(job_id) == ("queued", "signal")


@ORDERS
def test_a_signal_beside_the_turn_of_a_car_that_waits_again_wakes_it(db, make, session, order):
    job_id = db.parked("paid", train="t")
    db.machine(train="t", queue="others")
    db.cancel(job_id)
    ahead = db.take(queue="others")
    db.retry(job_id)
    db.process_arrivals()
    signal = db.ops.signal([make.signal(job_id, "paid")])
    settle = db.ops.settle(db.home(), [make.settlement(ahead, "succeeded")])
    (woken,) = play(db, order, session(), session(), signal, settle, True)
    assert (woken.id, inbox(woken)) == (job_id, ["paid"])


@ORDERS
def test_a_child_that_ends_beside_the_turn_of_a_car_that_waits_again_wakes_it(db, make, session, order):
    claim = db.begin(train="t")
    db.spawn(claim, make.job(queue="kids"))
    child = db.take(queue="kids")
    db.machine(train="t", queue="others")
    db.cancel(claim.id)
    ahead = db.take(queue="others")
    db.retry(claim.id)
    db.process_arrivals()
    end = db.ops.settle(db.home(), [make.settlement(child, "succeeded")])
    settle = db.ops.settle(db.home(), [make.settlement(ahead, "succeeded")])
    (woken,) = play(db, order, session(), session(), end, settle, True)
    assert (woken.id, checkpoint(woken).woken) == (claim.id, "children")


def test_two_senders_with_one_dedup_key_are_one_signal(db, make, session, until):
    job_id = db.parked("paid")
    one, two = session(), session()
    (first,) = one.run(db.ops.signal([make.signal(job_id, "paid", 1, dedup_key="k")]))
    late = two.start(db.ops.signal([make.signal(job_id, "paid", 2, dedup_key="k")]))
    until(lambda: two.blocked() or late.done())
    one.commit()
    (second,) = late.result(SOON)
    assert (first.created, second.created, second.id) == (True, False, first.id)
    assert [each.payload for each in db.signals(job_id)] == [1]


def test_a_sender_whose_rival_rolls_back_is_the_one(db, make, session, until):
    job_id = db.parked("paid")
    one, two = session(), session()
    one.run(db.ops.signal([make.signal(job_id, "paid", 1, dedup_key="k")]))
    late = two.start(db.ops.signal([make.signal(job_id, "paid", 2, dedup_key="k")]))
    until(lambda: two.blocked() or late.done())
    one.rollback()
    assert late.result(SOON)[0].created
    assert [each.payload for each in db.signals(job_id)] == [2]
    assert db.woken(job_id) == ("queued", "signal")


def test_two_senders_at_once_leave_both_signals(db, make, session):
    job_id = db.parked("a", "b", match="all")
    one, two = session(), session()
    one.run(db.ops.signal([make.signal(job_id, "a")]))
    two.run(db.ops.signal([make.signal(job_id, "b")]))
    one.commit()
    assert db.woken(job_id) == ("waiting", None)
    two.commit()
    assert db.woken(job_id) == ("queued", "signal")


# children


@pytest.mark.parametrize("to", ["succeeded", "dead"])
@pytest.mark.parametrize("on_failure", ["continue", "stop"])
def test_the_last_two_children_may_settle_at_the_same_moment(db, make, session, until, to, on_failure):
    machine = db.begin()
    db.spawn(machine, *(make.job(queue="kids") for _ in range(3)), on_failure=on_failure)
    one, two, three = db.claim(queue="kids")
    db.finish(three)
    left, right = session(), session()
    left.run(db.ops.settle(db.home(), [make.settlement(one, "succeeded")]))
    late = right.start(db.ops.settle(db.home(), [make.settlement(two, to)]))
    until(lambda: right.blocked() or late.done())
    left.commit()
    assert late.result(SOON) == QUIET
    assert db.woken(machine.id) == ("queued", "children")


@CLAIMING
@pytest.mark.parametrize("order", ["EeSs", "ESes", "ESse", "SsEe"])  # where the key is in motion, see below
def test_a_child_that_ends_while_another_spawns_it_again_is_waited_for_once(db, make, session, order, claiming):
    """A child may meet an existing job that is just ending."""
    running = db.start(queue="kids", unique_key="k", unique_scope=("queued", "running", "succeeded"))
    claim = db.begin()
    child = make.job(queue="kids", unique_key="k", unique_scope=("queued", "running", "succeeded"))
    spawn = db.ops.settle(db.home(), [make.turned(claim, "spawn", children=(child,))])
    finish = db.ops.settle(db.home(), [make.settlement(running, "succeeded")])
    sender, other = session(), session()
    steps = {"E": lambda: sender.run(spawn), "e": sender.commit, "S": lambda: other.run(finish), "s": other.commit}
    claimed = []
    for step in order:
        steps[step]()
        if claiming:
            claimed += db.claim()
    claimed += db.claim()
    assert [each.id for each in claimed] == [claim.id]
    assert [each.id for each in db.children(claim.id)] == [running.id]


def test_an_open_transaction_that_holds_a_childs_key_keeps_no_other_outcome_waiting(db, make, session):
    """The batch is refused soon, and written without the one that waits."""
    claim, other = db.begin(), db.begin()
    user = session()
    user.run(db.ops.enqueue([make.job(queue="kids", unique_key="k")]))
    spawn = make.turned(claim, "spawn", children=(make.job(queue="kids", unique_key="k"),))
    begun = time.monotonic()
    with pytest.raises(StoreBusy):
        db.turn_all([spawn, make.turned(other, "done")])
    assert time.monotonic() - begun < 15  # what the test database waits for a lock
    assert db.turn(other, "done") == QUIET
    assert db.status(claim.id) == "running"
    user.commit()
    assert db.turn_all([spawn]) == QUIET
    db.drain("kids")
    assert db.woken(claim.id) == ("queued", "children")


@ORDERS
def test_a_cancel_of_the_parent_beside_the_end_of_its_child(db, make, session, order):
    machine = db.begin()
    (child,) = db.spawn(machine, make.job(queue="kids"))
    claim = db.take(queue="kids")
    finish = db.ops.settle(db.home(), [make.settlement(claim, "succeeded")])
    cancel = db.ops.cancel([machine.id], tenant_id=None, reason=None, actor=None)
    assert play(db, order, session(), session(), finish, cancel) == []
    assert db.statuses(machine.id, child) == ["canceled", "succeeded"]


def test_a_spawn_that_is_rolled_back_leaves_no_child(db, make, session):
    machine = db.begin()
    settler = session()
    settler.run(db.ops.settle(db.home(), [make.turned(machine, "spawn", children=(make.job(queue="kids"),))]))
    settler.rollback()
    assert (db.woken(machine.id), len(db.find())) == (("running", None), 1)
    assert db.sql("select count(*) from {edges}") == [(0,)]


# what a claim sees


def test_the_inbox_is_read_as_it_is_and_not_as_it_was_when_the_statement_began(db, session):
    """A machine may run, consume and be woken again between a claim's snapshot and its lock on the row."""

    def read():
        # as in a claim: the snapshot is there, and what comes before the inbox takes its time
        rows = yield Statement(
            "with waits as materialized (select pg_advisory_xact_lock(7)) select headway.inbox($1::uuid) from waits",
            [claim.id],
        )
        return rows

    claim = db.begin()
    signal = db.signal(claim.id, "go")
    holder, claimer = session(), session()
    holder.conn.execute("select pg_advisory_xact_lock(7)")
    found = claimer.start(Op(read, writes=False))
    while not claimer.blocked():
        assert not found.done(), found.result()
    db.turn(claim, "next", consumed=(signal.id,))
    holder.commit()
    assert found.result(SOON) == [(None,)]


# free running


def test_senders_and_workers_at_once_lose_and_double_nothing(db, make):
    """Three senders, two workers, ten machines that await forever: every signal is consumed exactly once."""
    ids = [db.machine() for _ in range(10)]
    workers = [db.worker(lease_ms=10**10) for _ in range(2)]
    sent: list[str] = []
    consumed: list[str] = []
    errors: list[BaseException] = []
    stop = threading.Event()

    def guarded(work):
        def run(*args):
            try:
                work(*args)
            except BaseException as error:
                errors.append(error)

        return run

    @guarded
    def send(n: int) -> None:
        for round_ in range(30):
            signals = [make.signal(ids[(n + round_ + k) % 10], "go", dedup_key=f"{n}-{round_}") for k in range(2)]
            sent.extend(answer.id for answer in db.signal_all(signals))

    @guarded
    def run(worker: str) -> None:
        while True:
            ending = stop.is_set()
            claims = db.claim(worker, limit=4)
            seen = [ids_of(claim, "go") for claim in claims]
            turns = [
                make.turned(claim, "await", awaiting=("go",), consumed=mine)
                for claim, mine in zip(claims, seen, strict=True)
            ]
            if claims:
                assert db.turn_all(turns, worker) == QUIET
                consumed.extend(each for mine in seen for each in mine)
            elif ending:
                return

    senders = [threading.Thread(target=send, args=(n,)) for n in range(3)]
    others = [threading.Thread(target=run, args=(worker,)) for worker in workers]
    for thread in senders + others:
        thread.start()
    for thread in senders:
        thread.join()
    stop.set()
    for thread in others:
        thread.join()
    assert errors == []
    db.process_arrivals()
    assert db.claim() == []
    assert sorted(consumed) == sorted(sent)
    assert len(set(sent)) == 180
    stored = [each for job_id in ids for each in db.signals(job_id)]
    assert {each.status for each in stored} == {"consumed"}
