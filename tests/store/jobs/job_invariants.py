"""The invariants that concern plain jobs, of rows as they look on either store."""

from __future__ import annotations

from typing import Any

from headway.model.status import FINISHED


def check_invariants(before: dict[str, Any], now: dict[str, Any]) -> None:
    """What holds of jobs and attempts after each step: one look at the rows, and the one before it."""
    rows, attempts = now["jobs"], now["attempts"]
    for name, job in rows.items():
        fences = [fence for job_name, fence in attempts if job_name == name]
        running = job["status"] == "running"
        # 1: a running job carries its open attempt
        assert (job["worker_id"] is not None) == running, job
        assert (job["attempt_started_at"] is not None) == running, job
        assert max(fences, default=0) <= job["fence"] - running, job
        assert (job["finished_at"] is not None) == (job["status"] in FINISHED), job
        assert job["status"] != "queued" or job["position"] is not None, job
        assert job["status"] != "scheduled" or job["scheduled_for"] is not None, job
        # 10: never executed twice
        if job["delivery"] == "at_most_once":
            assert len(fences) + running <= 1, job
        if name in before.get("jobs", {}):
            old = before["jobs"][name]
            assert job["fence"] >= old["fence"]
            assert job["fence"] == 0 or job["payload"] == old["payload"]
    # 1: ended attempts are immutable, and have their job
    assert {name for name, _ in attempts} <= set(rows)
    for key, row in before.get("attempts", {}).items():
        assert attempts.get(key, row) == row
        assert key in attempts or key[0] not in rows
    # 6: one job in scope per unique key, one per idempotency key; 10: one retry
    in_scope = [
        # a successor, which waits for the job that has its key, is in line for it: one per key, too
        (
            job["tenant_id"],
            job["unique_group"] or job["kind"],
            job["unique_key"],
            job["status"] == "held" and job["pending"],
        )
        for job in rows.values()
        if job["unique_key"] is not None and job["status"] in job["unique_scope"]
    ]
    assert len(in_scope) == len(set(in_scope))
    idempotent = [
        (job["tenant_id"], job["kind"], job["idempotency_key"])
        for job in rows.values()
        if job["idempotency_key"] is not None
    ]
    assert len(idempotent) == len(set(idempotent))
    retried = [job["retry_of"] for job in rows.values() if job["retry_of"] is not None]
    assert len(retried) == len(set(retried))
    # 3: one locomotive a train; 4: one running step a partition, no limit exceeded
    seated = [
        (job["tenant_id"], job["train"])
        for job in rows.values()
        if job["train"] is not None and job["status"] in ("queued", "running", "scheduled", "waiting")
    ]
    assert len(seated) == len(set(seated))
    for keys in (partition_of, limit_key_of):
        running = [keys(job) for job in rows.values() if job["status"] == "running" and keys(job) is not None]
        assert len(running) == len(set(running))


def partition_of(job: dict[str, Any]) -> tuple[str, ...] | None:
    return None if job["partition"] is None else ("p", job["tenant_id"], job["partition"])


def limit_key_of(job: dict[str, Any]) -> tuple[str, ...] | None:
    return None if job["concurrency_key"] is None else ("c", job["tenant_id"], job["kind"], job["concurrency_key"])
