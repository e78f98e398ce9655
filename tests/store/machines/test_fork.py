"""Forks: a new machine that begins where another one was, with what that one had then."""

from __future__ import annotations

import msgspec
import pytest

from headway.errors import Duplicate
from headway.model.ids import new_id
from tests.store.machines.machine_calls import QUIET, checkpoint, ids_of, inbox
from tests.tenant_ids import tenant_id


def fork_of(db, make, job_id, **options):
    """As the application builds it: the origin's checkpoint, and who it was."""
    old = db.job(job_id)
    base = {
        "forked_from": job_id,
        "version": old.version,
        "step": old.step,
        "awaiting": old.awaiting,
        "match": old.match,
        "joining": old.joining,
        "woken": old.woken,
    }
    return make.machine(**{**base, **options})


def test_a_fork_begins_where_the_other_was(db, make):
    claim = db.begin(version=3, step="pay", state={"n": 1}, awaiting=("paid",), match="all", woken="signal")
    db.turn(claim, "stop", error="boom")
    new = make.machine(
        forked_from=claim.id,
        version=4,
        step="pay",
        state={"n": 9},
        awaiting=("paid", "late"),
        match="all",
        woken="timeout",
        joining=5,
        queue="shop",
        payload='{"order": 42}',
    )
    copies = [make.signal(new.id, "paid", {"a": n}, dedup_key=f"d-{n}") for n in range(3)]
    answer = db.fork(new, *copies, actor="ann")
    assert (answer.id, answer.status, answer.created) == (new.id, "queued", True)
    again = db.take(queue="shop")
    at = checkpoint(again)
    assert (again.id, again.fence, again.tries, msgspec.json.decode(again.payload)) == (new.id, 1, 0, {"order": 42})
    assert (at.version, at.step, msgspec.json.decode(at.state), at.forked_from) == (4, "pay", {"n": 9}, claim.id)
    assert (at.awaiting, at.match, at.woken, at.joining) == (("paid", "late"), "all", "timeout", 5)
    assert [(each.id, each.payload, each.dedup_key) for each in at.signals] == [
        (copy.id, {"a": n}, f"d-{n}") for n, copy in enumerate(copies)
    ]
    assert db.job(new.id).forked_from == claim.id
    assert db.status(claim.id) == "dead"


def test_a_fork_is_audited_on_the_new_job(db, make):
    claim = db.begin()
    new = make.machine(forked_from=claim.id)
    db.fork(new, actor="ann")
    (entry,) = db.audit(new.id)
    assert (entry.actor, entry.action, entry.at) == ("ann", "fork", db.now())
    assert db.audit(claim.id) == []


def test_the_origin_goes_on_by_itself(db, make):
    claim = db.begin(step="pay")
    sent = db.signal(claim.id, "paid")
    fork = make.machine(forked_from=claim.id, queue="forks")
    db.fork(fork, make.signal(fork.id, "paid"))
    copy = db.take(queue="forks")
    db.turn(copy, "done", consumed=ids_of(copy, "paid"))
    assert db.inboxes(claim.id) == [("paid", "pending", None)]
    assert db.turn(claim, "done", consumed=(sent.id,)) == QUIET
    assert db.inboxes(fork.id) == [("paid", "consumed", 1)]


def test_a_fork_has_an_inbox_of_its_own(db, make):
    claim = db.begin()
    db.signal(claim.id, "paid", dedup_key="k")
    fork = make.machine(forked_from=claim.id)
    db.fork(fork)
    assert db.signals(fork.id) == []
    assert db.signal(fork.id, "paid", dedup_key="k").created
    assert inbox(db.take()) == ["paid"]


def test_a_fork_sees_the_children_that_its_origin_had(db, make):
    claim = db.begin()
    children = db.spawn(claim, *(make.job(queue="kids") for _ in range(2)))
    db.drain("kids")
    db.finish(db.take())
    fork = make.machine(forked_from=claim.id, joining=1, woken="children", step="sum")
    db.fork(fork)
    again = db.take()
    assert (checkpoint(again).joining, checkpoint(again).woken) == (1, "children")
    assert [(child.id, child.status) for child in db.children(fork.id)] == [(child, "succeeded") for child in children]
    assert db.spawned(fork.id) == []


def test_a_fork_spawns_children_of_its_own(db, make):
    claim = db.begin()
    (theirs,) = db.spawn(claim, make.job(queue="kids"))
    fork = make.machine(forked_from=claim.id, joining=1, woken="children", queue="forks")
    db.fork(fork)
    (mine,) = db.spawn(db.take(queue="forks"), make.job(queue="kids"))
    assert [child.id for child in db.children(fork.id)] == [mine]
    assert db.spawned(fork.id) == [(1, mine)]
    db.cancel(fork.id)
    assert db.statuses(mine, theirs, claim.id) == ["canceled", "queued", "waiting"]


def test_a_fork_of_a_fork_sees_the_first_ones_children(db, make):
    claim = db.begin()
    (child,) = db.spawn(claim, make.job(queue="kids"))
    db.drain("kids")
    db.finish(db.take())
    first = make.machine(forked_from=claim.id, joining=1, woken="children")
    db.fork(first)
    db.finish(db.take())
    second = fork_of(db, make, first.id, woken="children", joining=1)
    db.fork(second)
    assert [each.id for each in db.children(second.id)] == [child]


def test_a_fork_whose_key_is_taken_is_refused_with_its_signals(db, make):
    db.machine(unique_key="k", queue="other")
    origin = db.begin()
    fork = make.machine(forked_from=origin.id, unique_key="k", on_conflict="raise")
    with pytest.raises(Duplicate):
        db.fork(fork, make.signal(fork.id, "paid"))
    assert db.find(kind="checkout", queue="default", status="queued") == []
    assert db.sql("select count(*) from {signals}") == [(0,)]
    assert db.audit(fork.id) == []


def test_a_fork_stays_with_its_tenant(db, make):
    claim = db.begin(tenant="acme")
    fork = make.machine(forked_from=claim.id, tenant="acme")
    db.fork(fork, make.signal(fork.id, "paid"))
    assert len(db.signals(fork.id, tenant_id=tenant_id("acme"))) == 1
    assert db.signals(fork.id, tenant_id=tenant_id("beta")) == []


def test_a_fork_that_does_not_wait_again_is_queued(db, make):
    """It begins with a step that runs: what its origin awaited then is only what woke it."""
    origin = db.parked("paid")
    fork = fork_of(db, make, origin, woken="signal")
    assert db.fork(fork, make.signal(fork.id, "paid")).status == "queued"
    assert db.status(origin) == "waiting"
    assert inbox(db.take()) == ["paid"]


def test_an_origin_may_be_pruned(db, make):
    claim = db.begin()
    db.turn(claim, "done")
    fork = make.machine(forked_from=claim.id)
    db.fork(fork)
    db.advance("1h")
    assert db.prune("succeeded", older_than_ms=0) == 1
    assert db.job(fork.id).forked_from == claim.id
    assert db.children(fork.id) == []
    db.turn(db.take(), "done")


def test_an_id_that_was_forked_already_is_answered_again(db, make):
    """The application lost the answer and asks again."""
    claim = db.begin()
    fork = make.machine(id=new_id(), forked_from=claim.id)
    copy = make.signal(fork.id, "paid")
    answers = [db.fork(fork, copy) for _ in range(2)]
    assert [(each.id, each.created) for each in answers] == [(fork.id, True), (fork.id, False)]
    assert len(db.signals(fork.id)) == 1
