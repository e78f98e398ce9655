"""Workers and their leases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headway.model import codec
from headway.model.fleet import HeartbeatReply, NewWorker, Worker
from headway.model.served import ServedChange
from headway.store.ops import Op, Row, Rows
from headway.store.postgres.engine.decode import utc
from headway.store.postgres.engine.verbs import call, nothing, read

_WORKERS = """
select w.id, w.hostname, w.pid, w.machine, w.process_started, w.version, w.queues, w.kinds, w.concurrency,
       w.running, w.started_at, w.heartbeat_at, w.lease_expires_at, w.metadata, w.wanted
  from headway.workers w
"""


class WorkerVerbs:
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

    def heartbeat(
        self, worker_id: str, *, running: int, busy: Sequence[str], serves: tuple[Mapping[str, int], int] | None = None
    ) -> Op[HeartbeatReply]:
        queues = None if serves is None else msgspec.json.encode(serves[0]).decode()
        return call(
            "select * from headway.heartbeat($1::uuid, $2::integer, $3::text[], $4::jsonb, $5::integer)",
            [worker_id, running, list(busy), queues, serves and serves[1]],
            _beat,
            urgent=True,
        )

    def set_worker(self, worker_id: str, wanted: ServedChange, *, actor: str | None) -> Op[None]:
        text = msgspec.json.encode(wanted).decode()
        return call("select headway.set_worker($1::uuid, $2::json, $3)", [worker_id, text, actor], nothing)

    def queue_names(self) -> Op[list[str]]:
        return read(
            "select q.name from headway.queue_names() q order by q.name", [], lambda rows: [row[0] for row in rows]
        )

    def retire(self, worker_id: str) -> Op[None]:
        return call("select headway.retire($1::uuid)", [worker_id], nothing)

    def unregister(self, worker_id: str) -> Op[None]:
        return call("select headway.unregister($1::uuid)", [worker_id], nothing)

    def workers(self) -> Op[list[Worker]]:
        return read(f"{_WORKERS} order by w.started_at, w.id", [], lambda rows: [_worker(row) for row in rows])

    def worker(self, worker_id: str) -> Op[Worker | None]:
        return read(f"{_WORKERS} where w.id = $1::uuid", [worker_id], lambda rows: _worker(rows[0]) if rows else None)


def _beat(rows: Rows) -> HeartbeatReply:
    alive, fleet, ids, fences, wanted = rows[0]
    return HeartbeatReply(
        alive,
        msgspec.json.decode(fleet, type=dict[str, int]) if fleet else {},
        list(zip(ids or (), fences or (), strict=True)),
        wanted,
    )


def _worker(row: Row) -> Worker:
    fields = dict(zip(Worker.__struct_fields__, map(utc, row), strict=True))
    fields["queues"] = msgspec.json.decode(fields["queues"])
    fields["metadata"] = codec.shown(fields["metadata"], what="metadata")
    fields["wanted"] = codec.shown(fields["wanted"], what="wanted") if fields["wanted"] else None
    fields["kinds"] = tuple(fields["kinds"])
    return Worker(**fields)
