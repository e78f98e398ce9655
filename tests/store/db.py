"""`Db`: a store under test with its held clock, a method for each verb, and a raw connection beside it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import psycopg

from headway.model.fleet import HeartbeatReply, NewWorker, Promoted, Queue, Reaped, Swept, Worker
from headway.model.group import Group, NewGroup
from headway.model.heartbeat_claims import ClaimsReply
from headway.model.ids import DEFAULT_TENANT_ID, new_id
from headway.model.job import Attempt, AuditEntry, Change, Claim, Enqueued, Job, NewJob, Settlement
from headway.model.limit import Limit, Usage
from headway.model.listing import Cursor, Filter, Order
from headway.model.reported import Completion, Ended, Failure
from headway.model.reservation import Reservation
from headway.model.train import Moved, Train
from tests.store.machines.machine_calls import MachineCalls
from tests.store.triggers.trigger_calls import TriggerCalls
from tests.tenant_ids import tenant_id

ATTEMPT_STATUS = {
    "succeeded": "succeeded",
    "scheduled": "failed",
    "queued": "released",
    "dead": "failed",
    "failed": "failed",
    "canceled": "canceled",
    "waiting": "succeeded",
    "running": "succeeded",
}

TABLES = (
    "jobs",
    "job_tags",
    "unique_windows",
    "attempts",
    "flow_journal",
    "artifacts",
    "artifact_trash",
    "workers",
    "worker_claims",
    "gone_workers",
    "queues",
    "audit",
    "audit_seals",
    "holds",
    "edges",
    "groups",
    "limits",
    "buckets",
    "reservations",
    "arrivals",
    "signals",
    "definitions",
    "templates",
    "connector_configs",
    "triggers",
    "fires",
    "events",
    "stat_deltas",
    "stats",
    "error_deltas",
    "errors",
    "job_errors",
)


class Db(MachineCalls, TriggerCalls):
    """A store under test; every word here is one op, run in a transaction of its own."""

    def __init__(self, store: Any, clock: Any) -> None:
        self.store = store
        self.clock = clock
        self.ops = store.ops
        self.dialect = store.dialect
        self._home: str | None = None

    def now(self) -> datetime:
        return self.clock.now()

    def after(self, ms: int) -> datetime:
        return self.now() + timedelta(milliseconds=ms)

    def advance(self, by: str | float | timedelta) -> datetime:
        return self.clock.advance(by)

    def run(self, op: Any) -> Any:
        return self.store.run(op)

    # the application

    def enqueue(self, **options: Any) -> Enqueued:
        """One job; its id and kind may be left out."""
        (answer,) = self.enqueue_all([new_job(**options)])
        return answer

    def enqueue_all(self, jobs: Sequence[NewJob], group: NewGroup | None = None) -> list[Enqueued]:
        return self.run(self.ops.enqueue(jobs, group))

    def enqueue_ids(self, count: int, **options: Any) -> list[str]:
        """Several jobs with the same options, in one batch."""
        return [answer.id for answer in self.enqueue_all([new_job(**options) for _ in range(count)])]

    def cancel(
        self, *ids: str, tenant_id: str | None = None, reason: str | None = None, actor: str | None = None
    ) -> dict[str, str]:
        return self.run(self.ops.cancel(ids, tenant_id=tenant_id, reason=reason, actor=actor))

    def retry(
        self,
        *ids: str,
        tenant_id: str | None = None,
        actor: str | None = None,
        keep_place: bool = True,
        **values: Any,
    ) -> dict[str, str]:
        change = Change(**values) if values else None
        return self.run(self.ops.retry(ids, tenant_id=tenant_id, actor=actor, keep_place=keep_place, change=change))

    def change(
        self, job_id: str, *, tenant_id: str | None = None, actor: str | None = None, **values: Any
    ) -> str | None:
        return self.run(self.ops.change(job_id, Change(**values), tenant_id=tenant_id, actor=actor))

    def move(self, job_id: str, *, tenant_id: str | None = None, actor: str | None = None, **to: Any) -> Moved | None:
        return self.run(self.ops.move(job_id, **to, tenant_id=tenant_id, actor=actor))

    def hold_train(
        self, train: str, *, tenant_id: str | None = None, reason: str | None = None, actor: str | None = None
    ) -> None:
        self.run(self.ops.hold_train(train, tenant_id=tenant_id, reason=reason, actor=actor))

    def resume_train(self, train: str, *, tenant_id: str | None = None, actor: str | None = None) -> bool:
        return self.run(self.ops.resume_train(train, tenant_id=tenant_id, actor=actor))

    def skip(self, job_id: str, *, tenant_id: str | None = None, actor: str | None = None) -> str | None:
        return self.run(self.ops.skip(job_id, tenant_id=tenant_id, actor=actor))

    def clear_train(self, train: str, *, tenant_id: str | None = None, actor: str | None = None) -> list[str]:
        return self.run(self.ops.clear_train(train, tenant_id=tenant_id, actor=actor))

    def cancel_group(
        self, group_id: str, *, tenant_id: str | None = None, reason: str | None = None, actor: str | None = None
    ) -> dict[str, str] | None:
        return self.run(self.ops.cancel_group(group_id, tenant_id=tenant_id, reason=reason, actor=actor))

    def retry_group(self, group_id: str, *, tenant_id: str | None = None, actor: str | None = None) -> list[str] | None:
        return self.run(self.ops.retry_group(group_id, tenant_id=tenant_id, actor=actor))

    def limit(self, scope: str, name: str, *, actor: str | None = None, **values: Any) -> None:
        """Set a limit as a whole; without values it is removed."""
        self.run(self.ops.set_limit(Limit(scope=scope, name=name, **values), actor=actor))

    def set_fair(self, queue: str = "default", fair: bool = True, *, actor: str | None = None) -> None:
        self.run(self.ops.set_fair(queue, fair, actor=actor))

    def reserve(
        self, reservation_id: str, queue: str = "default", *, holder: str = "host:1", expires_ms: int = 600_000
    ) -> Reservation:
        return self.run(self.ops.reserve(queue, reservation_id, holder=holder, expires_ms=expires_ms))

    def unreserve(self, reservation_id: str, queue: str = "default") -> bool:
        return self.run(self.ops.unreserve(queue, reservation_id))

    def pause(self, queue: str = "default", *, actor: str | None = None) -> None:
        self.run(self.ops.pause(queue, actor=actor))

    def resume(self, queue: str = "default", *, actor: str | None = None) -> None:
        self.run(self.ops.resume(queue, actor=actor))

    # the worker

    def worker(self, **options: Any) -> str:
        """The id of a new registered worker."""
        worker = new_worker(**options)
        self.run(self.ops.register(worker))
        return worker.id

    def home(self) -> str:
        """The worker that the words below use when they are given none; its lease outlasts any test."""
        if self._home is None:
            self._home = self.worker(lease_ms=10 * 365 * 86_400_000)
        return self._home

    def heartbeat(self, worker: str | None = None, *, running: int = 0, busy: Sequence[str] = ()) -> HeartbeatReply:
        return self.run(self.ops.heartbeat(worker or self.home(), running=running, busy=busy))

    def unregister(self, worker: str) -> None:
        self.run(self.ops.unregister(worker))

    def claim(self, worker: str | None = None, queue: str = "default", limit: int = 100) -> list[Claim]:
        return self.run(self.ops.claim(worker or self.home(), queue, limit))

    def claim_once(
        self,
        claim_id: str,
        worker: str | None = None,
        *queues: str,
        limit: int = 100,
        tenant_id: str | None = None,
    ) -> list[Claim]:
        op = self.ops.claim_once(worker or self.home(), claim_id, queues or ("default",), limit, tenant_id=tenant_id)
        return self.run(op)

    def heartbeat_claims(self, worker: str, *claims: Claim, complete: bool = True) -> ClaimsReply | None:
        return self.run(self.ops.heartbeat_claims(worker, [(c.id, c.fence) for c in claims], complete=complete))

    def take(self, worker: str | None = None, queue: str = "default") -> Claim:
        """Exactly one claim."""
        (claim,) = self.claim(worker, queue, 1)
        return claim

    def start(self, worker: str | None = None, **options: Any) -> Claim:
        """Enqueue one job and claim it; its queue must be empty."""
        job = self.enqueue(**options)
        claim = self.take(worker, options.get("queue", "default"))
        assert claim.id == job.id
        return claim

    def take_job(self, job_id: str, worker: str | None = None, *, reservation_id: str | None = None) -> Claim | None:
        return self.run(self.ops.take(worker or self.home(), job_id, reservation_id=reservation_id))

    def finish(self, *claims: Claim, to: str = "succeeded") -> None:
        """End these executions well, in one batch."""
        assert self.settle_all([settlement(claim, to) for claim in claims]) == []

    def drain(self, queue: str = "default", *, limit: int = 100, rounds: int = 1_000) -> list[str]:
        """Run the queue to its end; gives the ids in the order in which they were claimed."""
        started: list[str] = []
        for _ in range(rounds):
            claims = self.claim(queue=queue, limit=limit)
            if not claims:
                return started
            started += [claim.id for claim in claims]
            self.finish(*claims)
        raise AssertionError(f"queue {queue} still has work after {rounds} claims")

    def running(self, worker: str | None = None) -> list[tuple[str, int]]:
        return self.run(self.ops.running(worker or self.home()))

    def settle(self, claim: Claim, to: str, worker: str | None = None, **values: Any) -> list[tuple[str, int]]:
        """Gives what was lost."""
        return self.settle_all([settlement(claim, to, **values)], worker)

    def settle_all(self, settlements: Sequence[Settlement], worker: str | None = None) -> list[tuple[str, int]]:
        return self.run(self.ops.settle(worker or self.home(), settlements)).lost

    def complete(self, *completions: Completion, worker: str | None = None) -> Ended:
        return self.run(self.ops.complete(worker or self.home(), completions))

    def fail(self, *failures: Failure, worker: str | None = None) -> Ended:
        return self.run(self.ops.fail(worker or self.home(), failures))

    def commit_outcome(self, settled: Settlement, conn: Any = None) -> None:
        """In a transaction of its own, or in that of `conn`."""
        op = self.ops.commit_outcome(settled)
        self.run(op) if conn is None else self.store.run_in(conn, op)

    def committed(self, claim: Claim) -> Settlement | None:
        return self.run(self.ops.committed(claim.id, claim.fence))

    def settle_committed(self, *claims: Claim, refused: str | None = None) -> list[Settlement]:
        return self.run(self.ops.settle_committed([(c.id, c.fence) for c in claims], refused=refused))

    def release(self, *claims: Claim, delay_ms: int = 0) -> int:
        return self.run(self.ops.release([(c.id, c.fence) for c in claims], delay_ms=delay_ms))

    def report(self, worker: str, *reports: Any) -> list[tuple[str, int]]:
        return self.run(self.ops.report(worker, reports))

    def reap(self, *gone: str, limit: int = 1000) -> list[Reaped]:
        return self.run(self.ops.reap(gone, limit=limit))

    def declare_dead(self, worker: str, *, actor: str | None = None) -> list[Reaped]:
        return self.run(self.ops.declare_dead(worker, actor=actor))

    def promote(self, limit: int = 1000) -> Promoted:
        return self.run(self.ops.promote(limit=limit))

    def process_arrivals(self, limit: int = 500) -> None:
        """Let go whatever arrived, and what that lets go in turn; with nobody else at work that comes to an end."""
        for _ in range(100):
            if not self.run(self.ops.process_arrivals(limit=limit)):
                return
        raise AssertionError("there are always more arrivals")

    def sweep(self, limit: int = 500) -> Swept:
        return self.run(self.ops.sweep(limit=limit))

    def prune(self, status: str, *, older_than_ms: int, limit: int = 1000) -> int:
        return self.run(self.ops.prune(status, older_than_ms=older_than_ms, limit=limit))

    # reads

    def job(self, job_id: str) -> Job:
        (job,) = self.run(self.ops.get([job_id], tenant_id=None))
        return job

    def status(self, job_id: str) -> str:
        return self.job(job_id).status

    def statuses(self, *ids: str) -> list[str]:
        """Where these jobs are once everything that arrived was let go."""
        self.process_arrivals()
        found = {job.id: job.status for job in self.run(self.ops.get(ids, tenant_id=None))}
        return [found[job_id] for job_id in ids]

    def trains(
        self,
        *,
        tenant_id: str | None = None,
        train: str | None = None,
        blocked: bool | None = None,
        limit: int = 1_000,
        after: str | None = None,
    ) -> list[Train]:
        return self.run(self.ops.trains(tenant_id=tenant_id, train=train, blocked=blocked, limit=limit, after=after))

    def train(self, train: str, *, tenant_id: str | None = None) -> Train | None:
        """The one train of that name, once everything that arrived was let go; None if there is none."""
        self.process_arrivals()
        found = self.trains(train=train, tenant_id=tenant_id)
        assert len(found) <= 1
        return found[0] if found else None

    def cars(self, train: str, *, tenant_id: str | None = None, limit: int = 10_000) -> list[str]:
        return [job.id for job in self.run(self.ops.cars(train, tenant_id=tenant_id, limit=limit))]

    def train_place(self, job_id: str) -> tuple[int, str | None]:
        return tuple(self.run(self.ops.train_place(job_id)))

    def group(self, group_id: str, *, tenant_id: str | None = None) -> Group | None:
        return self.run(self.ops.group(group_id, tenant_id=tenant_id))

    def awaited(self, job_id: str, *, tenant_id: str | None = None) -> dict[str, str | None]:
        return dict(self.run(self.ops.awaited(job_id, tenant_id=tenant_id)))

    def limits(self) -> list[Limit]:
        return self.run(self.ops.limits())

    def usage(self, key: str) -> Usage:
        return self.run(self.ops.usage(key))

    def limited_by(self, *ids: str) -> list[str | None]:
        """Under which key each of these waits aside."""
        self.process_arrivals()
        found = {job.id: job.limited_by for job in self.run(self.ops.get(ids, tenant_id=None))}
        return [found[job_id] for job_id in ids]

    def reservations(self) -> list[Reservation]:
        return self.run(self.ops.reservations())

    def running_in(self, queue: str = "default") -> int:
        return self.run(self.ops.running_in(queue))

    def delete(self, *ids: str, tenant_id: str | None = None, **why: Any) -> dict[str, str]:
        why = {"reason": None, "actor": None} | why
        return self.run(self.ops.delete(ids, tenant_id=tenant_id, **why))

    def find(
        self, *, limit: int = 10_000, order: Order = "newest", after: Job | None = None, **where: Any
    ) -> list[Job]:
        last = None if after is None else Cursor.of(after, "after")
        return self.run(self.ops.find(Filter(**where), limit=limit, order=order, after=last))

    def attempts(self, job_id: str, tenant_id: str | None = None) -> list[Attempt]:
        return self.run(self.ops.attempts(job_id, tenant_id=tenant_id))

    def queues(self) -> dict[str, Queue]:
        return {queue.name: queue for queue in self.run(self.ops.queues(tenant_id=None))}

    def workers(self) -> dict[str, Worker]:
        return {worker.id: worker for worker in self.run(self.ops.workers())}

    def audit(self, job_id: str, tenant_id: str | None = None) -> list[AuditEntry]:
        return self.run(self.ops.audit(job_id, tenant_id=tenant_id))

    def audit_log(self, *, tenant_id: str | None = None, limit: int = 100, **where: Any) -> list[AuditEntry]:
        where = {"actor": None, "action": None, "before": None} | where
        return self.run(self.ops.audit_log(tenant_id=tenant_id, limit=limit, **where))

    # beside the store

    def connect(self) -> Any:
        """A connection of the application's own, of the library that the store uses; `begin` starts a transaction."""
        return connect(self.store)

    def sql(self, text: str, *params: Any) -> list[tuple[Any, ...]]:
        """One raw statement, behind the store's back; `{jobs}` is the table of that name, `?` a parameter."""
        text = text.format(**{name: self.table(name) for name in TABLES})
        if self.dialect == "postgres":
            cursor = self.store.side.execute(text.replace("%", "%%").replace("?", "%s"), params)
            return cursor.fetchall() if cursor.description else []
        with closing(self.connect()) as conn:
            return list(conn.execute(text, params))

    def table(self, name: str) -> str:
        return f"headway.{name}" if self.dialect == "postgres" else f"{self.store.prefix}{name}"


