"""The dangerous moments of joins, groups and reservations on PostgreSQL: open transactions that meet, step by step."""

from __future__ import annotations

import pytest

from headway.errors import InvalidJob
from headway.model.ids import new_id

pytestmark = pytest.mark.parametrize("store", ["postgres"], indirect=True)
SOON = 10
ISOLATIONS = pytest.mark.parametrize("isolation", ["READ_COMMITTED", "REPEATABLE_READ", "SERIALIZABLE"])
ORDERS = pytest.mark.parametrize("order", ["EeSs", "ESes", "ESse", "SEes", "SEse", "SsEe"])


def ids_of(claims):
    return [claim.id for claim in claims]


# after


@ORDERS
@pytest.mark.parametrize(
    ("isolation", "to"),
    [
        ("READ_COMMITTED", "succeeded"),
        ("READ_COMMITTED", "dead"),
        ("REPEATABLE_READ", "succeeded"),
        ("SERIALIZABLE", "succeeded"),
    ],
)
def test_a_child_enqueued_while_its_parent_settles_is_not_forgotten(db, make, session, isolation, order, to):
    parent = db.start(queue="parents")
    child, other = make.job(after=(parent.id,)), make.job(after=(parent.id,), on_failure="continue")
    user, settler = session(isolation), session()
    for step in order:
        match step:
            case "E":
                user.run(db.ops.enqueue([child, other]))
            case "e":
                user.commit()
            case "S":
                settler.run(db.ops.settle(db.home(), [make.settlement(parent, to)]))
            case "s":
                settler.commit()
        db.claim(queue="parents")
    claimed = ids_of(db.claim())
    assert claimed == ([child.id, other.id] if to == "succeeded" else [other.id])
    assert db.statuses(child.id) == ["running" if to == "succeeded" else "canceled"]


@ISOLATIONS
def test_a_snapshot_from_before_the_settle_forgets_no_child(db, make, session, isolation):
    parent = db.start(queue="parents")
    user = session(isolation)
    user.conn.execute("select count(*) from headway.jobs")
    db.finish(parent)
    child = make.job(after=(parent.id,))
    user.run(db.ops.enqueue([child]))
    user.commit()
    assert ids_of(db.claim()) == [child.id]


def test_a_child_that_is_rolled_back_leaves_nothing(db, make, session):
    parent = db.start(queue="parents")
    user = session()
    user.run(db.ops.enqueue([make.job(after=(parent.id,))]))
    db.finish(parent)
    user.rollback()
    assert db.claim() == []
    assert db.sql("select count(*) from {edges}") == [(0,)]


@pytest.mark.parametrize("to", ["succeeded", "dead"])
@pytest.mark.parametrize("order", ["first", "second"])
def test_the_last_two_siblings_may_settle_at_the_same_moment(db, make, session, until, to, order):
    one, two = (db.start(queue="parents") for _ in range(2))
    child = db.enqueue(after=(one.id, two.id)).id
    left, right = session(), session()
    claims = (one, two) if order == "first" else (two, one)
    left.run(db.ops.settle(db.home(), [make.settlement(claims[0], "succeeded")]))
    late = right.start(db.ops.settle(db.home(), [make.settlement(claims[1], to)]))
    until(lambda: right.blocked() or late.done())
    left.commit()
    assert late.result(SOON).lost == []
    assert ids_of(db.claim()) == ([child] if to == "succeeded" else [])
    assert db.statuses(child) == ["running" if to == "succeeded" else "canceled"]


def test_many_siblings_in_two_batches_at_the_same_moment(db, make, session, until):
    ids = db.enqueue_ids(10, queue="parents")
    claims = db.claim(queue="parents")
    children = db.enqueue_ids(5, after=tuple(ids))
    left, right = session(), session()
    left.run(db.ops.settle(db.home(), [make.settlement(claim, "succeeded") for claim in claims[::2]]))
    late = right.start(db.ops.settle(db.home(), [make.settlement(claim, "succeeded") for claim in claims[1::2]]))
    until(lambda: right.blocked() or late.done())
    left.commit()
    assert late.result(SOON).lost == []
    assert sorted(ids_of(db.claim())) == sorted(children)


@ORDERS
def test_a_child_enqueued_while_its_parent_is_canceled_is_not_forgotten(db, make, session, order):
    parent = db.enqueue(queue="parents").id
    child = make.job(after=(parent,), on_failure="continue")
    user, operator = session(), session()
    for step in order:
        match step:
            case "E":
                user.run(db.ops.enqueue([child]))
            case "e":
                user.commit()
            case "S":
                operator.run(db.ops.cancel([parent], tenant_id=None, reason=None, actor=None))
            case "s":
                operator.commit()
    assert ids_of(db.claim()) == [child.id]


def test_an_open_transaction_with_children_holds_up_no_parent(db, make, session):
    parent = db.start(queue="parents")
    user = session()
    child = make.job(after=(parent.id,), train="t")
    user.run(db.ops.enqueue([child]))
    db.settle(parent, "scheduled", charge=1)
    db.finish(*db.claim(queue="parents"))
    user.commit()
    assert ids_of(db.claim()) == [child.id]


