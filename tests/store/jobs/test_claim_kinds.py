"""A claim for some kinds takes these alone, and leaves the others as they are."""

from __future__ import annotations

from typing import Any

import pytest

from headway.model.ids import new_id
from tests.tenant_ids import tenant_id


def _claimed(db: Any, worker: str, *kinds: str, tenant: str | None = None, limit: int = 100) -> list[str]:
    own = None if tenant is None else tenant_id(tenant)
    claims = db.run(db.ops.claim_once(worker, new_id(), ["default"], limit, tenant_id=own, kinds=kinds))
    return [claim.id for claim in claims]


def _left(db: Any) -> list[tuple[str, str, int]]:
    return db.sql("select kind, status, fence from {jobs} where status <> 'running' order by kind, id")  # type: ignore[no-any-return]


@pytest.mark.parametrize("tenant", ["default", "acme"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("limited", [False, True])
def test_jobs_of_other_kinds_stay_where_they_are(db: Any, tenant: str, shared: bool, limited: bool) -> None:
    if limited:
        db.limit("queue", "default", max_running=50)
    for other in {tenant, "globex"} if shared else {tenant}:
        for _ in range(3):
            db.enqueue(kind="other", tenant=other, priority=1)
    mine = [db.enqueue(kind=kind, tenant=tenant, priority=5).id for kind in ("one", "two", "one")]
    worker = db.worker()
    before = _left(db)
    assert _claimed(db, worker, "three", tenant=tenant) == []
    assert _left(db) == before
    assert _claimed(db, worker, "one", "two", tenant=tenant, limit=2) == mine[:2]
    assert _claimed(db, worker, "one", "two", tenant=tenant) == mine[2:]
    assert {(status, fence) for _, status, fence in _left(db)} == {("queued", 0)}
    assert _claimed(db, worker, tenant=tenant) == []


@pytest.mark.parametrize("unfair", [False, True])
def test_a_claim_for_all_tenants_finds_its_kinds_in_turn(db: Any, unfair: bool) -> None:
    if unfair:
        db.run(db.ops.set_fair("default", False, actor=None))
    worker = db.worker()
    for tenant in ("acme", "globex", "initech", "default"):
        db.enqueue(kind="other", tenant=tenant, priority=1)
    many = [db.enqueue(kind="one", tenant="acme").id for _ in range(4)]
    few = [db.enqueue(kind="one", tenant="initech").id for _ in range(2)]
    for _ in range(3):  # the first ones learn that tenants share the queue
        assert _claimed(db, worker, "none") == []
    found = [job for _ in range(10) for job in _claimed(db, worker, "one", limit=1)]
    assert sorted(found) == sorted(many + few)
    if unfair:
        assert found == many + few
    else:
        assert set(found[:4]) >= set(few)
    assert {(kind, status, fence) for kind, status, fence in _left(db)} == {("other", "queued", 0)}


def test_more_tenants_than_one_claim_looks_at(db: Any, make: Any) -> None:
    worker = db.worker()
    tenants = sorted((f"t{n}" for n in range(120)), key=tenant_id)
    jobs = [make.job(kind="one" if tenant == tenants[-1] else "other", tenant=tenant) for tenant in tenants]
    db.enqueue_all(jobs)
    for _ in range(3):  # the first ones learn that tenants share the queue
        assert _claimed(db, worker, "none") == []
    db.sql("update {queues} set turn = null")
    assert _claimed(db, worker, "one", limit=1) == []
    assert _claimed(db, worker, "one", limit=1) == [jobs[-1].id]