def new_job(**options: Any) -> NewJob:
    """A job with an id and a kind of its own; naming a tenant is enough to have its id too."""
    if "tenant" in options:
        options = {"tenant_id": tenant_id(options["tenant"]), **options}
    return NewJob(**{"id": new_id(), "kind": "mail", **options})


def new_group(**options: Any) -> NewGroup:
    return NewGroup(**{"id": new_id(), "tenant_id": DEFAULT_TENANT_ID, **options})


def new_worker(**options: Any) -> NewWorker:
    base = {
        "id": new_id(),
        "hostname": "host-1",
        "pid": 4711,
        "machine": None,
        "process_started": None,
        "version": "0.1.0",
        "queues": {"default": 10},
        "kinds": ("mail",),
        "concurrency": 10,
        "lease_ms": 60_000,
    }
    return NewWorker(**{**base, **options})


def settlement(claim: Claim, to: str, **values: Any) -> Settlement:
    base = {"id": claim.id, "fence": claim.fence, "status": ATTEMPT_STATUS[to], "to": to}
    return Settlement(**{**base, **values})


def connect(store: Any) -> Any:
    if store.dialect == "postgres":
        return psycopg.connect(store.url, autocommit=True)
    if store.library == "stdlib":
        import sqlite3

        return sqlite3.connect(store.path, isolation_level=None, timeout=10)
    import apsw

    conn = apsw.Connection(str(store.path))
    conn.set_busy_timeout(10_000)
    return conn