# groups


def group(db, make, count=3, on_failure="stop"):
    """A parallel group whose members all run; gives its id, their claims and the callback."""
    group_id = new_id()
    members = [make.job(group_id=group_id, queue="members") for _ in range(count)]
    policy = "continue" if on_failure == "continue" else "stop"
    callback = make.job(after=tuple(job.id for job in members), on_failure=policy)
    row = make.group(id=group_id, on_failure=on_failure, callback_id=callback.id)
    db.enqueue_all([*members, callback], row)
    return group_id, db.claim(queue="members"), callback.id


def test_two_members_that_fail_at_the_same_moment_stop_the_group_once(db, make, session, until):
    group_id, (one, two, three), callback = group(db, make)
    left, right = session(), session()
    left.run(db.ops.settle(db.home(), [make.settlement(one, "dead")]))
    late = right.start(db.ops.settle(db.home(), [make.settlement(two, "dead")]))
    until(lambda: right.blocked() or late.done())
    left.commit()
    assert late.result(SOON).lost == []
    assert db.statuses(one.id, two.id, three.id, callback) == ["dead", "dead", "running", "canceled"]
    assert db.heartbeat().canceling == [(three.id, 1)]
    assert db.group(group_id).stopped_at == db.now()


def test_a_member_that_ends_well_while_another_stops_the_group_stays_succeeded(db, make, session, until):
    group_id, (one, two, three), callback = group(db, make)
    left, right = session(), session()
    left.run(db.ops.settle(db.home(), [make.settlement(two, "succeeded")]))
    late = right.start(db.ops.settle(db.home(), [make.settlement(one, "dead")]))
    until(lambda: right.blocked() or late.done())
    left.commit()
    assert late.result(SOON).lost == []
    assert db.statuses(one.id, two.id, three.id, callback) == ["dead", "succeeded", "running", "canceled"]
    assert db.group(group_id).stopped_at == db.now()


def test_a_member_added_while_the_last_one_settles_is_waited_for_or_refused(db, make, session, until):
    group_id, claims, callback = group(db, make)
    db.finish(*claims[:2])
    settler, user = session(), session()
    settler.run(db.ops.settle(db.home(), [make.settlement(claims[2], "succeeded")]))
    late = make.job(group_id=group_id, queue="members")
    added = user.start(db.ops.enqueue([late]))
    until(lambda: user.blocked() or added.done())
    settler.commit()
    try:
        added.result(SOON)
    except InvalidJob:
        assert db.drain() == [callback]
    else:
        first = db.drain()
        assert db.drain("members") == [late.id]
        assert first + db.drain() == [callback]


# reservations


def test_once_reserve_returned_no_claim_commits(db, session, until):
    db.enqueue_ids(2)
    worker = db.worker()
    claimer, holder = session(), session()
    assert len(claimer.run(db.ops.claim(worker, "default", 1))) == 1
    reservation = new_id()
    granted = holder.start(db.ops.reserve("default", reservation, holder="h", expires_ms=60_000))
    until(holder.blocked)
    assert not granted.done()
    claimer.commit()
    assert granted.result(SOON).id == reservation
    assert db.claim() == []
    assert db.running_in("default") == 1


def test_a_claim_that_meets_an_uncommitted_reservation_takes_nothing(db, session, until):
    job_id = db.enqueue().id
    worker = db.worker()
    holder, claimer = session(), session()
    holder.run(db.ops.reserve("default", new_id(), holder="h", expires_ms=60_000))
    late = claimer.start(db.ops.claim(worker, "default", 1))
    until(lambda: claimer.blocked() or late.done())
    holder.commit()
    assert late.result(SOON) == []
    assert db.status(job_id) == "queued"


def test_of_two_reservations_at_once_one_is_granted(db, session, until):
    one, two = session(), session()
    first, second = new_id(), new_id()
    assert one.run(db.ops.reserve("default", first, holder="a", expires_ms=60_000)).id == first
    late = two.start(db.ops.reserve("default", second, holder="b", expires_ms=60_000))
    until(lambda: two.blocked() or late.done())
    one.commit()
    assert late.result(SOON).id == first
    assert [each.id for each in db.reservations()] == [first]


def test_a_reservation_of_one_queue_does_not_wait_for_claims_of_another(db, session):
    db.enqueue(queue="mail")
    claimer = session()
    claimer.run(db.ops.claim(db.worker(), "mail", 1))
    reservation = new_id()
    assert db.reserve(reservation, "post").id == reservation
    claimer.commit()


def test_what_a_claim_holds_is_not_taken_too(db, session, until):
    job_id = db.enqueue().id
    claimer, taker = session(), session()
    claimer.run(db.ops.claim(db.worker(), "default", 1))
    taken = taker.start(db.ops.take(db.worker(), job_id, reservation_id=None))
    until(lambda: taker.blocked() or taken.done())
    claimer.commit()
    assert taken.result(SOON) is None
    assert db.job(job_id).fence == 1
