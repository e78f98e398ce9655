"""Tenants: names and ids."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.ids import check_new_tenants
from headway.store.ops import Op, Statement, Steps
from headway.store.postgres.engine.verbs import read


class TenantVerbs:
    def tenants(self, ids: Sequence[str]) -> Op[dict[str, str]]:
        return read(
            "select t.id, t.slug from headway.tenants t where t.id = any ($1::uuid[]) and t.slug is not null",
            [list(ids)],
            lambda rows: dict(rows),
        )

    def tenants_named(self, names: Sequence[str], *, create: bool) -> Op[dict[str, str]]:
        def steps() -> Steps[dict[str, str]]:
            if create:
                check_new_tenants(names)
            rows = yield Statement("select name, id from headway.tenants_named($1::text[], $2)", [list(names), create])
            return {name: str(tenant_id) for name, tenant_id in rows}

        return Op(steps, writes=create)
