"""Requests by the key that their sender chose: each is done once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from headway.model.request import KEPT_MS, Request, answer_of, replayed
from headway.store.ops import Batch, Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs

T = TypeVar("T", bound=list[Any])

_SQL = statements("access/requests")


class RequestVerbs(Verbs):
    def once(self, request: Request, effect: Op[T]) -> Op[T]:
        def steps() -> Steps[T]:
            yield from _begin(request, self._clock.now())
            done = yield from effect.steps()
            yield Statement(_SQL["finish"], (*_who(request), answer_of(done)))
            return done

        return SqliteOp(steps, writes=True)

    def once_each(self, requests: Sequence[Request | None], effect: Op[T]) -> Op[T]:
        def steps() -> Steps[T]:
            now = self._clock.now()
            for request in requests:
                if request is not None:
                    yield from _begin(request, now)
            done = yield from effect.steps()
            keyed = [(request, one) for request, one in zip(requests, done, strict=True) if request is not None]
            yield Batch(_SQL["finish"], [(*_who(request), answer_of([one])) for request, one in keyed])
            return done

        return SqliteOp(steps, writes=True)

    def prune_requests(self, *, limit: int) -> Op[int]:
        def probe() -> Steps[int | None]:
            ((found,),) = yield Statement(_SQL["prune_probe"], (self._clock.now() - KEPT_MS * 1_000,))
            return None if found else 0

        def steps() -> Steps[int]:
            return len((yield Statement(_SQL["prune"], (self._clock.now() - KEPT_MS * 1_000, limit))))

        return SqliteOp(steps, writes=True, probe=probe)


def _who(request: Request) -> tuple[str, ...]:
    return request.tenant_id, request.key_id, request.route, request.key


def _begin(request: Request, now: int) -> Steps[None]:
    """Raises `Replayed`, `Duplicate`."""
    if not (yield Statement(_SQL["begin"], (*_who(request), request.body_hash, now, now - KEPT_MS * 1_000))):
        ((body_hash, answer),) = yield Statement(_SQL["known"], _who(request))
        replayed(request, body_hash, answer)
