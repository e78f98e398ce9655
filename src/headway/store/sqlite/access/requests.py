"""Requests by the key that their sender chose: each is done once."""

from __future__ import annotations

from typing import Any, TypeVar

from headway.model.request import KEPT_MS, Request, answer_of, replayed
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs

T = TypeVar("T", bound=list[Any])

_SQL = statements("access/requests")


class RequestVerbs(Verbs):
    def once(self, request: Request, effect: Op[T]) -> Op[T]:
        def steps() -> Steps[T]:
            now = self._clock.now()
            who = (request.tenant_id, request.key_id, request.route, request.key)
            if not (yield Statement(_SQL["begin"], (*who, request.body_hash, now, now - KEPT_MS * 1_000))):
                ((body_hash, answer),) = yield Statement(_SQL["known"], who)
                replayed(request, body_hash, answer)
            done = yield from effect.steps()
            yield Statement(_SQL["finish"], (*who, answer_of(done)))
            return done

        return SqliteOp(steps, writes=True)

    def prune_requests(self, *, limit: int) -> Op[int]:
        def probe() -> Steps[int | None]:
            ((found,),) = yield Statement(_SQL["prune_probe"], (self._clock.now() - KEPT_MS * 1_000,))
            return None if found else 0

        def steps() -> Steps[int]:
            return len((yield Statement(_SQL["prune"], (self._clock.now() - KEPT_MS * 1_000, limit))))

        return SqliteOp(steps, writes=True, probe=probe)
