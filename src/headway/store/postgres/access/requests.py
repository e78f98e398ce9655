"""Requests by the key that their sender chose: each is done once."""

from __future__ import annotations

from typing import Any, TypeVar

from headway.model.request import KEPT_MS, Request, answer_of, replayed
from headway.store.ops import Op, Statement, Steps
from headway.store.postgres.engine.verbs import call, first

T = TypeVar("T", bound=list[Any])

_BEGIN = "select body_hash, answer from headway.begin_request($1::uuid, $2, $3, $4, $5, $6::bigint)"
_FINISH = "select headway.finish_request($1::uuid, $2, $3, $4, $5)"


class RequestVerbs:
    def once(self, request: Request, effect: Op[T]) -> Op[T]:
        def steps() -> Steps[T]:
            who = [request.tenant_id, request.key_id, request.route, request.key]
            for body_hash, answer in (yield Statement(_BEGIN, [*who, request.body_hash, KEPT_MS])):
                replayed(request, bytes(body_hash), answer)
            # nothing but the request's own row is written after the effect: it may run as if it were alone
            done = yield from (effect.alone or effect.steps)()
            yield Statement(_FINISH, [*who, answer_of(done)])
            return done

        return Op(steps, writes=True, refusable=True, atomic=True)

    def prune_requests(self, *, limit: int) -> Op[int]:
        return call("select headway.prune_requests($1::bigint, $2::integer)", [KEPT_MS, limit], first)
