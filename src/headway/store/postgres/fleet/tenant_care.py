"""What operators do to tenants: list, create, rename, suspend, resume, delete."""

from __future__ import annotations

from headway.model.fleet import Tenant
from headway.store.ops import Op, Rows
from headway.store.postgres.engine.decode import utc
from headway.store.postgres.engine.verbs import call, first, nothing, read


class TenantCareVerbs:
    def refuse_suspended(self, tenant_id: str) -> Op[None]:
        return read("select headway.refuse_suspended($1::uuid)", [tenant_id], nothing)

    def list_tenants(self, *, limit: int, after: str | None = None, only: str | None = None) -> Op[list[Tenant]]:
        return read(
            "select t.id, t.slug, t.created_at, t.suspended_at, t.suspended_by, t.tz from headway.tenants t"
            ' where ($1::text is null or coalesce(t.slug, t.id::text) > $1 collate "C")'
            " and ($3::uuid is null or t.id = $3)"
            ' order by coalesce(t.slug, t.id::text) collate "C" limit $2::integer',
            [after, limit, only],
            _tenants,
        )

    def create_tenant(self, tenant_id: str, slug: str, *, actor: str | None) -> Op[None]:
        return call("select headway.create_tenant($1::uuid, $2, $3)", [tenant_id, slug, actor], nothing)

    def rename_tenant(self, tenant_id: str, slug: str, *, actor: str | None) -> Op[None]:
        return call("select headway.rename_tenant($1::uuid, $2, $3)", [tenant_id, slug, actor], nothing)

    def set_tenant_zone(self, tenant_id: str, tz: str | None, *, actor: str | None) -> Op[None]:
        return call("select headway.set_tenant_zone($1::uuid, $2, $3)", [tenant_id, tz, actor], nothing)

    def suspend_tenant(self, tenant_id: str, *, actor: str | None) -> Op[None]:
        return call("select headway.suspend_tenant($1::uuid, $2)", [tenant_id, actor], nothing)

    def resume_tenant(self, tenant_id: str, *, actor: str | None) -> Op[None]:
        return call("select headway.resume_tenant($1::uuid, $2)", [tenant_id, actor], nothing)

    def tenant_rows(self, tenant_id: str) -> Op[dict[str, int]]:
        return read("select name, rows from headway.tenant_rows($1::uuid)", [tenant_id], lambda rows: dict(rows))

    def delete_tenant(self, tenant_id: str, *, limit: int, actor: str | None) -> Op[bool]:
        return call("select headway.delete_tenant($1::uuid, $2::integer, $3)", [tenant_id, limit, actor], first)


def _tenants(rows: Rows) -> list[Tenant]:
    return [
        Tenant(
            id=str(tenant_id),
            slug=slug,
            created_at=utc(created_at),
            suspended_at=None if suspended_at is None else utc(suspended_at),
            suspended_by=suspended_by,
            tz=tz,
        )
        for tenant_id, slug, created_at, suspended_at, suspended_by, tz in rows
    ]
