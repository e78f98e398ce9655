"""Errors by fingerprint: every bad end is counted once, whoever folds it and whenever, and leads to its jobs."""

from __future__ import annotations

import threading
from datetime import timedelta

import msgspec
import pytest

from headway.model import error_groups
from headway.model.error_groups import ErrorFilter, beyond_limit, identify, listed
from headway.model.ids import DEFAULT_TENANT_ID, new_id
from headway.model.listing import Filter
from headway.model.reported import Failure
from tests.store.db import settlement
from tests.tenant_ids import tenant_id

BOOM = "ValueError: no user {}"


def fold(db, limit=1_000):
    return db.run(db.ops.fold_errors(limit=limit))


def groups(db, **where):
    """What is stored and what is not added yet, by fingerprint."""
    wanted = ErrorFilter(**where)
    found = listed(db.run(db.ops.errors(wanted)), wanted, "last_seen", limit=10_000, offset=0)
    return {group.fingerprint: group for group in found}


def of(text, kind="mail", status="failed"):
    return identify(kind, status, text and text.replace("{}", "0")).fingerprint


def found(db, order="newest", **where):
    return [job.id for job in db.run(db.ops.find(Filter(**where), limit=100, order=order))]


def fail(db, n=1, to="dead", kind="mail", **options):
    """A job that ended with an error that names a number."""
    values = {key: options.pop(key) for key in ("status", "error", "delay_ms") if key in options}
    claim = db.start(kind=kind, **options)
    db.settle(claim, to, charge=1, **{"error": BOOM.format(n), **values})
    return claim


def test_every_bad_end_is_counted_and_nothing_else(db):
    fail(db, 1)
    fail(db, 2, to="scheduled", delay_ms=60_000)
    fail(db, 3, status="timeout", error="timed out after 3s")
    fail(db, 4, kind="once", to="failed", queue="once", delivery="at_most_once")
    reported = db.start(kind="mail", queue="http")
    db.fail(Failure(id=reported.id, fence=reported.fence, error=BOOM.format(5)))
    committed = db.start(kind="mail", queue="own")
    db.commit_outcome(settlement(committed, "dead", charge=1, error=BOOM.format(6)))
    db.settle_committed(committed)
    worker = db.worker()
    db.start(worker, kind="mail", queue="gone")
    db.reap(worker)
    nameless = db.start(kind="odd", queue="odd")
    db.settle(nameless, "dead", charge=1)
    # none of these is an error
    fine, canceled, released, put_off = [db.start(kind="fine", queue=f"q{n}") for n in range(4)]
    db.finish(fine)
    db.settle(canceled, "canceled", error="not needed")
    db.release(released)
    db.settle(put_off, "scheduled", status="snoozed", delay_ms=1_000)
    expected = {
        of(BOOM): (4, 2),
        of("", status="timeout"): (1, 1),
        of(BOOM, kind="once"): (1, 0),
        of("", status="lost"): (1, 0),
        of(None, kind="odd"): (1, 1),
    }
    for _folded in range(2):
        seen = groups(db)
        assert {name: (each.count, each.dead) for name, each in seen.items()} == expected
        assert {each.queue for each in seen.values()} == {"own", "default", "once", "gone", "odd"}
        boom = groups(db, fingerprint=of(BOOM))[of(BOOM)]
        assert (boom.job_id, boom.fence, boom.queue, boom.kind) == (committed.id, 1, "own", "mail")
        assert (boom.message, boom.sample, boom.type) == (BOOM.format(6), BOOM.format(6), "ValueError")
        assert groups(db)[of(BOOM)].sample in ("", BOOM.format(6))
        fold(db)
    assert fold(db) == 0
    assert db.sql("select * from {error_deltas}") == []
    ((noted,),) = db.sql("select count(*) from {job_errors}")
    assert noted == 8


def test_groups_are_added_up_over_time_and_read_by_filter(db):
    began = db.now()
    acme = tenant_id("acme")
    for n in range(6):
        fail(db, n, tenant_id=acme if n % 2 else DEFAULT_TENANT_ID, queue="a" if n < 4 else "b")
        if n in (1, 3):
            fold(db)
        db.advance(60)
    fail(db, 7, kind="report", status="timeout", error="timed out after 3s")
    (boom,) = groups(db, kind=("mail",)).values()
    assert (boom.count, boom.tenants, boom.queue, boom.message) == (6, 2, "b", BOOM.format(5))
    assert boom.first_seen_at == began
    assert boom.last_seen_at == began + timedelta(minutes=5)
    for _folded in range(2):
        assert groups(db, tenant_id=acme)[boom.fingerprint].count == 3
        assert groups(db, tenant_id=tenant_id("other")) == {}
        assert groups(db, queue=("b",))[boom.fingerprint].count == 2
        assert [each.kind for each in groups(db, status=("timeout",)).values()] == ["report"]
        assert [each.kind for each in groups(db, since=db.now()).values()] == ["report"]
        assert [each.kind for each in groups(db).values()] == ["report", "mail"]
        fold(db)
    where = ErrorFilter()
    every = db.run(db.ops.errors(where))
    assert [each.kind for each in listed(every, where, "count", limit=1, offset=0)] == ["mail"]
    assert [each.kind for each in listed(every, where, "count", limit=1, offset=1)] == ["report"]
    assert db.run(db.ops.prune_errors(older_than_ms=120_000, limit=100)) == 2
    assert groups(db)[boom.fingerprint].count == 2


