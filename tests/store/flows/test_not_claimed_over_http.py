"""A claim over HTTP or by SQL never takes a flow: only our own workers can run one."""

from __future__ import annotations

from typing import Any

import pytest

from headway.model.ids import new_id
from headway.store.ops import Op, Statement, Steps
from tests.store.db import Db
from tests.store.flows.flow_calls import new_flow


def claim_once(db: Db, limit: int = 5, **options: Any) -> list[str]:
    op = db.ops.claim_once(db.worker(), new_id(), ["default"], limit, **{"tenant_id": None, **options})
    return [claim.kind for claim in db.run(op)]


@pytest.mark.parametrize("kinds", [None, ["plain", "checkout"], ["checkout"]])
@pytest.mark.parametrize("tenants", [(), ("acme", "globex")])
@pytest.mark.parametrize("own", [False, True])
def test_a_claim_over_http_takes_no_flow(db: Db, kinds: list[str] | None, tenants: tuple[str, ...], own: bool) -> None:
    names = tenants or ("default",)
    for _ in range(3):
        for tenant in names:
            flow = new_flow(tenant=tenant)
            db.run(db.ops.enqueue([flow]))
            db.enqueue(kind="plain", tenant=tenant)
    tenant_id = db.job(flow.id).tenant_id if own else None
    most = 3 if own else 3 * len(names)
    expected = [] if kinds == ["checkout"] else ["plain"] * most
    assert claim_once(db, 50, kinds=kinds, tenant_id=tenant_id) == expected
    assert claim_once(db, 50, kinds=kinds, tenant_id=tenant_id) == []


def test_our_own_workers_take_it(db: Db) -> None:
    db.run(db.ops.enqueue([new_flow()]))
    assert claim_once(db) == []
    assert [claim.kind for claim in db.claim()] == ["checkout"]


def test_a_claim_with_limits_passes_over_flows(db: Db) -> None:
    for _ in range(30):
        db.run(db.ops.enqueue([new_flow(concurrency=2, concurrency_key="k")]))
    db.enqueue(kind="plain", concurrency=2, concurrency_key="other")
    assert claim_once(db, 1) == ["plain"]


def test_a_claim_by_sql_takes_no_flow(db: Db) -> None:
    if db.store.dialect != "postgres":
        return  # SQLite has no functions
    db.run(db.ops.enqueue([new_flow()]))
    db.enqueue(kind="plain")
    sql = "select kind from headway.claim($1::uuid, $2, $3::integer)"
    found = db.run(Op(lambda: _rows(sql, [db.worker(), "default", 5]), writes=True))
    assert [kind for (kind,) in found] == ["plain"]


def _rows(sql: str, params: list[Any]) -> Steps[Any]:
    return (yield Statement(sql, params))
