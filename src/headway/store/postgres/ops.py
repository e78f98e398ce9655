"""The verbs on PostgreSQL: each mutation is a call of the SQL function of its name, each read one select."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from headway.model.fleet import HeartbeatReply, NewWorker, Promoted, Reaped
from headway.model.group import NewGroup
from headway.model.job import Change, Enqueued, NewJob, Report
from headway.model.status import Status
from headway.store.actors import checks_actors
from headway.store.ops import Op, Rows, Steps
from headway.store.postgres.engine import migrate
from headway.store.postgres.jobs.enqueue import enqueue
from headway.store.postgres.jobs.reads import PostgresReads, call, first, nothing
from headway.store.postgres.jobs.settle import SettleOps
from headway.store.postgres.machines.signals import MachineOps
from headway.store.postgres.order.trains import OrderOps, new_group
from headway.store.postgres.triggers.due import DueOps
from headway.store.postgres.triggers.events import EventOps
from headway.store.postgres.triggers.fires import FireOps
from headway.store.postgres.triggers.triggers import TriggerOps

T = TypeVar("T")


@checks_actors
class PostgresOps(PostgresReads, OrderOps, SettleOps, MachineOps, TriggerOps, DueOps, FireOps, EventOps):
    """Implements `Ops`; the SQL functions hold the semantics."""

    def enqueue(self, jobs: Sequence[NewJob], group: NewGroup | None = None) -> Op[list[Enqueued]]:
        sent = False

        def steps(alone: bool = False) -> Steps[list[Enqueued]]:
            nonlocal sent
            again, sent = sent, True
            if group is not None:
                yield new_group(group)
            given = yield from enqueue(jobs, alone=alone)
            if not again:
                return given
            # run again by the store, for an answer was lost: what is there by its own id was made by this call
            return [Enqueued(each.id, each.status, each.id == job.id) for each, job in zip(given, jobs, strict=True)]

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

    def retry(
        self, ids: Sequence[str], *, tenant_id: str | None, actor: str | None, keep_place: bool = True
    ) -> Op[dict[str, str]]:
        return call(
            "select id, runs_as from headway.retry($1::uuid[], $2::uuid, $3, $4)",
            [list(ids), tenant_id, actor, keep_place],
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

    def register(self, worker: NewWorker) -> Op[HeartbeatReply]:
        return call(
            "select * from headway.register($1::uuid, $2, $3::integer, $4, $5, $6, $7::jsonb, $8::text[], $9::integer,"
            " $10::bigint, $11::jsonb, $12::bigint)",
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
                worker.late_ms,
            ],
            _beat,
        )

    def heartbeat(self, worker_id: str, *, running: int, busy: Sequence[str]) -> Op[HeartbeatReply]:
        return call(
            "select * from headway.heartbeat($1::uuid, $2::integer, $3::text[])",
            [worker_id, running, list(busy)],
            _beat,
            urgent=True,
        )

    def retire(self, worker_id: str) -> Op[None]:
        return call("select headway.retire($1::uuid)", [worker_id], nothing)

    def unregister(self, worker_id: str) -> Op[None]:
        return call("select headway.unregister($1::uuid)", [worker_id], nothing)

    def running(self, worker_id: str) -> Op[list[tuple[str, int]]]:
        return call("select * from headway.running($1::uuid)", [worker_id], _pairs)

    def release(self, claims: Sequence[tuple[str, int]], *, delay_ms: int) -> Op[int]:
        return call(
            "select headway.release($1::uuid[], $2::integer[], $3::bigint)",
            [[job_id for job_id, _ in claims], [fence for _, fence in claims], delay_ms],
            first,
        )

    def report(self, worker_id: str, reports: Sequence[Report]) -> Op[list[tuple[str, int]]]:
        return call(
            "select * from headway.report($1::uuid, $2::uuid[], $3::integer[], $4::real[], $5::text[], $6::text[],"
            " $7::bigint[])",
            [
                worker_id,
                [r.id for r in reports],
                [r.fence for r in reports],
                [r.progress for r in reports],
                [r.note for r in reports],
                [r.tail for r in reports],
                [r.tail_end for r in reports],
            ],
            _pairs,
        )

    def reap(self, gone: Sequence[str], *, limit: int, by: str | None = None) -> Op[list[Reaped]]:
        return call(
            "select * from headway.reap($1::uuid[], $2::integer, $3::uuid)",
            [list(gone), limit, by],
            lambda rows: [Reaped(*row) for row in rows],
        )

    def promote(self, *, limit: int) -> Op[Promoted]:
        return call("select * from headway.promote($1::integer)", [limit], lambda rows: Promoted(*rows[0]))

    def prune_audit(self, *, older_than_ms: int, limit: int) -> Op[int]:
        return call("select headway.prune_audit($1::bigint, $2::integer)", [older_than_ms, limit], first)

    def prune(self, status: Status, *, older_than_ms: int, limit: int) -> Op[int]:
        return call("select headway.prune($1, $2::bigint, $3::integer)", [status, older_than_ms, limit], first)

    def version(self) -> Op[int]:
        return Op(migrate.version, writes=False)


def _pairs(rows: Rows) -> list[tuple[str, int]]:
    return [(job_id, fence) for job_id, fence in rows]


def _beat(rows: Rows) -> HeartbeatReply:
    alive, fleet, ids, fences = rows[0]
    return HeartbeatReply(
        alive,
        msgspec.json.decode(fleet, type=dict[str, int]) if fleet else {},
        list(zip(ids or (), fences or (), strict=True)),
    )
