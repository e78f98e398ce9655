"""Turns: where more arrived than one look takes, no tenant waits for what is another's."""

from __future__ import annotations

import pytest

from headway.model.ids import new_id
from headway.store.sqlite.order import postponed
from tests.tenant_ids import tenant_id

_FLOOD = {
    "postgres": (
        "insert into headway.arrivals (tenant_id, trains) select '{}', array['t' || n] from generate_series(1, 2000) n"
    ),
    "sqlite": (
        "with recursive n (n) as (select 1 union all select n + 1 from n where n < 2000) "
        "insert into arrivals (what, id, tenant_id) select 'ended', '{1}' || n, '{0}' from n"
    ),
}


def left(db) -> int:
    ((count,),) = db.sql("select count(*) from {arrivals}")
    return count


def look(db, limit: int = 4) -> None:
    db.run(db.ops.process_arrivals(limit=limit))


@pytest.mark.parametrize("owner", ["acme", None], ids=["one tenant's", "several tenants'"])
def test_a_flood_of_arrivals_holds_up_no_other_tenant(db, make, monkeypatch, owner):
    monkeypatch.setattr(postponed, "PIECE", 4)
    nobody = "" if db.dialect == "sqlite" else "ffffffff-ffff-ffff-ffff-ffffffffffff"
    db.sql(_FLOOD[db.dialect].format(nobody if owner is None else tenant_id(owner), new_id()))
    parent = db.enqueue(tenant="beta").id
    children = [make.job(tenant="beta", after=(parent,)) for _ in range(12)]
    db.enqueue_all(children)
    db.cancel(parent)
    for _ in range(10):
        look(db)
    assert {db.job(child.id).status for child in children} == {"canceled"}
    assert left(db) > 1_000


def next_car(db, _, tenant):
    train = new_id()
    first, second = (db.enqueue(tenant=tenant, train=train).id for _ in range(2))
    return lambda: db.cancel(first), (second, "queued")


def dependent(db, _, tenant):
    parent = db.enqueue(tenant=tenant).id
    child = db.enqueue(tenant=tenant, after=(parent,)).id
    return lambda: db.cancel(parent), (child, "canceled")


def late_dependent(db, make, tenant):
    parent = db.enqueue(tenant=tenant).id
    db.cancel(parent)
    child = make.job(tenant=tenant, after=(parent,), on_failure="continue")
    return lambda: db.enqueue_all([child]), (child.id, "queued")


def signaled(db, _, tenant):
    machine = db.parked("go", tenant=tenant)
    return lambda: db.signal(machine, "go", tenant_id=tenant_id(tenant)), (machine, "queued")


def group_member(db, make, tenant):
    group = make.group(tenant=tenant, tenant_id=tenant_id(tenant))
    first, second = (make.job(tenant=tenant, group_id=group.id) for _ in range(2))
    db.enqueue_all([first, second], group)
    return lambda: db.cancel(first.id), (second.id, "canceled")


@pytest.mark.parametrize("prepare", [next_car, dependent, late_dependent, signaled, group_member])
def test_what_one_tenant_does_often_holds_up_no_other(db, make, prepare):
    """What arrives is known to be its tenant's, whatever it is."""
    prepared = [prepare(db, make, tenant) for tenant in ["acme"] * 30 + ["beta"]]
    db.process_arrivals()
    for do, _ in prepared:
        do()
    look(db, limit=2)
    *others, theirs = [db.status(job_id) == status for _, (job_id, status) in prepared]
    assert theirs
    assert db.dialect == "sqlite" or not all(others)  # SQLite looks at once, but for what is very much
