"""Limits: what operators set for queues, kinds and tenants, and how much of it is used."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.limit import Limit, Usage
from headway.store.ops import Op
from headway.store.postgres.engine.verbs import call, nothing, read


class LimitVerbs:
    def set_limit(self, limit: Limit, *, actor: str | None) -> Op[None]:
        return call(
            "select headway.set_limit($1, $2, $3::integer, $4::integer, $5::bigint, $6::integer, $7::integer, $8,"
            " $9::bigint, $10::integer, $11::integer, $12::integer, $13::integer)",
            [
                limit.scope,
                limit.name,
                limit.max_running,
                limit.rate_count,
                limit.rate_period_ms,
                limit.rate_burst,
                limit.max_pending,
                actor,
                limit.max_bytes,
                limit.max_events,
                limit.max_schedules,
                limit.max_group,
                limit.max_fan_out,
            ],
            nothing,
        )

    def limits(self) -> Op[list[Limit]]:
        return read(
            "select l.scope, l.name, l.max_running, l.rate_count, l.rate_period_ms, l.rate_burst, l.max_pending,"
            " l.max_bytes, l.max_events, l.max_schedules, l.max_group, l.max_fan_out"
            " from headway.limits l order by l.scope, l.name",
            [],
            lambda rows: [Limit(**dict(zip(Limit.__struct_fields__, row, strict=True))) for row in rows],
        )

    def usage(self, key: str, *, tenant_id: str | None = None) -> Op[Usage]:
        return read(
            "select running, waiting from headway.usage($1, $2::uuid)",
            [key, tenant_id],
            lambda rows: Usage(key, *rows[0]),
        )

    def usages(self, keys: Sequence[str]) -> Op[list[Usage]]:
        return read(
            "select k.key, u.running, u.waiting"
            " from unnest($1::text[]) with ordinality as k (key, n), headway.usage(k.key) u order by k.n",
            [list(keys)],
            lambda rows: [Usage(*row) for row in rows],
        )
