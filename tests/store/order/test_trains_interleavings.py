"""The dangerous moments of trains and joins on PostgreSQL: open transactions that meet, step by step.

Whoever waits for an open transaction here runs into the lock timeout of the test database, or of the verb itself.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

pytestmark = pytest.mark.parametrize("store", ["postgres"], indirect=True)
SOON = 10
ISOLATIONS = pytest.mark.parametrize("isolation", ["READ_COMMITTED", "REPEATABLE_READ", "SERIALIZABLE"])
# how an enqueue (E, committed at e) and a settle (S, committed at s) may lie
ORDERS = pytest.mark.parametrize("order", ["EeSs", "ESes", "ESse", "SEes", "SEse", "SsEe"])


def ids_of(claims):
    return [claim.id for claim in claims]


def train(db, count=1, **options):
    """A train whose locomotive runs; gives its claim and the ids of the cars behind it."""
    ids = [db.enqueue(**{"train": "t", **options}).id for _ in range(count)]
    claim = db.take()
    assert claim.id == ids[0]
    return claim, ids[1:]


def play(order, enqueuer, settler, enqueue, settle):
    """Run both ops in the given order of steps, each in its own open transaction."""
    steps = {
        "E": lambda: enqueuer.run(enqueue),
        "e": enqueuer.commit,
        "S": lambda: settler.run(settle),
        "s": settler.commit,
    }
    for step in order:
        steps[step]()


# a car comes while the locomotive settles


@ISOLATIONS
@ORDERS
def test_a_car_enqueued_while_the_locomotive_settles_is_not_orphaned(db, make, session, isolation, order):
    claim, _ = train(db)
    car = make.job(train="t")
    settle = db.ops.settle(db.home(), [make.settlement(claim, "succeeded")])
    play(order, session(isolation), session(), db.ops.enqueue([car]), settle)
    assert ids_of(db.claim()) == [car.id]
    assert db.claim() == []


@pytest.mark.parametrize("isolation", ["READ_COMMITTED", "REPEATABLE_READ"])
@ORDERS
def test_the_same_with_a_claim_between_all_steps(db, make, session, isolation, order):
    """Arrivals are processed at every moment, and what cannot be decided yet must stay."""
    claim, _ = train(db)
    car = make.job(train="t")
    user, settler = session(isolation), session()
    claimed = []
    for step in order:
        match step:
            case "E":
                user.run(db.ops.enqueue([car]))
            case "e":
                user.commit()
            case "S":
                settler.run(db.ops.settle(db.home(), [make.settlement(claim, "succeeded")]))
            case "s":
                settler.commit()
        claimed += ids_of(db.claim())
    claimed += ids_of(db.claim())
    assert claimed == [car.id]


@ISOLATIONS
def test_a_snapshot_from_before_the_settle_orphans_no_car(db, make, session, isolation):
    claim, _ = train(db)
    user = session(isolation)
    user.conn.execute("select count(*) from headway.jobs")
    db.finish(claim)
    assert db.claim() == []
    car = make.job(train="t")
    user.run(db.ops.enqueue([car]))
    user.commit()
    assert ids_of(db.claim()) == [car.id]


@ORDERS
def test_a_car_that_is_rolled_back_leaves_the_train_as_it_was(db, make, session, order):
    claim, (second,) = train(db, 2)
    user, settler = session(), session()
    for step in order:
        match step:
            case "E":
                user.run(db.ops.enqueue([make.job(train="t")]))
            case "e":
                user.rollback()
            case "S":
                settler.run(db.ops.settle(db.home(), [make.settlement(claim, "succeeded")]))
            case "s":
                settler.commit()
    assert db.drain() == [second]
    assert db.trains() == []


def test_a_rolled_back_settle_moves_no_train(db, make, session):
    claim, (second,) = train(db, 2)
    settler = session()
    settler.run(db.ops.settle(db.home(), [make.settlement(claim, "succeeded")]))
    settler.rollback()
    assert db.statuses(claim.id, second) == ["running", "held"]
    db.finish(claim)
    assert db.drain() == [second]


@ISOLATIONS
def test_an_open_transaction_with_cars_holds_up_nobody_else(db, make, session, isolation):
    """Neither the settle, nor the claim, the enqueue, the cancel, the hold, the move of others."""
    claim, (second, third, fourth) = train(db, 4)
    user = session(isolation)
    early = [make.job(train="t"), make.job(train="new"), make.job(after=(claim.id,))]
    user.run(db.ops.enqueue(early))
    db.finish(claim)
    db.move(fourth, before=third)
    (claim,) = db.claim()
    assert claim.id == second
    late, other = db.enqueue(train="t").id, db.enqueue(train="new").id
    db.cancel(third)
    db.hold_train("t")
    db.resume_train("t")
    db.finish(claim)
    assert db.drain() == [fourth, other, late]
    user.commit()
    assert sorted(db.drain()) == sorted(job.id for job in early)


def test_a_late_committer_goes_ahead_of_later_cars_that_are_still_held(db, make, session):
    """TRAINS.md, the promise about order, c: and it displaces no locomotive."""
    claim, _ = train(db)
    user = session()
    early = make.job(train="t")
    user.run(db.ops.enqueue([early]))
    middle, late = db.enqueue(train="t").id, db.enqueue(train="t").id
    db.finish(claim)
    (claim,) = db.claim()
    assert claim.id == middle
    user.commit()
    db.finish(claim)
    assert db.drain() == [early.id, late]


def test_within_one_transaction_it_is_the_order_of_the_calls(db, make, session):
    one, two = session(), session()
    jobs = {name: [make.job(train="t") for _ in range(3)] for name in ("one", "two")}
    for first, second in zip(*jobs.values(), strict=True):
        one.run(db.ops.enqueue([first]))
        two.run(db.ops.enqueue([second]))
    two.commit()
    one.commit()
    started = db.drain()
    assert len(started) == 6
    for mine in jobs.values():
        assert [job_id for job_id in started if job_id in {job.id for job in mine}] == [job.id for job in mine]


@ISOLATIONS
def test_transactions_that_touch_trains_in_opposite_order_never_deadlock(db, make, session, isolation):
    one, two = session(isolation), session(isolation)
    jobs = [make.job(train=name) for name in ("x", "y", "y", "x")]
    one.run(db.ops.enqueue(jobs[:1]))
    two.run(db.ops.enqueue(jobs[1:2]))
    one.run(db.ops.enqueue(jobs[2:3]))
    two.run(db.ops.enqueue(jobs[3:]))
    one.commit()
    two.commit()
    assert sorted(db.drain()) == sorted(job.id for job in jobs)


def test_batches_into_the_same_trains_in_opposite_order_never_deadlock(db, make):
    """Enqueues in transactions of their own, which may take seats."""
    barrier = threading.Barrier(3)
    errors: list[BaseException] = []
    mine: dict[int, list[str]] = {}

    def enqueue(n: int) -> None:
        try:
            for round_ in range(15):
                names = [f"{round_}-{k}" for k in range(20)][:: -1 if n % 2 else 1]
                barrier.wait()
                mine.setdefault(n, []).extend(job.id for job in db.enqueue_all([make.job(train=t) for t in names]))
        except BaseException as error:
            barrier.abort()
            errors.append(error)

    threads = [threading.Thread(target=enqueue, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    claims = db.claim(limit=1_000)
    assert len(claims) == 300
    db.finish(*claims)
    started = ids_of(claims) + db.drain(limit=1_000)
    assert sorted(started) == sorted(job_id for ids in mine.values() for job_id in ids)


# an operator's hand in the moment of the settle


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_head_that_is_being_canceled_keeps_no_settle_waiting(db, session, end):
    claim, (second, third) = train(db, 3)
    operator = session()
    operator.run(db.ops.cancel([second], tenant_id=None, reason=None, actor=None))
    db.finish(claim)
    assert db.claim() == []  # the head is not passed over, whatever comes of it
    getattr(operator, end)()
    assert db.drain() == ([third] if end == "commit" else [second, third])


def test_a_cancel_of_the_head_that_waits_for_the_settle_cancels_the_locomotive(db, make, session, until):
    claim, (second, third) = train(db, 3)
    settler, operator = session(), session()
    settler.run(db.ops.settle(db.home(), [make.settlement(claim, "succeeded")]))
    canceled = operator.start(db.ops.cancel([second], tenant_id=None, reason=None, actor=None))
    until(lambda: operator.blocked() or canceled.done())
    settler.commit()
    assert canceled.result(SOON) == {second: "canceled"}
    assert db.drain() == [third]


@ORDERS
def test_a_car_enqueued_while_the_locomotive_is_canceled_is_not_orphaned(db, make, session, order):
    locomotive = db.enqueue(train="t").id
    car = make.job(train="t")
    cancel = db.ops.cancel([locomotive], tenant_id=None, reason=None, actor=None)
    play(order, session(), session(), db.ops.enqueue([car]), cancel)
    assert ids_of(db.claim()) == [car.id]


def test_a_car_of_an_own_transaction_beside_an_open_cancel_is_not_orphaned(db, session):
    locomotive = db.enqueue(train="t").id
    operator = session()
    operator.run(db.ops.cancel([locomotive], tenant_id=None, reason=None, actor=None))
    car = db.enqueue(train="t").id
    assert db.claim() == []  # it looked, and could not judge
    operator.commit()
    assert ids_of(db.claim()) == [car]


@pytest.mark.parametrize("first", ["settle", "hold"])
def test_a_hold_in_the_moment_of_the_settle_leaves_a_correct_train(db, make, session, first):
    claim, rest = train(db, 3)
    ops = {
        "settle": db.ops.settle(db.home(), [make.settlement(claim, "succeeded")]),
        "hold": db.ops.hold_train("t", tenant_id=None, reason=None, actor=None),
    }
    sessions = {name: session() for name in ops}
    later = "hold" if first == "settle" else "settle"
    sessions[first].run(ops[first])
    running: Future[object] = sessions[later].start(ops[later])
    sessions[first].commit()
    running.result(SOON)
    started = db.drain()
    assert started in ([], rest[:1])
    assert db.train("t").blocked
    assert db.resume_train("t")
    assert started + db.drain() == rest


def test_a_claim_that_still_sees_the_hold_does_not_undo_the_resume(db, make, session):
    claim, (second,) = train(db, 2, on_dead="hold")
    db.settle(claim, "dead")
    operator, user = session(), session()
    operator.run(db.ops.resume_train("t", tenant_id=None, actor=None))
    late = make.job(train="t")
    user.run(db.ops.enqueue([late]))
    user.commit()
    assert db.claim() == []
    operator.commit()
    assert db.drain() == [second, late.id]


@pytest.mark.parametrize("first", ["settle", "move"])
def test_a_move_in_the_moment_of_the_settle_leaves_a_correct_train(db, make, session, first):
    claim, (second, third) = train(db, 3)
    ops = {
        "settle": db.ops.settle(db.home(), [make.settlement(claim, "succeeded")]),
        "move": db.ops.move(third, first=True, tenant_id=None, actor=None),
    }
    later = "move" if first == "settle" else "settle"
    sessions = {name: session() for name in ops}
    sessions[first].run(ops[first])
    running: Future[object] = sessions[later].start(ops[later])
    sessions[first].commit()
    running.result(SOON)
    assert sorted(db.drain()) == sorted([second, third])


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_processing_that_does_not_commit_loses_no_arrival(db, make, session, end):
    user, other = session(), session()
    jobs = [make.job(train=f"t{n}") for n in range(3)]
    user.run(db.ops.enqueue(jobs))
    user.commit()
    assert other.run(db.ops.process_arrivals(limit=500)) > 0
    assert db.claim() == []  # one processes arrivals at a time, and nobody waits for it
    getattr(other, end)()
    assert ids_of(db.claim()) == [job.id for job in jobs]


def test_arrivals_are_looked_at_a_few_at_a_time(db, make, session):
    user = session()
    jobs = [make.job(train=f"t{n}") for n in range(10)]
    for job in jobs:
        user.run(db.ops.enqueue([job]))
    user.commit()
    db.process_arrivals(limit=1)
    assert [claim.id for claim in db.claim()] == [job.id for job in jobs]


def test_settles_enqueues_and_cancels_at_once_leave_nobody_behind(db, make):
    """Free running: three enqueuers, two workers and an operator on five trains."""
    stop = threading.Event()
    errors: list[BaseException] = []
    started: list[str] = []
    mine: dict[int, list[str]] = {n: [] for n in range(3)}
    workers = [db.worker(lease_ms=10**10) for _ in range(2)]

    def guarded(work):
        def run(*args):
            try:
                work(*args)
            except BaseException as error:
                errors.append(error)

        return run

    @guarded
    def enqueue(n: int) -> None:
        for round_ in range(40):
            mine[n].append(db.enqueue(train=f"t{round_ % 5}").id)

    @guarded
    def cancel() -> None:
        while not stop.is_set():
            held = [job.id for job in db.find(status="held", limit=3)]
            if held:
                db.cancel(held[0])

    @guarded
    def run(worker: str) -> None:
        while True:
            ending = stop.is_set()
            claims = db.claim(worker, limit=3)
            started.extend(ids_of(claims))
            db.settle_all([make.settlement(claim, "succeeded") for claim in claims], worker) if claims else None
            if ending and not claims:
                return

    enqueuers = [threading.Thread(target=enqueue, args=(n,)) for n in range(3)]
    others = [threading.Thread(target=run, args=(worker,)) for worker in workers] + [threading.Thread(target=cancel)]
    for thread in enqueuers + others:
        thread.start()
    for thread in enqueuers:
        thread.join()
    stop.set()
    for thread in others:
        thread.join()
    assert errors == []
    started += db.drain()
    jobs = {job.id: job for job in db.find()}
    assert {job.status for job in jobs.values()} <= {"succeeded", "canceled"}
    assert sorted(started) == sorted(job_id for job_id, job in jobs.items() if job.status == "succeeded")
    for name in {job.train for job in jobs.values()}:
        cars = [job for job in jobs.values() if job.train == name and job.status == "succeeded"]
        # each began after the end of all that had begun before it
        assert db.trains(train=name) == []
        for ids in mine.values():
            places = [started.index(job_id) for job_id in ids if jobs[job_id] in cars]
            assert places == sorted(places)