def test_the_jobs_of_an_error_are_those_whose_last_execution_ended_so(db):
    name, other = of(BOOM), of("another {}")
    acme = tenant_id("acme")
    dead = fail(db, 1)
    again = fail(db, 2, to="scheduled", delay_ms=1_000, tenant_id=acme)
    for _folded in range(2):
        assert found(db, error=name) == [again.id, dead.id]
        assert found(db, error=name, order="oldest") == found(db, error=name, order="priority") == [dead.id, again.id]
        assert found(db, error=name, status="dead") == found(db, error=name, tenant_id=DEFAULT_TENANT_ID) == [dead.id]
        assert found(db, error=name, ids=(again.id,)) == found(db, error=name, tenant_id=acme) == [again.id]
        assert found(db, error=name, tenant_id=tenant_id("other")) == found(db, error=other) == []
        assert db.run(db.ops.error_of(dead.id, tenant_id=None)) == name
        assert db.run(db.ops.error_of(dead.id, tenant_id=acme)) is None
        assert db.run(db.ops.error_of(new_id(), tenant_id=None)) is None
        fold(db)
    db.advance(2)
    db.promote()
    claim = db.take()
    assert found(db, error=name) == [again.id, dead.id]  # it is running again
    db.settle(claim, "scheduled", charge=1, delay_ms=1_000, error="another 3")
    for _folded in range(2):
        assert (found(db, error=name), found(db, error=other)) == ([dead.id], [again.id])
        assert db.run(db.ops.error_of(again.id, tenant_id=None)) == other
        fold(db)
    db.advance(2)
    db.promote()
    db.drain()
    db.retry(dead.id)
    assert found(db, error=other) == []  # it succeeded
    assert found(db, error=name, status="queued") == [dead.id]
    db.cancel(dead.id)
    assert found(db, error=name, status="canceled") == [dead.id]
    db.advance(1)
    assert db.prune("canceled", older_than_ms=0) == 1
    assert db.sql("select job_id from {job_errors} where fingerprint = '" + name + "'") == []


def test_an_old_execution_does_not_replace_a_jobs_last_error(db):
    claim = fail(db, 1, to="scheduled", delay_ms=0)
    db.settle(db.take(), "dead", charge=1, error="another 2")
    assert fold(db, limit=1) == 1
    assert fold(db, limit=1) == 1
    assert found(db, error=of("another {}")) == [claim.id]
    assert found(db, error=of(BOOM)) == []
    assert {each.count for each in groups(db).values()} == {1}


def test_two_that_fold_at_once_add_everything_once(db):
    for n in range(40):
        fail(db, n, kind=f"k{n % 5}")
    before = groups(db)
    gate = threading.Barrier(3)

    def work():
        gate.wait()
        while any(fold(db, limit=3) for _ in range(3)):
            pass

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while fold(db):
        pass
    assert groups(db) == {name: msgspec.structs.replace(each, sample="") for name, each in before.items()}


def test_a_tenant_has_so_many_groups_and_the_rest_count_together(db, monkeypatch):
    monkeypatch.setattr(error_groups, "MOST_GROUPS", 3)
    words = ("apple", "bean", "corn", "dill", "elder")
    for word in words:
        fail(db, error=f"no {word}")
    fail(db, error="no dill", tenant_id=tenant_id("acme"))
    fold(db)
    fail(db, error="no apple")
    fail(db, error="no fig")
    fold(db)
    counts = {each.message: each.count for each in groups(db, tenant_id=DEFAULT_TENANT_ID).values()}
    assert counts == {"no apple": 2, "no bean": 1, "no corn": 1, beyond_limit("mail").message: 3}
    assert [each.message for each in groups(db, tenant_id=tenant_id("acme")).values()] == ["no dill"]


@pytest.mark.parametrize("text", ["x" * 1_048_576, "\n\n\n", "'\\\"{}%s; drop table jobs --", "\u202e \x1b[31m red"])
def test_hostile_texts_lose_nothing_and_break_nothing(db, text):
    claim = fail(db, error=text)
    for _folded in range(2):
        name = identify("mail", "failed", error_groups.excerpt(text)).fingerprint
        (group,) = groups(db, fingerprint=name).values()
        assert group.sample == error_groups.excerpt(text)
        assert found(db, error=group.fingerprint) == [claim.id]
        fold(db)
    ((stored,),) = db.sql("select error from {attempts}")
    assert stored == text
