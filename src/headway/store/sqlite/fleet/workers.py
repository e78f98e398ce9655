"""Workers: register, heartbeat, retire, unregister; and the read of the fleet."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.model.fleet import HeartbeatReply, NewWorker, Worker
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.decode import to_worker
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.jobs.claim import canceling

_SQL = statements("fleet/workers")
_encode = msgspec.json.Encoder().encode


class WorkerVerbs(Verbs):
    def register(self, worker: NewWorker) -> Op[HeartbeatReply]:
        def steps() -> Steps[HeartbeatReply]:
            now = self._clock.now()
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
                    _encode(worker.metadata).decode(),
                    worker.late_ms,
                ),
            )
            return (yield from _beat(worker.id, queues, now))

        return SqliteOp(steps, writes=True)

    def heartbeat(self, worker_id: str, *, running: int, busy: Sequence[str]) -> Op[HeartbeatReply]:
        def steps() -> Steps[HeartbeatReply]:
            now = self._clock.now()
            rows = yield Statement(_SQL["heartbeat"], (worker_id, running, json_list(busy), now))
            if not rows:
                return HeartbeatReply(alive=False, fleet={}, canceling=[])
            return (yield from _beat(worker_id, rows[0][0], now))

        return SqliteOp(steps, writes=True)

    def retire(self, worker_id: str) -> Op[None]:
        def steps() -> Steps[None]:
            yield Statement(_SQL["retire"], (worker_id,))

        return SqliteOp(steps, writes=True)

    def unregister(self, worker_id: str) -> Op[None]:
        def steps() -> Steps[None]:
            # what it still runs has no registered worker now: the next reap ends it
            yield Statement(_SQL["unregister"], (worker_id,))

        return SqliteOp(steps, writes=True)

    def workers(self) -> Op[list[Worker]]:
        def steps() -> Steps[list[Worker]]:
            rows = yield Statement(_SQL["workers"])
            return [to_worker(row) for row in rows]

        return SqliteOp(steps, writes=False)


def _beat(worker_id: str, queues: str, now: int) -> Steps[HeartbeatReply]:
    rows = yield Statement(_SQL["free"], (now,))
    free: dict[str, int] = dict(rows)
    stopping = yield from canceling(worker_id)
    # at least one: a full worker still counts itself
    fleet = {queue: max(1, free.get(queue, 0)) for queue in msgspec.json.decode(queues)}
    return HeartbeatReply(alive=True, fleet=fleet, canceling=stopping)
