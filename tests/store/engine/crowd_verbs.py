"""What the tests of costs call: each hot verb with its batch, and each list with its filter."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Change, Report
from headway.model.journal import Entry
from headway.model.listing import Cursor
from headway.model.reported import Completion, Failure
from tests.store.engine.crowd import FINISHED, QUEUED, WORKERS, Crowd, group_id, job_id, worker_id
from tests.tenant_ids import tenant_id


def verbs(ops: Any, make: Any, n: int, held: Any) -> dict[str, tuple[Any, int]]:
    """Each hot verb, different rows each time, and how many rows its batch has."""
    me = worker_id(1)
    mine = [job_id(m) for m in Crowd.running if m % WORKERS == 1][n * 10 : n * 10 + 10]

    def settlements(to: str) -> list[Any]:
        from headway.model.job import Settlement

        delay = 5_000 if to in ("scheduled", "failed") else 0
        return [Settlement(id=i, fence=1, status="failed", to=to, charge=1, delay_ms=delay) for i in mine]

    new = [make.job(queue="default") for _ in range(20)]
    keyed = [make.job(kind=f"kind{m % 7}", unique_key=f"key{m}") for m in Crowd.queued[n * 20 : n * 20 + 20]]
    replacing = [msgspec.structs.replace(job, on_conflict="replace", priority=7) for job in keyed]
    for_a_time = [make.job(unique_key=f"new{n}-{m}", unique_for_ms=60_000) for m in range(10)]
    for_a_time += [msgspec.structs.replace(job, unique_for_ms=60_000) for job in keyed[:10]]
    return {
        "claim": (ops.claim(me, "default", 20), 20),
        "claim from an empty queue": (ops.claim(me, "nothing", 20), 1),
        "claim once": (ops.claim_once(me, f"claim{n}", ["nothing", "default"], 20, tenant_id=None), 20),
        # of another tenant: the first jobs of the queue are looked at, however many there are
        "claim of a tenant": (ops.claim(me, "default", 20, tenant_id=tenant_id("nobody")), 1_000),
        "complete": (ops.complete(me, [Completion(i, 1, "1") for i in mine]), 10),
        "fail": (ops.fail(me, [Failure(i, 1, "boom") for i in mine]), 10),
        "heartbeat of what is held": (ops.heartbeat_claims(me, [(i, 1) for i in mine], complete=True), 100),
        "promote": (ops.promote(limit=50), 100),
        "reap": (ops.reap([], limit=50), 50),
        "settle": (ops.settle(me, settlements("succeeded")), 10),
        "settle to a retry": (ops.settle(me, settlements("scheduled")), 10),
        "settle to a new job": (ops.settle(me, settlements("failed")), 10),
        "settle what is lost": (ops.settle(me, _stale(settlements("succeeded"))), 10),
        "release": (ops.release([(i, 1) for i in mine], delay_ms=0), 10),
        "record": (ops.record(me, [_row(i, 20 + k) for i in mine for k in range(3)]), 30),
        "record again": (ops.record(me, [_row(i, k) for i in mine for k in range(1, 4)]), 30),
        "record what is lost": (ops.record(me, [_row(i, 20, fence=9) for i in mine]), 10),
        "record with a signal": (ops.record(me, [_row(i, 20, signal=job_id(1)) for i in mine]), 20),
        "record with a child": (
            ops.record(me, [_row(i, 20, child=job) for i, job in zip(mine, new, strict=False)]),
            30,
        ),
        "journals": (ops.journal(mine), 100),
        "news of flows": (ops.flow_news(me, mine), 10),
        "states of flows": (ops.set_flow_state(me, [(i, 1, "1") for i in mine]), 10),
        "children of flows": (ops.children_of_flow(mine), 10),
        "leave": (ops.leave(mine[0], mine[1:]), 10),
        "fork of a flow": (
            ops.fork_flow(make.machine(step="$flow", forked_from=mine[0]), mine[0], 9, {}, actor=None),
            30,
        ),
        "report": (ops.report(me, [Report(mine[0], 1, 0.5, "n", "t")]), 100),
        "heartbeat": (ops.heartbeat(me, running=1, busy=[]), 100),
        "running": (ops.running(me), 100),
        "enqueue": (ops.enqueue(new), 20),
        "enqueue of taken keys": (ops.enqueue(keyed), 20),
        "enqueue that replaces": (ops.enqueue(replacing), 20),
        "enqueue of keys for a time": (ops.enqueue(for_a_time), 20),
        "prune": (ops.prune("succeeded", older_than_ms=86_400_000, limit=100), 100),
        "prune of the dead": (ops.prune("dead", older_than_ms=86_400_000, limit=100), 100),
        "prune of nothing": (ops.prune("dead", older_than_ms=10**12, limit=100), 1),
        "cancel": (
            ops.cancel([job_id(Crowd.queued[n])], tenant_id=None, reason=None, actor=None),
            1,
        ),
        "retry": (ops.retry([job_id(30 * n + 1)], tenant_id=None, actor=None), 1),
        "change": (
            ops.change(
                job_id(Crowd.queued[n + 50]),
                Change(priority=5, scheduled_for=held.now() + timedelta(hours=1)),
                tenant_id=None,
                actor=None,
            ),
            1,
        ),
    }


def _row(flow: str, seq: int, **values: Any) -> Entry:
    kind = "called" if "child" in values else "done"
    return Entry(**{"job_id": flow, "fence": 1, "seq": seq, "kind": kind, "place": "step", "value": "{}", **values})


def _stale(settlements: list[Any]) -> list[Any]:
    return [msgspec.structs.replace(each, fence=9) for each in settlements]


VERBS = [
    "claim",
    "claim from an empty queue",
    "claim once",
    "claim of a tenant",
    "complete",
    "fail",
    "heartbeat of what is held",
    "promote",
    "reap",
    "settle",
    "settle to a retry",
    "settle to a new job",
    "settle what is lost",
    "release",
    "record",
    "record again",
    "record what is lost",
    "record with a signal",
    "record with a child",
    "journals",
    "news of flows",
    "states of flows",
    "children of flows",
    "leave",
    "fork of a flow",
    "report",
    "heartbeat",
    "running",
    "enqueue",
    "enqueue of taken keys",
    "enqueue that replaces",
    "enqueue of keys for a time",
    "prune",
    "prune of the dead",
    "prune of nothing",
    "cancel",
    "retry",
    "change",
]


LISTS = ["all", "dead", "failed", "canceled", "queued", "running", "scheduled", "succeeded"]


# filters and orders that have an index of their own, and where a second page begins
INDEXED = {
    "a rare tag": ({"tags": ("rare",)}, "newest", None),
    "a common tag": ({"tags": ("common",)}, "newest", None),
    "a common tag, deep": ({"tags": ("common",), "status": "succeeded"}, "newest", Cursor(job_id(FINISHED // 2))),
    "both tags": ({"tags": ("rare", "common")}, "oldest", None),
    "any tag": ({"any_tags": ("rare", "common", "none")}, "newest", None),
    "no such tag": ({"tags": ("none",), "status": "dead"}, "oldest", None),
    "an error": ({"error": "0123456789abcdef", "status": "dead"}, "newest", None),
    "an error, deep": ({"error": "0123456789abcdef"}, "oldest", Cursor(job_id(FINISHED // 2))),
    "no such error": ({"error": "fedcba9876543210"}, "newest", None),
    "a group": ({"group_id": group_id(1)}, "newest", None),
    "several groups": ({"group_id": (group_id(1), group_id(2), group_id(3))}, "newest", None),
    "several groups, deep": (
        {"group_id": (group_id(1), group_id(2)), "tenant_id": DEFAULT_TENANT_ID},
        "oldest",
        Cursor(job_id(FINISHED // 2)),
    ),
    "the dead of several groups": ({"group_id": (group_id(1), group_id(2)), "status": "dead"}, "newest", None),
    "several groups by priority": ({"group_id": (group_id(1), group_id(2))}, "priority", None),
    "no such groups": ({"group_id": (group_id(90_000), group_id(90_001))}, "oldest", None),
    "the oldest": ({}, "oldest", Cursor(job_id(FINISHED // 2))),
    "the oldest dead": ({"status": "dead"}, "oldest", Cursor(job_id(FINISHED // 2))),
    "a line": ({"queue": "bulk"}, "run", None),
    "a line, deep": ({"queue": "bulk"}, "run", Cursor(job_id(0), 100, Crowd.queued[QUEUED // 2] * 1024)),
}


# what no index finds, looked for among so many
SEARCHES = {
    "a kind": ({"kind": "none"}, "newest"),
    "a train, the oldest": ({"train": "none"}, "oldest"),
    "several trains": ({"train": ("none", "nor this")}, "newest"),
    "several trains of a tenant": ({"tenant_id": tenant_id("nobody"), "train": ("none", "nor this")}, "oldest"),
    "several trains of a status": ({"status": "succeeded", "train": ("none", "nor this")}, "newest"),
    "a key of the default tenant": ({"tenant_id": DEFAULT_TENANT_ID, "unique_key": "none"}, "newest"),
    "a key of a tenant": ({"tenant_id": tenant_id("nobody"), "unique_key": "none"}, "oldest"),
    "a source of a status": ({"status": "succeeded", "source": "agent"}, "newest"),
    "a queue of a status, the oldest": ({"status": "succeeded", "queue": "none"}, "oldest"),
    "a queue of what is queued": ({"status": "queued", "queue": "none"}, "oldest"),
    "a kind of a tag": ({"tags": ("common",), "kind": "none"}, "newest"),
    "a kind of an error": ({"error": "0123456789abcdef", "kind": "none"}, "oldest"),
    "a kind among ids": ({"id_from": job_id(0), "id_to": job_id(FINISHED), "kind": "none"}, "newest"),
    "a kind among ids, the oldest": ({"id_from": job_id(0), "id_to": job_id(FINISHED), "kind": "none"}, "oldest"),
}


def page_reads(ops: Any, tenant: str | None) -> dict[str, Any]:
    """What the dashboard's pages ask, beside lists: numbers that are bounded however many jobs there are."""
    return {
        "counts": ops.counts(tenant_id=tenant, most=500),
        "queues": ops.queues(tenant_id=tenant, most=500),
    }


PAGE_READS = ["counts", "queues"]
