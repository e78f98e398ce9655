"""The fleet: workers that register and beat, and queues that pause and resume."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.model.fleet import HeartbeatReply, NewWorker
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.jobs.claim import canceling

_SQL = statements("fleet/workers")
_encode = msgspec.json.Encoder().encode


class FleetVerbs(Verbs):
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

    def pause(self, queue: str, *, actor: str | None) -> Op[None]:
        def steps() -> Steps[None]:
            now = self._clock.now()
            yield Statement(_SQL["pause"], (queue, now, actor))
            yield Statement(_SQL["audit"], (now, queue, actor, "pause"))

        return SqliteOp(steps, writes=True)

    def resume(self, queue: str, *, actor: str | None) -> Op[None]:
        def steps() -> Steps[None]:
            yield Statement(_SQL["resume"], (queue,))
            yield Statement(_SQL["audit"], (self._clock.now(), queue, actor, "resume"))

        return SqliteOp(steps, writes=True)


def _beat(worker_id: str, queues: str, now: int) -> Steps[HeartbeatReply]:
    rows = yield Statement(_SQL["free"], (now,))
    free: dict[str, int] = dict(rows)
    stopping = yield from canceling(worker_id)
    # at least one: a worker that is full everywhere still shares the budget with itself
    fleet = {queue: max(1, free.get(queue, 0)) for queue in msgspec.json.decode(queues)}
    return HeartbeatReply(alive=True, fleet=fleet, canceling=stopping)
