"""Limits that operators set, and how they are used."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model import audit
from headway.model.limit import EVERY_TENANT, Limit, Usage, concurrency_key, letter_and_parts, rate_key
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs
from headway.store.sqlite.jobs.audit import record_change
from headway.store.sqlite.jobs.quotas import refuse_suspended
from headway.store.sqlite.order.capacity import running_of
from headway.store.sqlite.order.limit_waiters import ALL, admit, limited_keys, readmit_tenant
from headway.store.sqlite.order.rates import set_refill

_SQL = statements("order/limits")
_TENANTS = ("t:", "t;")  # where their keys begin and end
_METERED_AT_ONCE = 100_000


class LimitVerbs(Verbs):
    def set_limit(self, limit: Limit, *, actor: str | None) -> Op[None]:
        def steps() -> Steps[None]:
            if limit.scope == "tenant":
                yield from refuse_suspended([limit.name])
            before = yield Statement(_SQL["limit"], (limit.scope, limit.name))
            if limit.empty:
                yield Statement(_SQL["remove"], (limit.scope, limit.name))
            else:
                yield Statement(_SQL["set"], _row(limit))
            if limit.max_running is not None:
                yield Statement(_SQL["mark"], (limit.scope, limit.name))
            if limit.max_pending is not None or limit.max_bytes is not None:
                bounded = limit.name != EVERY_TENANT and limit.max_bytes is None
                many = limit.max_pending if bounded else _METERED_AT_ONCE
                yield Statement(_SQL["meter"], (limit.name, many))
            yield from _admit_under(limit)
            names = Limit.__struct_fields__
            values = audit.values_changed(
                dict(zip(names, before[0], strict=True)) if before else {},
                dict(zip(names[2:], _row(limit)[2:], strict=True)),
            )
            detail = audit.limit_set(limit)
            yield record_change(self._clock.now(), None, None, actor, "limit", detail, values)

        return SqliteOp(steps, writes=True)

    def limits(self) -> Op[list[Limit]]:
        def steps() -> Steps[list[Limit]]:
            rows = yield Statement(_SQL["limits"])
            return [Limit(**dict(zip(Limit.__struct_fields__, row, strict=True))) for row in rows]

        return SqliteOp(steps, writes=False)

    def usage(self, key: str, *, tenant_id: str | None = None) -> Op[Usage]:
        def steps() -> Steps[Usage]:
            if tenant_id is not None and key.startswith("k:"):
                ((running,),) = yield Statement(_SQL["usage_k"], (key[2:], tenant_id))
            else:
                running = yield from _running_under(key)
            ((waiting,),) = yield Statement(_SQL["waiting"], (key, tenant_id))
            return Usage(key, running, waiting)

        return SqliteOp(steps, writes=False)

    def usages(self, keys: Sequence[str]) -> Op[list[Usage]]:
        def steps() -> Steps[list[Usage]]:
            found: list[Usage] = []
            for key in keys:
                found += [(yield from self.usage(key).steps())]
            return found

        return SqliteOp(steps, writes=False)


def _row(limit: Limit) -> tuple[object, ...]:
    return tuple(getattr(limit, name) for name in Limit.__struct_fields__)


def _admit_under(limit: Limit) -> Steps[None]:
    """Admit jobs that waited for this limit, as many as may start now."""
    match limit.scope:
        case "kind":
            key = concurrency_key("", limit.name, None)
            yield from admit({key: (yield from _free(key, limit)), rate_key("", limit.name, None): ALL})
            yield set_refill(rate_key("", limit.name, None), None)
        case "tenant" if limit.name == EVERY_TENANT:
            key, end = _TENANTS
            while keys := [key for key in (yield from limited_keys(key, 1_000)) if key < end]:
                yield from admit(dict.fromkeys(keys, ALL))
                key = keys[-1]
        case "tenant":
            yield from readmit_tenant(limit.name)
        case "queue":
            pass  # no job is ever limited by its queue's limit


def _free(key: str, limit: Limit) -> Steps[int]:
    if limit.max_running is None:
        return ALL
    return max(0, limit.max_running - (yield from _running_under(key)))


def _running_under(key: str) -> Steps[int]:
    match letter_and_parts(key):
        case (("p" | "c" as letter), parts):
            ((count,),) = yield Statement(_SQL[f"usage_{letter}"], parts)
            return int(count)
        case (("k" | "t"), _):
            return (yield from running_of(key))
        case ("q", (queue,)):
            ((count,),) = yield Statement(_SQL["usage_q"], (queue,))
            return int(count)
    return 0  # a rate counts starts, not what runs
