"""The verbs on PostgreSQL: each mutation is a call of the SQL function of its name, each read one select."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from headway.model.fleet import Beat, NewWorker, Promoted, Reaped
from headway.model.group import NewGroup
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Change, Claim, Enqueued, NewJob, Report, Settlement
from headway.model.status import UNFINISHED, Status
from headway.store.ops import Op, Rows, Statement, Steps
from headway.store.postgres import migrate
from headway.store.postgres.order import OrderOps, new_group
from headway.store.postgres.reads import PostgresReads, call, first, nothing

T = TypeVar("T")

# how a job's fields travel: the field, its parameter and type in headway.enqueue and in headway.enqueue_many, and the
# default, which need not be sent
_COLUMNS: tuple[tuple[str, str, str, str, str, Any], ...] = (
    ("tenant_id", "tenant", "uuid", "p_tenants", "uuid[]", DEFAULT_TENANT_ID),
    ("tenant", "slug", "text", "p_slugs", "text[]", "default"),
    ("kind", "kind", "text", "p_kinds", "text[]", None),
    ("queue", "queue", "text", "p_queues", "text[]", "default"),
    ("payload", "payload", "json", "p_payloads", "json[]", "{}"),
    ("priority", "priority", "integer", "p_priorities", "smallint[]", 100),
    ("delay_ms", "delay", "interval", "p_delays_ms", "bigint[]", None),
    ("scheduled_for", "scheduled_for", "timestamptz", "p_scheduled_for", "timestamptz[]", None),
    ("expires_at", "expires_at", "timestamptz", "p_expires_at", "timestamptz[]", None),
    ("max_attempts", "max_attempts", "integer", "p_max_attempts", "integer[]", 5),
    ("max_losses", "max_losses", "integer", "p_max_losses", "integer[]", 5),
    ("backoff_base_ms", "backoff_base", "interval", "p_backoff_base_ms", "bigint[]", 1_000),
    ("backoff_cap_ms", "backoff_cap", "interval", "p_backoff_cap_ms", "bigint[]", 3_600_000),
    ("timeout_ms", "timeout", "interval", "p_timeouts_ms", "bigint[]", None),
    ("delivery", "delivery", "text", "p_deliveries", "text[]", "at_least_once"),
    ("idempotency_key", "idempotency_key", "text", "p_idempotency_keys", "text[]", None),
    ("unique_key", "unique_key", "text", "p_unique_keys", "text[]", None),
    ("unique_scope", "unique_scope", "text[]", "p_unique_scopes", "text[]", UNFINISHED),
    ("on_conflict", "on_conflict", "text", "p_on_conflicts", "text[]", "return"),
    ("correlation_id", "correlation_id", "text", "p_correlation_ids", "text[]", None),
    ("trace_id", "trace_id", "text", "p_trace_ids", "text[]", None),
    ("source", "source", "text", "p_sources", "text[]", "manual"),
    ("source_ref", "source_ref", "text", "p_source_refs", "text[]", None),
    ("created_by", "created_by", "text", "p_created_by", "text[]", None),
    ("meta", "meta", "json", "p_metas", "json[]", None),
    ("train", "train", "text", "p_trains", "text[]", None),
    ("on_canceled", "on_canceled", "text", "p_on_canceled", "text[]", "advance"),
    ("on_dead", "on_dead", "text", "p_on_dead", "text[]", "advance"),
    ("partition", "partition", "text", "p_partitions", "text[]", None),
    ("concurrency", "concurrency", "integer", "p_concurrency", "integer[]", None),
    ("concurrency_key", "concurrency_key", "text", "p_concurrency_keys", "text[]", None),
    ("rate_count", "rate_count", "integer", "p_rate_counts", "integer[]", None),
    ("rate_period_ms", "rate_period", "interval", "p_rate_periods_ms", "bigint[]", None),
    ("rate_burst", "rate_burst", "integer", "p_rate_bursts", "integer[]", None),
    ("rate_key", "rate_key", "text", "p_rate_keys", "text[]", None),
    ("group_id", '"group"', "uuid", "p_groups", "uuid[]", None),
    ("after", "after", "uuid[]", "p_afters", "text[]", ()),
    ("on_failure", "on_failure", "text", "p_on_failures", "text[]", "stop"),
)
_FIELDS = attrgetter(*(column[0] for column in _COLUMNS))
_DEFAULTS = tuple(column[5] for column in _COLUMNS)
_MAX_LOSSES = 10  # its place: what it is by default is the job's own max_attempts


class PostgresOps(PostgresReads, OrderOps):
    """Implements `Ops`; the SQL functions hold the semantics."""

    def enqueue(self, jobs: Sequence[NewJob], group: NewGroup | None = None) -> Op[list[Enqueued]]:
        def steps(alone: bool = False) -> Steps[list[Enqueued]]:
            if group is not None:
                yield new_group(group)
            if len(jobs) == 1:
                rows = yield _enqueue_one(jobs[0], alone)
                return [Enqueued(str(job_id), status, created) for job_id, status, created in rows]
            outcome = [Enqueued(job.id, "queued", True) for job in jobs]
            if jobs:
                for place, job_id, status, created in (yield _enqueue_all(jobs, alone)):
                    outcome[place - 1] = Enqueued(str(job_id), status, created)
            return outcome

        return Op(
            steps,
            writes=True,
            refusable=any(job.on_conflict == "raise" or job.after or job.group_id for job in jobs),
            atomic=group is not None,
            alone=lambda: steps(alone=True),
        )

    def cancel(
        self, ids: Sequence[str], *, tenant_id: str | None, reason: str | None, actor: str | None
    ) -> Op[dict[str, Status]]:
        return call(
            "select id, status from headway.cancel($1::uuid[], $2::uuid, $3, $4)",
            [list(ids), tenant_id, reason, actor],
            lambda rows: dict(rows),
        )

    def retry(self, ids: Sequence[str], *, tenant_id: str | None, actor: str | None) -> Op[dict[str, str]]:
        return call(
            "select id, runs_as from headway.retry($1::uuid[], $2::uuid, $3)",
            [list(ids), tenant_id, actor],
            lambda rows: dict(rows),
            repeatable=False,
        )

    def change(self, job_id: str, change: Change, *, tenant_id: str | None, actor: str | None) -> Op[Status | None]:
        given: dict[str, Any] = {
            name: value for name in change.__struct_fields__ if (value := getattr(change, name)) is not msgspec.UNSET
        }
        if isinstance(given.get("payload"), str):
            given["payload"] = msgspec.Raw(given["payload"].encode())
        return call(
            "select headway.change($1::uuid, $2::json, $3::uuid, $4)",
            [job_id, msgspec.json.encode(given).decode(), tenant_id, actor],
            first,
        )

    def pause(self, queue: str, *, actor: str | None) -> Op[None]:
        return call("select headway.pause($1, $2)", [queue, actor], nothing)

    def resume(self, queue: str, *, actor: str | None) -> Op[None]:
        return call("select headway.resume($1, $2)", [queue, actor], nothing)

    def register(self, worker: NewWorker) -> Op[Beat]:
        return call(
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
        return call(
            "select * from headway.heartbeat($1::uuid, $2::integer, $3::text[])",
            [worker_id, running, list(busy)],
            _beat,
        )

    def unregister(self, worker_id: str) -> Op[None]:
        return call("select headway.unregister($1::uuid)", [worker_id], nothing)

    def claim(self, worker_id: str, queue: str, limit: int) -> Op[list[Claim]]:
        return call(
            "select * from headway.claim($1::uuid, $2, $3::integer)",
            [worker_id, queue, limit],
            lambda rows: [Claim(*row) for row in rows],
            repeatable=False,
        )

    def running(self, worker_id: str) -> Op[list[tuple[str, int]]]:
        return call("select * from headway.running($1::uuid)", [worker_id], _pairs)

    def settle(self, worker_id: str, settlements: Sequence[Settlement]) -> Op[list[tuple[str, int]]]:
        return call(_SETTLE, _settling(worker_id, settlements), _pairs)

    def settle_and_claim(
        self, worker_id: str, settlements: Sequence[Settlement], queue: str, limit: int
    ) -> Op[tuple[list[tuple[str, int]], list[Claim]]]:
        return call(
            _SETTLE_AND_CLAIM,
            [*_settling(worker_id, settlements), queue, limit],
            _lost_and_claimed,
            repeatable=False,
        )

    def release(self, claims: Sequence[tuple[str, int]], *, delay_ms: int) -> Op[int]:
        return call(
            "select headway.release($1::uuid[], $2::integer[], $3::bigint)",
            [[job_id for job_id, _ in claims], [fence for _, fence in claims], delay_ms],
            first,
        )

    def report(self, worker_id: str, reports: Sequence[Report]) -> Op[list[tuple[str, int]]]:
        return call(
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
        return call(
            "select * from headway.reap($1::uuid[], $2::integer)",
            [list(gone), limit],
            lambda rows: [Reaped(*row) for row in rows],
        )

    def promote(self, *, limit: int) -> Op[Promoted]:
        return call("select * from headway.promote($1::integer)", [limit], lambda rows: Promoted(*rows[0]))

    def prune(self, status: Status, *, older_than_ms: int, limit: int) -> Op[int]:
        return call("select headway.prune($1, $2::bigint, $3::integer)", [status, older_than_ms, limit], first)

    def version(self) -> Op[int]:
        return Op(migrate.version, writes=False)


def _enqueue_one(job: NewJob, alone: bool) -> Statement:
    used: list[int] = []
    params: list[Any] = [job.id]
    for n, (value, unset) in enumerate(zip(_FIELDS(job), _DEFAULTS, strict=True)):
        if value != (job.max_attempts if n == _MAX_LOSSES else unset):
            used.append(n)
            params.append(_scalar(n, value))
    return Statement(_one_sql(tuple(used), alone and job.train is not None), params)


def _enqueue_all(jobs: Sequence[NewJob], alone: bool) -> Statement:
    used: list[int] = []
    params: list[Any] = [[job.id for job in jobs]]
    for n, (field, *_, unset) in enumerate(_COLUMNS):
        values = _column(jobs, field, unset)
        if n == _MAX_LOSSES:
            values = [job.max_losses for job in jobs]
            values = None if values == [job.max_attempts for job in jobs] else values
        if values is not None:
            used.append(n)
            params.append(values)
    return Statement(_all_sql(tuple(used), alone), params)


# only what says something is sent: a shorter statement is parsed faster


@lru_cache(1_000)
def _one_sql(used: tuple[int, ...], alone: bool) -> str:
    named = [f"{_COLUMNS[n][1]} => ${place}::{_COLUMNS[n][2]}" for place, n in enumerate(used, start=2)]
    named += ["alone => true"] * alone
    return _ENQUEUE_ONE.format(", ".join(["id => $1::uuid", *named]))


@lru_cache(1_000)
def _all_sql(used: tuple[int, ...], alone: bool) -> str:
    named = [f"{_COLUMNS[n][3]} => ${place}::{_COLUMNS[n][4]}" for place, n in enumerate(used, start=2)]
    named += ["p_alone => true"] * alone
    return _ENQUEUE_ALL.format(", ".join(["p_ids => $1::uuid[]", *named]))


_ENQUEUE_ONE = "select job_id, job_status, created from headway.enqueue({})"
_ENQUEUE_ALL = "select place, id, status, created from headway.enqueue_many({})"


def _scalar(n: int, value: Any) -> Any:
    match _COLUMNS[n][2]:
        case "interval":
            return timedelta(milliseconds=value)
        case "text[]" | "uuid[]":
            return list(value)
        case _:
            return value


def _column(items: Sequence[Any], name: str, unset: Any) -> list[Any] | None:
    """One array of a batch, or None (which costs nothing) where every item has the default."""
    values = list(map(attrgetter(name), items))
    if values.count(unset) == len(values):
        return None
    if name in ("unique_scope", "after"):
        return [",".join(value) or None for value in values]
    return values


_SETTLE = (
    "select * from headway.settle($1::uuid, $2::uuid[], $3::integer[], $4::text[], $5::text[], $6::integer[],"
    " $7::bigint[], $8::json[], $9::text[], $10::integer[], $11::text[], $12::text[])"
)
_SETTLE_AND_CLAIM = (
    "select * from headway.settle_and_claim($13, $14::integer, $1::uuid, $2::uuid[], $3::integer[], $4::text[],"
    " $5::text[], $6::integer[], $7::bigint[], $8::json[], $9::text[], $10::integer[], $11::text[], $12::text[])"
)


def _settling(worker_id: str, settlements: Sequence[Settlement]) -> list[Any]:
    return [
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
    ]


def _lost_and_claimed(rows: Rows) -> tuple[list[tuple[str, int]], list[Claim]]:
    """A row is a claim, or only the id and fence of a settlement that was written nowhere."""
    lost = [(row[0], row[5]) for row in rows if row[2] is None]
    return lost, [Claim(*row) for row in rows if row[2] is not None]


def _pairs(rows: Rows) -> list[tuple[str, int]]:
    return [(job_id, fence) for job_id, fence in rows]


def _beat(rows: Rows) -> Beat:
    alive, fleet, ids, fences = rows[0]
    return Beat(
        alive,
        msgspec.json.decode(fleet, type=dict[str, int]) if fleet else {},
        list(zip(ids or (), fences or (), strict=True)),
    )
