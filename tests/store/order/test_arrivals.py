"""What follows from one thing for any number of jobs is done in pieces, each a transaction; nothing of it is lost."""

from __future__ import annotations

import msgspec
import pytest

from headway.store.ops import Op
from headway.store.sqlite.order import postponed
from tests.tenant_ids import tenant_id

ACME = tenant_id("acme")
PIECE = 4
_SIZE = "create or replace function headway.piece() returns integer language sql immutable as 'select {}'"


@pytest.fixture(autouse=True)
def small_pieces(db, monkeypatch):
    monkeypatch.setattr(postponed, "PIECE", PIECE)
    if db.dialect == "postgres":
        db.store.side.execute(_SIZE.format(PIECE))


def go_on(db, most=100):
    """Do the rest, as promotes and claims do."""
    for _ in range(most):
        if not db.sql("select count(*) from {arrivals}")[0][0]:
            return
        db.run(db.ops.process_arrivals(limit=500))
    raise AssertionError("it never ends")


def count(db, status):
    return len(db.find(status=status, limit=1_000))


def fan_out(db, make, parent, many=30):
    children = [make.job(after=(parent,)) for _ in range(many)]
    db.enqueue_all(children)
    go_on(db)
    return [child.id for child in children]


def test_a_fan_out_whose_parent_is_canceled_ends_in_pieces(db, make):
    parent = db.enqueue().id
    children = fan_out(db, make, parent)
    grandchild = db.enqueue(after=(children[-1],)).id
    db.cancel(parent)
    go_on(db)
    assert count(db, "canceled") == 32
    assert db.job(children[7]).error == f"canceled because job {parent} is canceled"
    assert db.job(grandchild).error == f"canceled because job {children[-1]} is canceled"


def test_no_parent_is_forgotten_beside_one_with_many_dependents(db, make):
    parents = db.enqueue_ids(6)
    for parent in parents:
        fan_out(db, make, parent, many=7)
    db.cancel(*parents)
    go_on(db)
    assert count(db, "canceled") == 6 + 6 * 7


def test_a_fan_out_whose_parent_succeeds_goes_in_pieces(db, make):
    parent = db.start(queue="parents")
    fan_out(db, make, parent.id)
    db.finish(parent)
    go_on(db)
    assert count(db, "queued") == 30


def test_a_chain_ends_in_pieces(db):
    ids = [db.enqueue().id]
    for _ in range(20):
        ids.append(db.enqueue(after=(ids[-1],)).id)
    go_on(db)
    db.cancel(ids[0])
    go_on(db)
    assert db.statuses(*ids) == ["canceled"] * 21


def group(db, make, members=30):
    new = make.group(mode="parallel", on_failure="stop")
    jobs = [make.job(group_id=new.id) for _ in range(members)]
    db.enqueue_all(jobs, new)
    return new.id, [job.id for job in jobs]


def test_a_group_that_a_failure_stops_ends_in_pieces(db, make):
    group_id, ids = group(db, make)
    claim = db.take()
    db.settle(claim, "dead", error="boom")
    go_on(db)
    assert (count(db, "canceled"), db.status(claim.id)) == (29, "dead")
    assert db.job(ids[-1]).error == "canceled because its group stopped"
    assert db.group(group_id).stopped_at is not None


def test_a_group_that_somebody_cancels_ends_in_pieces_and_says_why(db, make):
    group_id, ids = group(db, make)
    answer = db.cancel_group(group_id, reason="enough")
    assert answer.keys() == set(ids)
    go_on(db)
    assert {(db.status(job_id), db.job(job_id).error) for job_id in ids} == {("canceled", "enough")}


def test_a_group_that_is_retried_while_it_stops_is_stopped_no_more(db, make):
    group_id, ids = group(db, make)
    db.cancel_group(group_id)
    assert 0 < count(db, "canceled") < 30
    db.retry_group(group_id)
    go_on(db)
    assert count(db, "queued") == 30
    assert db.drain() == ids


def test_a_train_is_cleared_in_pieces_and_stands_still_meanwhile(db):
    ids = [db.enqueue(train="t").id for _ in range(30)]
    claim = db.take()
    assert db.clear_train("t") == ids[1:]
    assert 0 < count(db, "canceled") < 29
    late = db.enqueue(train="t").id
    (train,) = db.trains()
    assert train.hold.reason == "it is being cleared"
    db.finish(claim)
    assert db.status(late) == "held"
    go_on(db)
    assert count(db, "canceled") == 29
    assert db.drain() == [late]
    assert db.trains() == []


def test_a_retried_parent_brings_them_back_in_pieces(db, make):
    parent = db.enqueue(priority=1).id
    fan_out(db, make, parent)
    db.settle(db.take(), "dead", error="boom")
    go_on(db)
    assert count(db, "canceled") == 30
    db.retry(parent)
    go_on(db)
    assert count(db, "held") == 30
    db.finish(db.take())
    go_on(db)
    assert len(db.drain()) == 30


def test_the_children_of_a_machine_that_ends_end_in_pieces(db, make):
    claim = db.begin()
    children = db.spawn(claim, *(make.job(queue="kids") for _ in range(30)))
    go_on(db)
    db.cancel(claim.id)
    go_on(db)
    assert db.statuses(*children) == ["canceled"] * 30


