"""What operators do to tenants: list, create, rename, suspend, resume, delete."""

from __future__ import annotations

from headway.clock import from_micros
from headway.errors import Duplicate, InvalidJob
from headway.model import audit, refusals
from headway.model.fleet import Tenant
from headway.model.ids import DEFAULT_TENANT_ID
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.fleet.tenants import add_tenants, check_names_free
from headway.store.sqlite.jobs.artifacts import delete_artifacts
from headway.store.sqlite.jobs.audit import record, record_change
from headway.store.sqlite.order.limit_waiters import readmit_tenant

_SQL = statements("fleet/tenant_care")
_OTHER_TABLES = (
    "signals",
    "edges",
    "job_tags",
    "fires",
    "events",
    "triggers",
    "templates",
    "connector_configs",
    "groups",
    "holds",
    "arrivals",
    "requests",
    "unique_windows",
    "job_lists",
    "stat_deltas",
    "stats",
    "error_deltas",
    "errors",
    "job_errors",
)


class TenantCareVerbs(Verbs):
    def refuse_suspended(self, tenant_id: str) -> Op[None]:
        def steps() -> Steps[None]:
            for (name,) in (yield Statement(_SQL["suspended"], (tenant_id,))):
                raise refusals.tenant_suspended(name)

        return SqliteOp(steps, writes=False)

    def list_tenants(self, *, limit: int, after: str | None = None, only: str | None = None) -> Op[list[Tenant]]:
        def steps() -> Steps[list[Tenant]]:
            rows = yield Statement(_SQL["list"], (after, limit, only))
            return [
                Tenant(
                    id=tenant_id,
                    slug=slug,
                    created_at=from_micros(created_at),
                    suspended_at=None if suspended_at is None else from_micros(suspended_at),
                    suspended_by=suspended_by,
                    tz=tz,
                )
                for tenant_id, slug, created_at, suspended_at, suspended_by, tz in rows
            ]

        return SqliteOp(steps, writes=False)

    def create_tenant(self, tenant_id: str, slug: str, *, actor: str | None) -> Op[None]:
        def steps() -> Steps[None]:
            if (yield Statement(_SQL["names"], (tenant_id, slug)))[0][0]:
                return
            yield from _refuse_used(slug)
            now = self._clock.now()
            yield from add_tenants({tenant_id: slug}, now)
            yield record(now, tenant_id, None, actor, "tenant.created", slug)

        return SqliteOp(steps, writes=True)

    def rename_tenant(self, tenant_id: str, slug: str, *, actor: str | None) -> Op[None]:
        def steps() -> Steps[None]:
            name, _ = yield from _known(tenant_id)
            if name == slug:
                return
            if tenant_id == DEFAULT_TENANT_ID:
                raise refusals.default_tenant_stays()
            yield from _refuse_used(slug)
            yield Statement(_SQL["rename"], (tenant_id, slug))
            now = self._clock.now()
            yield record(now, tenant_id, None, actor, "tenant.renamed", audit.tenant_renamed(name, slug))

        return SqliteOp(steps, writes=True)

    def set_tenant_zone(self, tenant_id: str, tz: str | None, *, actor: str | None) -> Op[None]:
        def steps() -> Steps[None]:
            name, _ = yield from _known(tenant_id)
            ((before,),) = yield Statement(_SQL["zone"], (tenant_id,))
            if (yield Statement(_SQL["set_zone"], (tenant_id, tz))):
                values = audit.values_changed({"tz": before}, {"tz": tz})
                detail = audit.tenant_zone_set(name, tz)
                yield record_change(self._clock.now(), tenant_id, None, actor, "tenant.changed", detail, values)

        return SqliteOp(steps, writes=True)

    def suspend_tenant(self, tenant_id: str, *, actor: str | None) -> Op[None]:
        return SqliteOp(lambda: _suspend(tenant_id, actor, self._clock.now()), writes=True)

    def resume_tenant(self, tenant_id: str, *, actor: str | None) -> Op[None]:
        def steps() -> Steps[None]:
            name, suspended = yield from _known(tenant_id)
            if not suspended:
                return
            yield Statement(_SQL["allow"], (tenant_id,))
            yield Statement(_SQL["remove_empty"], (tenant_id,))
            yield Statement(_SQL["resume"], (tenant_id,))
            yield from readmit_tenant(tenant_id)
            yield record(self._clock.now(), tenant_id, None, actor, "tenant.resumed", name)

        return SqliteOp(steps, writes=True)

    def tenant_rows(self, tenant_id: str) -> Op[dict[str, int]]:
        def steps() -> Steps[dict[str, int]]:
            return dict((yield Statement(_SQL["rows"], (tenant_id,))))

        return SqliteOp(steps, writes=False)

    def delete_tenant(self, tenant_id: str, *, limit: int, actor: str | None) -> Op[bool]:
        def steps() -> Steps[bool]:
            now = self._clock.now()
            name, _ = yield from _known(tenant_id)
            if tenant_id == DEFAULT_TENANT_ID:
                raise refusals.default_tenant_stays()
            yield from _suspend(tenant_id, actor, now)
            ((running,),) = yield Statement(_SQL["running"], (tenant_id,))
            if running:
                raise refusals.tenant_busy(name, running)
            gone = yield Statement(_SQL["delete_jobs"], (tenant_id, limit))
            ids = json_list([job_id for (job_id,) in gone])
            for table in ("attempts", "signals", "flow_journal", "edges"):
                yield Statement(_SQL[f"delete_{table}_of"], (ids,))
            yield from delete_artifacts([job_id for (job_id,) in gone], now)
            if len(gone) == limit:
                return False
            for table in _OTHER_TABLES:
                if len((yield Statement(_SQL[f"delete_{table}"], (tenant_id, limit)))) == limit:
                    return False
            for last in ("delete_sessions", "delete_keys", "delete_limits", "delete_tenant"):
                yield Statement(_SQL[last], (tenant_id,))
            yield record(now, tenant_id, None, actor, "tenant.deleted", audit.tenant_deleted(name, tenant_id))
            return True

        return SqliteOp(steps, writes=True)


def _known(tenant_id: str) -> Steps[tuple[str, bool]]:
    """The tenant's name, and whether it is suspended; raises `NotFound`."""
    rows = yield Statement(_SQL["known"], (tenant_id,))
    if not rows:
        raise refusals.no_such_tenant(tenant_id)
    return rows[0][0], bool(rows[0][1])


def _suspend(tenant_id: str, actor: str | None, now: int) -> Steps[None]:
    name, suspended = yield from _known(tenant_id)
    if suspended:
        return
    yield Statement(_SQL["suspend"], (tenant_id, now, actor))
    yield Statement(_SQL["start_none"], (tenant_id,))
    yield record(now, tenant_id, None, actor, "tenant.suspended", name)


def _refuse_used(slug: str) -> Steps[None]:
    """Raises `Duplicate` if a tenant has, or had, this name."""
    try:
        yield from check_names_free([slug])
    except InvalidJob as refused:
        raise Duplicate(str(refused)) from None
