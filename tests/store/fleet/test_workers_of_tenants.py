"""A verb of a worker that is given a tenant touches no other tenant's jobs, whatever the worker's id says."""

from __future__ import annotations

from typing import Any

import pytest

from headway.model.reported import Completion, Failure
from tests.tenant_ids import tenant_id

ACME, OTHER = tenant_id("acme"), tenant_id("other")


@pytest.mark.parametrize("ended", [False, True])
def test_the_jobs_of_another_tenant_are_not_its_own(db: Any, ended: bool) -> None:
    worker = db.worker()
    db.enqueue(tenant="acme")
    (job,) = db.claim_once("a", worker, tenant_id=ACME)
    key = (job.id, job.fence)

    def asked(tenant: str) -> dict[str, Any]:
        beat = db.run(db.ops.heartbeat_claims(worker, [key], complete=True, tenant_id=tenant))
        return {
            "claimed again": [each.id for each in db.claim_once("a", worker, tenant_id=tenant)],
            "running": db.run(db.ops.running(worker, tenant_id=tenant)),
            "held": [] if key in beat.lost else [key],
            "forgotten": [each.id for each in beat.forgotten],
        }

    before = db.run(db.ops.get([job.id], tenant_id=None))
    nothing: dict[str, Any] = {"claimed again": [], "running": [], "held": [], "forgotten": []}
    assert asked(OTHER) == nothing
    assert asked(ACME) == nothing | {"claimed again": [job.id], "running": [key], "held": [key]}
    db.advance("10s")
    db.heartbeat(worker)
    db.heartbeat(worker)
    # nor are they among those that it forgot
    said = db.run(db.ops.heartbeat_claims(worker, [], complete=True, tenant_id=OTHER))
    assert (said.lost, said.forgotten, said.canceling) == ([], [], [])
    if ended:  # a repeat does not tell of them either
        db.run(db.ops.complete(worker, [Completion(*key, "1")], tenant_id=ACME))
        before = db.run(db.ops.get([job.id], tenant_id=None))
    for op in (
        db.ops.complete(worker, [Completion(*key, "2")], tenant_id=OTHER),
        db.ops.fail(worker, [Failure(*key, "mine now")], tenant_id=OTHER),
    ):
        said = db.run(op)
        assert (said.statuses, said.lost) == ({}, [key])
    assert db.run(db.ops.get([job.id], tenant_id=None)) == before
    assert db.run(db.ops.complete(worker, [Completion(*key, "1")], tenant_id=ACME)).statuses == {job.id: "succeeded"}
