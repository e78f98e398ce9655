"""`headway workers`: declare one dead."""

from __future__ import annotations

from typing import Any

import pytest

from headway import Headway
from headway.errors import NotAllowed

Cli = Any


def test_a_worker_is_declared_dead(cli: Cli, either: Headway, hand: Any) -> None:
    worker = hand()
    ids = {either.enqueue("welcome").id for _ in range(2)}
    worker.claim()
    either.store.run(either.store.ops.heartbeat(worker.id, running=2, busy=()))
    said = cli.refused("workers", "dead", worker.id, code=2)
    assert "take 2 jobs from worker elsewhere:77, last heartbeat" in said
    with pytest.raises(NotAllowed, match="workers are shared by all tenants: declare a worker dead with"):
        either.tenant("acme").declare_dead(worker.id)
    assert {each["job_id"] for each in cli.json("workers", "dead", worker.id, "--yes")} == ids
    assert {(job.status, job.losses) for job in either.jobs()} == {("scheduled", 1)}
    assert f"there is no worker {worker.id}" in cli.refused("workers", "dead", worker.id, "--yes", code=1)
    assert "is not an id" in cli.refused("workers", "dead", "x", "--yes", code=2)
    idle = hand()
    assert cli.ok("workers", "dead", idle.id, "--yes") == f"{idle.id}: declared dead, 0 jobs lost\n"
    assert either.workers() == []


def test_a_live_worker_is_set(cli: Cli, either: Headway, hand: Any) -> None:
    worker = hand()
    said = cli.ok("workers", "set", worker.id, "--queues", "mail=2,report-*=3", "--order", "report-*=4")
    assert said == f"{worker.id}: changed, from its next heartbeat on\n"
    (shown,) = [cli.json("workers", "set", worker.id, "--concurrency", "9")]
    assert shown["wanted"]["total"] == 9
    assert shown["wanted"]["entries"] == [
        {"pattern": "mail", "slots": 2, "weight": 1},
        {"pattern": "report-*", "slots": 3, "weight": 4},
    ]
    assert "what to change?" in cli.refused("workers", "set", worker.id, code=2)
    assert "is not known: use turns, strict" in cli.refused("workers", "set", worker.id, "--order", "first", code=2)
    assert "cannot be read" in cli.refused("workers", "set", worker.id, "--queues", "a", "--order", "a=x", code=2)


def test_a_worker_serves_patterns_in_order(cli: Cli, app: Headway) -> None:
    for queue in ("low", "high-1"):
        app.enqueue("welcome", {"user_id": 1}, queue=queue)
    summary = cli.json("worker", "shopapp:app", "--queues", "high-*,*", "--order", "strict", "--until-idle")
    assert summary["succeeded"] == 2