def test_promote_goes_on_with_the_rest(db, make):
    """Whoever crashes between two pieces leaves the rest for any other."""
    parent = db.enqueue().id
    fan_out(db, make, parent)
    db.cancel(parent)
    for _ in range(30):
        db.promote()
    assert count(db, "canceled") == 31
    assert db.promote().next_due_ms is None


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_a_round_reads_one_piece_of_something_large_and_does_what_is_small_first(db, make):
    parent = db.enqueue().id
    db.enqueue_all([make.job(after=(parent,)) for _ in range(30)])
    ended = db.enqueue().id
    small = db.enqueue(after=(ended,)).id
    db.run(db.ops.cancel([ended], tenant_id=None, reason=None, actor=None))
    side = db.store.side
    with side.transaction():
        side.execute("select headway.process_round(500)")
        assert side.execute("select current_setting('headway.rest_left')").fetchone() == ("on",)
    left = side.execute("select cardinality(jobs) from headway.arrivals where jobs is not null").fetchall()
    assert max(left) == (PIECE,)
    assert len(left) > 5
    side.execute("select headway.process_round(500)")
    assert db.job(small).status == "canceled"


@pytest.mark.parametrize("what", ["group", "train"])
def test_no_long_answer_is_read_under_the_write_lock(db, make, what):
    new = make.group(mode="parallel", on_failure="stop")
    jobs = [make.job(train="t") if what == "train" else make.job(group_id=new.id) for _ in range(50)]
    db.run(db.ops.enqueue(jobs, group=new))
    if what == "train":
        op = db.ops.clear_train("t", tenant_id=None, actor=None)
    else:
        op = db.ops.cancel_group(new.id, tenant_id=None, reason=None, actor=None)
    counted = Counted(op.steps)
    assert set(db.run(msgspec.structs.replace(op, steps=counted))) == {job.id for job in jobs}
    if db.dialect == "sqlite":  # on PostgreSQL nobody waits for a reader
        assert 0 < counted.longest <= 2 * PIECE
    go_on(db)
    assert count(db, "canceled") == 50


def test_a_car_that_starts_while_the_train_is_read_is_not_said_to_be_cleared(db):
    ids = [db.enqueue(train="t").id for _ in range(30)]
    op = db.ops.clear_train("t", tenant_id=None, actor=None)
    if db.dialect == "sqlite":
        db.run(Op(op.read_ahead, writes=False))
        op = msgspec.structs.replace(op, read_ahead=None)
    db.finish(db.take())
    db.finish(db.take())
    assert db.take().id == ids[2]
    assert db.run(op) == ids[3:]


class Counted:
    """An op's steps, and the number of rows of the longest answer to one of them."""

    def __init__(self, steps):
        self._steps = steps
        self.longest = 0

    def __call__(self):
        steps, rows = self._steps(), None
        while True:
            try:
                request = steps.send(rows)
            except StopIteration as end:
                return end.value
            rows = yield request
            self.longest = max(self.longest, len(rows))


def aside(db):
    ((many,),) = db.sql("select count(*) from {jobs} where limited_by is not null")
    return many


def suspended(db, many=30):
    """A tenant that is suspended, and whose jobs are set aside."""
    db.run(db.ops.create_tenant(ACME, "acme", actor=None))
    for _ in range(many):
        db.enqueue(tenant="acme", tenant_id=ACME)
    db.run(db.ops.suspend_tenant(ACME, actor=None))
    assert db.claim(limit=100) == []
    assert aside(db) == many


def test_the_jobs_of_a_resumed_tenant_come_back_in_pieces(db):
    suspended(db)
    db.run(db.ops.resume_tenant(ACME, actor=None))
    assert aside(db) == 30 - PIECE
    go_on(db)
    assert aside(db) == 0
    assert len(db.claim(limit=100)) == 30


def test_a_tenant_suspended_again_gets_no_further_pieces(db):
    suspended(db)
    db.run(db.ops.resume_tenant(ACME, actor=None))
    db.run(db.ops.suspend_tenant(ACME, actor=None))
    go_on(db)
    assert db.claim(limit=100) == []
    assert aside(db) == 30
    db.run(db.ops.resume_tenant(ACME, actor=None))
    go_on(db)
    assert len(db.claim(limit=100)) == 30


@pytest.mark.parametrize("most", [None, 2_000_000_000])
def test_so_do_those_of_a_tenant_whose_limit_is_raised(db, most):
    db.limit("tenant", ACME, max_running=0)
    for _ in range(30):
        db.enqueue(tenant="acme", tenant_id=ACME)
    assert db.claim(limit=100) == []
    db.limit("tenant", ACME, max_running=most)
    assert aside(db) == 30 - PIECE
    assert len(db.claim(limit=100)) > 0
    go_on(db)
    assert aside(db) == 0


def test_a_resumed_tenant_with_a_limit_gets_what_it_may_run(db):
    db.limit("tenant", ACME, max_running=3)
    suspended(db)
    db.run(db.ops.resume_tenant(ACME, actor=None))
    go_on(db)
    assert aside(db) == 27
    started = db.claim(limit=100)
    assert len(started) == 3
    for claim in started:
        db.finish(claim)
    assert len(db.claim(limit=100)) == 3
