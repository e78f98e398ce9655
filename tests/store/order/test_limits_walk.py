"""Random walks over partitions and limits: a claim takes exactly what a look at every row, in order, would take."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from headway.model.ids import new_id
from headway.model.job import Change, Claim, NewJob, Settlement
from headway.model.limit import Limit
from tests.tenant_ids import tenant_id

QUEUES, KINDS, TENANTS = ("a", "b"), ("x", "y"), ("default", "acme")
TABLES = ("jobs", "attempts", "queues", "audit", "holds", "limits", "buckets")

jobs = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(["a", "a", "b"]),
        "kind": st.sampled_from(KINDS),
        "tenant": st.sampled_from(["default", "default", "acme"]),
        "priority": st.sampled_from([100, 100, 1]),
        "partition": st.sampled_from([None, None, "p", "q"]),
        "key": st.sampled_from([None, None, ("k", 1), ("l", 2)]),
    }
)
limits = st.one_of(
    st.tuples(st.just("queue"), st.sampled_from(QUEUES)),
    st.tuples(st.just("kind"), st.sampled_from(KINDS)),
    st.tuples(st.just("tenant"), st.sampled_from([tenant_id("default"), tenant_id("acme"), "*"])),
)


class Limits(RuleBasedStateMachine):
    def __init__(self, db: Any) -> None:
        super().__init__()
        self.db = db
        self.claims: dict[str, Claim] = {}
        self.limits: dict[tuple[str, str], int] = {}

    @initialize()
    def begin(self) -> None:
        self.db.home()
        for table in TABLES:
            self.db.sql(f"delete from {self.db.table(table)}")
        if self.db.dialect == "postgres":
            self.db.sql("delete from {arrivals}")
        for queue in QUEUES:
            self.db.set_fair(queue, False)
        self.claims = {}
        self.limits = {}

    def demands(self, job: Any) -> dict[tuple[str, ...], int]:
        """What has to have room for this job, and how much."""
        found: dict[tuple[str, ...], int | None] = {("queue", job.queue): self.limits.get(("queue", job.queue))}
        if job.partition is not None:
            found["partition", job.tenant_id, job.partition] = 1
        if job.concurrency_key is not None:
            found["key", job.tenant_id, job.kind, job.concurrency_key] = job.concurrency
        own = job.concurrency if job.concurrency_key is None else None
        found["kind", job.kind] = self.limits.get(("kind", job.kind), own)
        every = self.limits.get(("tenant", "*"))
        found["tenant", job.tenant_id] = self.limits.get(("tenant", job.tenant_id), every)
        return {key: most for key, most in found.items() if most is not None}

    def counted(self, job: Any) -> list[tuple[str, ...]]:
        """Under what a running job counts."""
        keys = [("queue", job.queue), ("kind", job.kind), ("tenant", job.tenant_id)]
        if job.partition is not None:
            keys.append(("partition", job.tenant_id, job.partition))
        if job.concurrency_key is not None:
            keys.append(("key", job.tenant_id, job.kind, job.concurrency_key))
        return keys

    def expected(self, queue: str, limit: int) -> list[str]:
        rows = self.db.find()
        running = Counter(key for job in rows if job.status == "running" for key in self.counted(job))
        ready = [job for job in rows if job.status == "queued" and job.queue == queue]
        taken: list[str] = []
        for job in sorted(ready, key=lambda job: (job.priority, job.position, job.id)):
            if len(taken) == limit:
                break
            if all(running[key] < most for key, most in self.demands(job).items()):
                taken.append(job.id)
                running.update(self.counted(job))
        return taken

    # rules

    @rule(batch=st.lists(jobs, min_size=1, max_size=5))
    def enqueue(self, batch: list[dict[str, Any]]) -> None:
        new = []
        for options in batch:
            values = {name: value for name, value in options.items() if name != "key"}
            # every job of a kind carries what its kind says: y may run twice at once, x has keys
            key, most = (None, 2) if options["kind"] == "y" else options["key"] or (None, None)
            values |= {"concurrency": most, "concurrency_key": key, "tenant_id": tenant_id(options["tenant"])}
            new.append(NewJob(id=new_id(), **values))
        self.db.enqueue_all(new)

    @rule(queue=st.sampled_from(QUEUES), limit=st.integers(1, 5))
    def claim(self, queue: str, limit: int) -> None:
        self.db.process_arrivals()
        expected = self.expected(queue, limit)
        claims = self.db.claim(queue=queue, limit=limit)
        assert [claim.id for claim in claims] == expected
        self.claims |= {claim.id: claim for claim in claims}

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), to=st.sampled_from(["succeeded", "succeeded", "dead", "queued", "scheduled", "release"]))
    def settle(self, data: st.DataObject, to: str) -> None:
        names = sorted(self.claims)
        picked = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True), label="claims")
        claims = [self.claims.pop(job_id) for job_id in picked]
        if to == "release":
            self.db.release(*claims)
            return
        settlements = [
            Settlement(id=claim.id, fence=claim.fence, status="failed", to=to, delay_ms=60_000) for claim in claims
        ]
        assert self.db.settle_all(settlements) == []

    @rule(data=st.data(), verb=st.sampled_from(["cancel", "change queue", "change priority", "put off", "retry"]))
    def operate(self, data: st.DataObject, verb: str) -> None:
        rows = self.db.find()
        wanted = ("dead", "succeeded", "canceled") if verb == "retry" else ("queued", "scheduled")
        names = sorted(job.id for job in rows if job.status in wanted)
        if not names:
            return
        job_id = data.draw(st.sampled_from(names), label="job")
        match verb:
            case "cancel":
                self.db.cancel(job_id)
            case "retry":
                self.db.retry(job_id)
            case _:
                change = {
                    "change queue": Change(queue=data.draw(st.sampled_from(QUEUES), label="queue")),
                    "change priority": Change(priority=data.draw(st.sampled_from([1, 100]), label="priority")),
                    "put off": Change(delay_ms=60_000),
                }[verb]
                self.db.run(self.db.ops.change(job_id, change, tenant_id=None, actor=None))

    @rule(named=limits, most=st.sampled_from([None, 0, 1, 2, 3]))
    def set_limit(self, named: tuple[str, str], most: int | None) -> None:
        self.db.run(self.db.ops.set_limit(Limit(scope=named[0], name=named[1], max_running=most), actor=None))
        self.limits.pop(named, None)
        if most is not None:
            self.limits[named] = most

    @rule()
    def tick(self) -> None:
        self.db.advance("2m")
        self.db.promote()

    @rule()
    def sweep(self) -> None:
        assert not self.db.sweep(), "a sweep found something that no outside hand broke"

    def teardown(self) -> None:
        """Without limits and with everything settled, nobody stays behind."""
        for scope, name in self.limits:
            self.db.run(self.db.ops.set_limit(Limit(scope=scope, name=name), actor=None))
        self.db.finish(*self.claims.values())
        for _ in range(3):
            self.db.advance("2m")
            self.db.promote()
            for queue in QUEUES:
                self.db.drain(queue)
        assert {job.status for job in self.db.find()} <= {"succeeded", "dead", "canceled"}


def test_a_claim_takes_what_a_look_at_every_row_would_take(db, random_walk):
    random_walk(lambda: Limits(db), examples=6, full=200)
