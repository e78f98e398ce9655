"""The verbs on PostgreSQL: each mutation is a call of the SQL function of its name, each read one select."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from headway.model.fleet import Beat, NewWorker, Promoted, Reaped
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Change, Claim, Enqueued, NewJob, Report, Settlement
from headway.model.status import UNFINISHED, Status
from headway.store.ops import Op, Rows, Statement, Steps
from headway.store.postgres import migrate
from headway.store.postgres.reads import PostgresReads

T = TypeVar("T")

# the arrays of headway.enqueue_many after the ids: parameter, type, field, and the default that need not be sent
_COLUMNS: tuple[tuple[str, str, str, Any], ...] = (
    ("p_tenants", "uuid", "tenant_id", DEFAULT_TENANT_ID),
    ("p_slugs", "text", "tenant", "default"),
    ("p_kinds", "text", "kind", None),
    ("p_queues", "text", "queue", "default"),
    ("p_payloads", "json", "payload", "{}"),
    ("p_priorities", "smallint", "priority", 100),
    ("p_delays_ms", "bigint", "delay_ms", None),
    ("p_scheduled_for", "timestamptz", "scheduled_for", None),
    ("p_expires_at", "timestamptz", "expires_at", None),
    ("p_max_attempts", "integer", "max_attempts", 5),
    ("p_max_losses", "integer", "max_losses", 5),
    ("p_backoff_base_ms", "bigint", "backoff_base_ms", 1_000),
    ("p_backoff_cap_ms", "bigint", "backoff_cap_ms", 3_600_000),
    ("p_timeouts_ms", "bigint", "timeout_ms", None),
    ("p_deliveries", "text", "delivery", "at_least_once"),
    ("p_idempotency_keys", "text", "idempotency_key", None),
    ("p_unique_keys", "text", "unique_key", None),
    ("p_unique_scopes", "text", "unique_scope", UNFINISHED),
    ("p_on_conflicts", "text", "on_conflict", "return"),
    ("p_correlation_ids", "text", "correlation_id", None),
    ("p_trace_ids", "text", "trace_id", None),
    ("p_sources", "text", "source", "manual"),
    ("p_source_refs", "text", "source_ref", None),
    ("p_created_by", "text", "created_by", None),
    ("p_metas", "json", "meta", None),
)
_ENQUEUE = "select place, id, status, created from headway.enqueue_many({})"


class PostgresOps(PostgresReads):
    """Implements `Ops`; the SQL functions hold the semantics."""

    def enqueue(self, jobs: Sequence[NewJob]) -> Op[list[Enqueued]]:
        def steps() -> Steps[list[Enqueued]]:
            outcome = [Enqueued(job.id, "queued", True) for job in jobs]
            if jobs:
                used, params = [], [[job.id for job in jobs]]
                for n, (_, _, field, unset) in enumerate(_COLUMNS):
                    values = _column(jobs, field, unset)
                    if values is not None:
                        used.append(n)
                        params.append(values)
                rows = yield Statement(_enqueue_sql(tuple(used)), params)
                for place, job_id, status, created in rows:
                    outcome[place - 1] = Enqueued(str(job_id), status, created)
            return outcome

        return Op(steps, writes=True, refusable=any(job.on_conflict == "raise" for job in jobs))

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

    def change(self, job_id: str, change: Change, *, tenant_id: str | None, actor: str | None) -> Op[Status | None]:
        given: dict[str, Any] = {
            name: value for name in change.__struct_fields__ if (value := getattr(change, name)) is not msgspec.UNSET
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
        return _call("select * from headway.promote($1::integer)", [limit], lambda rows: Promoted(*rows[0]))

    def prune(self, status: Status, *, older_than_ms: int, limit: int) -> Op[int]:
        return _call("select headway.prune($1, $2::bigint, $3::integer)", [status, older_than_ms, limit], _first)

    def version(self) -> Op[int]:
        return Op(migrate.version, writes=False)


def _call(sql: str, params: Sequence[Any], shape: Callable[[Rows], T], *, repeatable: bool = True) -> Op[T]:
    def steps() -> Steps[T]:
        return shape((yield Statement(sql, params)))

    return Op(steps, writes=True, repeatable=repeatable)


@lru_cache(1_000)
def _enqueue_sql(used: tuple[int, ...]) -> str:
    """The call with only the arrays that say something: a shorter statement is parsed faster."""
    arrays = [f"{_COLUMNS[n][0]} => ${place}::{_COLUMNS[n][1]}[]" for place, n in enumerate(used, start=2)]
    return _ENQUEUE.format(", ".join(["$1::uuid[]", *arrays]))


def _column(items: Sequence[Any], name: str, unset: Any) -> list[Any] | None:
    """One array of a batch, or None (which costs nothing) where every item has the default."""
    values = list(map(attrgetter(name), items))
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
