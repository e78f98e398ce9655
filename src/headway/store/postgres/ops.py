"""The verbs on PostgreSQL: each mutation is a call of the SQL function of its name, each read one select."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from headway.model.fleet import Beat, NewWorker, Promoted, Reaped
from headway.model.job import Change, Claim, Enqueued, NewJob, Report, Settlement
from headway.model.status import UNFINISHED, Status
from headway.store.ops import Op, Rows, Statement, Steps
from headway.store.postgres import migrate
from headway.store.postgres.reads import PostgresReads

T = TypeVar("T")

# the arrays of headway.enqueue_many after the ids: type, field, and the default that need not be sent
_COLUMNS: tuple[tuple[str, str, Any], ...] = (
    ("uuid", "tenant_id", None),
    ("text", "tenant", None),
    ("text", "kind", None),
    ("text", "queue", "default"),
    ("json", "payload", "{}"),
    ("smallint", "priority", 100),
    ("bigint", "delay_ms", None),
    ("timestamptz", "scheduled_for", None),
    ("timestamptz", "expires_at", None),
    ("integer", "max_attempts", 5),
    ("integer", "max_losses", 5),
    ("bigint", "backoff_base_ms", 1_000),
    ("bigint", "backoff_cap_ms", 3_600_000),
    ("bigint", "timeout_ms", None),
    ("text", "delivery", "at_least_once"),
    ("text", "idempotency_key", None),
    ("text", "unique_key", None),
    ("text", "unique_scope", UNFINISHED),
    ("text", "on_conflict", "return"),
    ("text", "correlation_id", None),
    ("text", "trace_id", None),
    ("text", "source", "manual"),
    ("text", "source_ref", None),
    ("text", "created_by", None),
    ("json", "meta", None),
)
_ENQUEUE = "select place, id, status, created from headway.enqueue_many($1::uuid[], {})".format(
    ", ".join(f"${n}::{kind}[]" for n, (kind, _, _) in enumerate(_COLUMNS, 2))
)


class PostgresOps(PostgresReads):
    """Implements `Ops`; the SQL functions hold the semantics."""

    def enqueue(self, jobs: Sequence[NewJob]) -> Op[list[Enqueued]]:
        def steps() -> Steps[list[Enqueued]]:
            outcome = [Enqueued(job.id, "queued", True) for job in jobs]
            if jobs:
                ids = [job.id for job in jobs]
                rows = yield Statement(_ENQUEUE, [ids, *(_column(jobs, name, unset) for _, name, unset in _COLUMNS)])
                for place, job_id, status, created in rows:
                    outcome[place - 1] = Enqueued(str(job_id), status, created)
            return outcome

        return Op(steps, writes=True)

    def cancel(
        self, ids: Sequence[str], *, tenant_id: str | None, reason: str | None, actor: str | None
    ) -> Op[dict[str, Status]]:
        return _call(
            "select id, status from headway.cancel($1::uuid[], $2::uuid, $3, $4)",
            [list(ids), tenant_id, reason, actor],
            lambda rows: dict(rows),
        )

    def retry(self, ids: Sequence[str], *, tenant_id: str | None, actor: str | None) -> Op[dict[str, str]]:
        return _call(
            "select id, runs_as from headway.retry($1::uuid[], $2::uuid, $3)",
            [list(ids), tenant_id, actor],
            lambda rows: dict(rows),
        )

    def change(
        self, job_id: str, change: Change, *, tenant_id: str | None, actor: str | None
    ) -> Op[Status | None]:
        given: dict[str, Any] = {
            name: value
            for name in change.__struct_fields__
            if (value := getattr(change, name)) is not msgspec.UNSET
        }
        if isinstance(given.get("payload"), str):
            given["payload"] = msgspec.Raw(given["payload"].encode())
        return _call(
            "select headway.change($1::uuid, $2::json, $3::uuid, $4)",
            [job_id, msgspec.json.encode(given).decode(), tenant_id, actor],
            _first,
        )

    def pause(self, queue: str, *, actor: str | None) -> Op[None]:
        return _call("select headway.pause($1, $2)", [queue, actor], _nothing)

    def resume(self, queue: str, *, actor: str | None) -> Op[None]:
        return _call("select headway.resume($1, $2)", [queue, actor], _nothing)

    def register(self, worker: NewWorker) -> Op[Beat]:
        return _call(
            "select * from headway.register($1::uuid, $2, $3::integer, $4, $5, $6, $7::jsonb, $8::text[], $9::integer,"
            " $10::bigint, $11::jsonb)",
            [
                worker.id,
                worker.hostname,
                worker.pid,
                worker.machine,
                worker.process_started,
                worker.version,
                msgspec.json.encode(worker.queues).decode(),
                list(worker.kinds),
                worker.concurrency,
                worker.lease_ms,
                msgspec.json.encode(worker.metadata).decode(),
            ],
            _beat,
        )

    def heartbeat(self, worker_id: str, *, running: int, busy: Sequence[str]) -> Op[Beat]:
        return _call(
            "select * from headway.heartbeat($1::uuid, $2::integer, $3::text[])",
            [worker_id, running, list(busy)],
            _beat,
        )

    def unregister(self, worker_id: str) -> Op[None]:
        return _call("select headway.unregister($1::uuid)", [worker_id], _nothing)

    def claim(self, worker_id: str, queue: str, limit: int) -> Op[list[Claim]]:
        return _call(
            "select * from headway.claim($1::uuid, $2, $3::integer)",
            [worker_id, queue, limit],
            lambda rows: [Claim(*row) for row in rows],
            repeatable=False,
        )

    def running(self, worker_id: str) -> Op[list[tuple[str, int]]]:
        return _call("select * from headway.running($1::uuid)", [worker_id], _pairs)

    def settle(self, worker_id: str, settlements: Sequence[Settlement]) -> Op[list[tuple[str, int]]]:
        return _call(
            "select * from headway.settle($1::uuid, $2::uuid[], $3::integer[], $4::text[], $5::text[], $6::integer[],"
            " $7::bigint[], $8::json[], $9::text[], $10::integer[], $11::text[], $12::text[])",
            [
                worker_id,
                [s.id for s in settlements],
                [s.fence for s in settlements],
                [s.status for s in settlements],
                [s.to for s in settlements],
                _column(settlements, "charge", 0),
                _column(settlements, "delay_ms", 0),
                _column(settlements, "result", None),
                _column(settlements, "error", None),
                _column(settlements, "exit_code", None),
                _column(settlements, "stdout_tail", None),
                _column(settlements, "stderr_tail", None),
            ],
            _pairs,
        )

    def release(self, claims: Sequence[tuple[str, int]], *, delay_ms: int) -> Op[int]:
        return _call(
            "select headway.release($1::uuid[], $2::integer[], $3::bigint)",
            [[job_id for job_id, _ in claims], [fence for _, fence in claims], delay_ms],
            _first,
        )

    def report(self, worker_id: str, reports: Sequence[Report]) -> Op[list[tuple[str, int]]]:
        return _call(
            "select * from headway.report($1::uuid, $2::uuid[], $3::integer[], $4::real[], $5::text[], $6::text[])",
            [
                worker_id,
                [r.id for r in reports],
                [r.fence for r in reports],
                [r.progress for r in reports],
                [r.note for r in reports],
                [r.tail for r in reports],
            ],
            _pairs,
        )

    def reap(self, gone: Sequence[str], *, limit: int) -> Op[list[Reaped]]:
        return _call(
            "select * from headway.reap($1::uuid[], $2::integer)",
            [list(gone), limit],
            lambda rows: [Reaped(*row) for row in rows],
        )

    def promote(self, *, limit: int) -> Op[Promoted]:
        return _call(
            "select * from headway.promote($1::integer)", [limit], lambda rows: Promoted(*rows[0])
        )

    def prune(self, status: Status, *, older_than_ms: int, limit: int) -> Op[int]:
        return _call(
            "select headway.prune($1, $2::bigint, $3::integer)", [status, older_than_ms, limit], _first
        )

    def version(self) -> Op[int]:
        return Op(migrate.version, writes=False)


def _call(sql: str, params: Sequence[Any], shape: Callable[[Rows], T], *, repeatable: bool = True) -> Op[T]:
    def steps() -> Steps[T]:
        return shape((yield Statement(sql, params)))

    return Op(steps, writes=True, repeatable=repeatable)


def _column(items: Sequence[Any], name: str, unset: Any) -> list[Any] | None:
    """One array of a batch, or None (which costs nothing) where every item has the default."""
    values = [getattr(item, name) for item in items]
    if values.count(unset) == len(values):
        return None
    if name == "unique_scope":
        return [",".join(value) for value in values]
    return values


def _first(rows: Rows) -> Any:
    return rows[0][0]


def _nothing(_: Rows) -> None:
    return None


def _pairs(rows: Rows) -> list[tuple[str, int]]:
    return [(job_id, fence) for job_id, fence in rows]


def _beat(rows: Rows) -> Beat:
    alive, fleet, ids, fences = rows[0]
    return Beat(
        alive,
        msgspec.json.decode(fleet, type=dict[str, int]) if fleet else {},
        list(zip(ids or (), fences or (), strict=True)),
    )


