"""Requests by the key that their sender chose: each is done once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from headway.model.request import KEPT_MS, Request, answer_of, replayed
from headway.store.ops import Op, Statement, Steps
from headway.store.postgres.engine.verbs import call, first

T = TypeVar("T", bound=list[Any])

_BEGIN = "select body_hash, answer from headway.begin_request($1::uuid, $2, $3, $4, $5, $6::bigint)"
_FINISH = "select headway.finish_request($1::uuid, $2, $3, $4, $5)"
_BEGIN_EACH = (
    "select r.number, b.body_hash, b.answer"
    " from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[])"
    " with ordinality as r (tenant, key_id, route, key, hash, number),"
    " lateral headway.begin_request(r.tenant, r.key_id, r.route, r.key, r.hash, $6::bigint) as b"
)
_FINISH_EACH = (
    "select headway.finish_request(r.tenant, r.key_id, r.route, r.key, r.answer)"
    " from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[]) as r (tenant, key_id, route, key, answer)"
)


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

    def once_each(self, requests: Sequence[Request | None], effect: Op[T]) -> Op[T]:
        # in one order, so that two calls with the same keys wait for each other once
        keyed = sorted(
            ((index, request) for index, request in enumerate(requests) if request is not None),
            key=lambda each: (each[1].tenant_id, each[1].key_id, each[1].route, each[1].key),
        )

        def steps() -> Steps[T]:
            given = [request for _, request in keyed]
            who = [[getattr(each, name) for each in given] for name in ("tenant_id", "key_id", "route", "key")]
            hashes = [each.body_hash for each in given]
            for number, body_hash, answer in (yield Statement(_BEGIN_EACH, [*who, hashes, KEPT_MS])):
                replayed(given[number - 1], bytes(body_hash), answer)
            done = yield from (effect.alone or effect.steps)()
            yield Statement(_FINISH_EACH, [*who, [answer_of([done[index]]) for index, _ in keyed]])
            return done

        return Op(steps, writes=True, refusable=True, atomic=True)

    def prune_requests(self, *, limit: int) -> Op[int]:
        return call("select headway.prune_requests($1::bigint, $2::integer)", [KEPT_MS, limit], first)
