"""Workers: register, heartbeat, retire, unregister; and the read of the fleet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headway.model import refusals
from headway.model.fleet import HeartbeatReply, NewWorker, Worker
from headway.model.served import ServedChange
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.decode import to_worker
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.jobs.audit import record
from headway.store.sqlite.jobs.claim import canceling

_SQL = statements("fleet/workers")
_REMEMBERED_US = 86_400 * 1_000_000
_encode = msgspec.json.Encoder().encode


class WorkerVerbs(Verbs):
    def register(self, worker: NewWorker) -> Op[HeartbeatReply]:
        def steps() -> Steps[HeartbeatReply]:
            now = self._clock.now()
            metadata = _encode(worker.metadata).decode()
            ((gone,),) = yield Statement(_SQL["is_gone"], (worker.id, metadata))
            if gone:
                raise refusals.worker_is_gone(worker.id)
            ((queues,),) = yield Statement(
                _SQL["register"],
                (
                    worker.id,
                    worker.hostname,
                    worker.pid,
                    worker.machine,
                    worker.process_started,
                    worker.version,
                    _encode(worker.queues).decode(),
                    _encode(worker.kinds).decode(),
                    worker.concurrency,
                    worker.lease_ms,
                    now,
                    metadata,
                    worker.late_ms,
                ),
            )
            return (yield from _beat(worker.id, queues, now))

        return SqliteOp(steps, writes=True)

    def heartbeat(
        self, worker_id: str, *, running: int, busy: Sequence[str], serves: tuple[Mapping[str, int], int] | None = None
    ) -> Op[HeartbeatReply]:
        queues = None if serves is None else _encode(serves[0]).decode()

        def steps() -> Steps[HeartbeatReply]:
            now = self._clock.now()
            values = (worker_id, running, json_list(busy), now, queues, serves and serves[1])
            rows = yield Statement(_SQL["heartbeat"], values)
            if not rows:
                return HeartbeatReply(alive=False, fleet={}, canceling=[])
            return (yield from _beat(worker_id, rows[0][0], now, rows[0][1]))

        return SqliteOp(steps, writes=True)

    def set_worker(self, worker_id: str, wanted: ServedChange, *, actor: str | None) -> Op[None]:
        def steps() -> Steps[None]:
            text = _encode(wanted).decode()
            rows = yield Statement(_SQL["wanted"], (worker_id,))
            if not rows:
                raise refusals.no_such_worker(worker_id)
            before = msgspec.json.decode(rows[0][0] or "{}", type=dict[str, Any])
            merged = before | msgspec.json.decode(text, type=dict[str, Any])
            yield Statement(_SQL["set_wanted"], (worker_id, _encode(merged).decode()))
            yield record(self._clock.now(), None, None, actor, "worker.set", f"{worker_id}: {text}")

        return SqliteOp(steps, writes=True)

    def queue_names(self) -> Op[list[str]]:
        def steps() -> Steps[list[str]]:
            return [name for (name,) in (yield Statement(_SQL["queue_names"], (self._clock.now(),)))]

        return SqliteOp(steps, writes=False)

    def retire(self, worker_id: str) -> Op[None]:
        def steps() -> Steps[None]:
            yield Statement(_SQL["retire"], (worker_id,))

        return SqliteOp(steps, writes=True)

    def unregister(self, worker_id: str) -> Op[None]:
        def steps() -> Steps[None]:
            # what it still runs has no registered worker now: the next reap ends it
            yield from remove_workers([worker_id], self._clock.now(), left=True)

        return SqliteOp(steps, writes=True)

    def workers(self) -> Op[list[Worker]]:
        def steps() -> Steps[list[Worker]]:
            rows = yield Statement(_SQL["workers"])
            return [to_worker(row) for row in rows]

        return SqliteOp(steps, writes=False)

    def worker(self, worker_id: str) -> Op[Worker | None]:
        def steps() -> Steps[Worker | None]:
            rows = yield Statement(_SQL["worker"], (worker_id,))
            return to_worker(rows[0]) if rows else None

        return SqliteOp(steps, writes=False)


def remove_workers(ids: Sequence[str], now: int, *, left: bool) -> Steps[None]:
    """Remove these workers, and remember their ids for a day; `left`: they signed off."""
    for worker_id in ids:
        yield Statement(_SQL["remember"], (worker_id, left, now))
        yield Statement(_SQL["remove"], (worker_id,))
    if ids:
        yield Statement(_SQL["forget_gone"], (now - _REMEMBERED_US,))


def _beat(worker_id: str, queues: str, now: int, wanted: str | None = None) -> Steps[HeartbeatReply]:
    rows = yield Statement(_SQL["free"], (now,))
    free: dict[str, int] = dict(rows)
    stopping = yield from canceling(worker_id)
    # at least one: a full worker still counts itself
    fleet = {queue: max(1, free.get(queue, 0)) for queue in msgspec.json.decode(queues)}
    return HeartbeatReply(alive=True, fleet=fleet, canceling=stopping, wanted=wanted)
