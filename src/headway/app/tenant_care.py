"""The verbs of tenants: list, create, rename, change, suspend, resume, delete."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import Any, NoReturn, TypeVar
from uuid import UUID

import msgspec

from headway.app.base import VerbBase, page_size
from headway.errors import ChangedMeanwhile, InvalidJob
from headway.model import refusals
from headway.model.cron import zone
from headway.model.fleet import Tenant
from headway.model.ids import tenant_ref
from headway.store.ops import Op, Steps

_AT_ONCE = 1_000  # jobs that one transaction deletes


T = TypeVar("T")
U = msgspec.UnsetType


class TenantDeletion(msgspec.Struct, frozen=True):
    """What was deleted with a tenant, or would be: how many rows of each table."""

    tenant: Tenant
    rows: Mapping[str, int]
    dry_run: bool


class TenantCareVerbs(VerbBase):
    """A tenant is named by its slug or, by a `UUID`, by its id."""

    def tenants(self, *, limit: int = 100, after: str | None = None) -> list[Tenant]:
        """The tenants in order of their names; `after` is the last name (or id) of the page before."""
        return self._run(self._store.ops.list_tenants(limit=page_size(limit), after=after))

    def get_tenant(self, tenant: str | UUID, *, conn: Any = None) -> Tenant:
        """One tenant. Raises `NotFound`."""
        tenant_id = self._existing(tenant, conn)
        found = self._run(self._store.ops.list_tenants(limit=1, only=tenant_id), conn)
        return found[0] if found else _missing(tenant)

    def create_tenant(self, name: str, *, tz: str | None = None, actor: str | None = None, conn: Any = None) -> Tenant:
        """Make a tenant, with a random id; `tz` is the zone of its schedules that name none. Raises `Duplicate` where
        a tenant has or had the name."""
        tenant_id = str(uuid.uuid4())
        self._run(self._create_tenant(tenant_id, _new_name(name), _checked_zone(tz), actor), conn)
        return self.get_tenant(UUID(tenant_id), conn=conn)

    def change_tenant(
        self,
        tenant: str | UUID,
        *,
        new_name: str | U = msgspec.UNSET,
        tz: str | U | None = msgspec.UNSET,
        if_match: Collection[str] | None = None,
        actor: str | None = None,
        conn: Any = None,
    ) -> Tenant:
        """Give a tenant another name (`new_name=`), which nobody else can ever have, or the zone that its new schedules
        start with (`tz=`; None: the app's). Schedules that exist keep theirs.

        With `if_match`, here and in the verbs below, only if its `etag` is one of these; raises `ChangedMeanwhile`.
        Raises `NotFound`, `Duplicate` where a tenant has or had the name, `InvalidJob` for an unknown zone,
        `NotAllowed` for the name of the default tenant.
        """
        tenant_id = self._existing(tenant, conn)
        change = self._change_tenant(tenant_id, new_name, tz, actor)
        self._run(self._if_tenant_matches(tenant_id, if_match, change), conn)
        self._tenants.forget()
        return self.get_tenant(UUID(tenant_id), conn=conn)

    def rename_tenant(self, tenant: str | UUID, name: str, *, actor: str | None = None, conn: Any = None) -> Tenant:
        """Give a tenant another name; nobody can ever have the old one. Raises as `change_tenant` does."""
        return self.change_tenant(tenant, new_name=name, actor=actor, conn=conn)

    def suspend_tenant(
        self,
        tenant: str | UUID,
        *,
        if_match: Collection[str] | None = None,
        actor: str | None = None,
        conn: Any = None,
    ) -> Tenant:
        """Stop a tenant: none of its jobs start, its schedules and events wait, and what is written for it raises
        `TenantSuspended`. Jobs that run go on, and reads work. Raises `NotFound`."""
        tenant_id = self._existing(tenant, conn)
        suspend = self._store.ops.suspend_tenant(tenant_id, actor=actor)
        self._run(self._if_tenant_matches(tenant_id, if_match, suspend), conn)
        return self.get_tenant(UUID(tenant_id), conn=conn)

    def resume_tenant(
        self,
        tenant: str | UUID,
        *,
        if_match: Collection[str] | None = None,
        actor: str | None = None,
        conn: Any = None,
    ) -> Tenant:
        """Let a suspended tenant work again, under the limits that it had. Raises `NotFound`."""
        tenant_id = self._existing(tenant, conn)
        resume = self._store.ops.resume_tenant(tenant_id, actor=actor)
        self._run(self._if_tenant_matches(tenant_id, if_match, resume), conn)
        self._wake_up(None, conn)
        return self.get_tenant(UUID(tenant_id), conn=conn)

    def delete_tenant(
        self,
        tenant: str | UUID,
        *,
        dry_run: bool = False,
        if_match: Collection[str] | None = None,
        actor: str | None = None,
    ) -> TenantDeletion:
        """Delete a tenant with everything that it owns, in many short transactions; `dry_run` only counts.

        Suspends it first. If it is interrupted, call it again. Neither its name nor its id is ever used again. Raises
        `NotFound`, and `NotAllowed` for the default tenant and while jobs of it run.
        """
        tenant_id = self._existing(tenant)
        found = self.get_tenant(UUID(tenant_id))
        rows = self._run(self._store.ops.tenant_rows(tenant_id))
        delete = self._store.ops.delete_tenant(tenant_id, limit=_AT_ONCE, actor=actor)
        if not dry_run:
            over = self._run(self._if_tenant_matches(tenant_id, if_match, delete))
            while not over:
                over = self._run(delete)
            self._tenants.forget()
        return TenantDeletion(found, rows, dry_run)

    def _create_tenant(self, tenant_id: str, name: str, tz: str | None, actor: str | None) -> Op[None]:
        ops = self._store.ops

        def steps() -> Steps[None]:
            yield from ops.create_tenant(tenant_id, name, actor=actor).steps()
            if tz is not None:
                yield from ops.set_tenant_zone(tenant_id, tz, actor=actor).steps()

        return Op(steps, writes=True, refusable=True, atomic=True)

    def _change_tenant(self, tenant_id: str, new_name: str | U, tz: str | U | None, actor: str | None) -> Op[None]:
        ops: list[Op[None]] = []
        if not isinstance(tz, U):
            ops.append(self._store.ops.set_tenant_zone(tenant_id, _checked_zone(tz), actor=actor))
        if not isinstance(new_name, U):
            ops.append(self._store.ops.rename_tenant(tenant_id, _new_name(new_name), actor=actor))
        if not ops:
            raise InvalidJob("what to change? Give new_name=, tz= or both")

        def steps() -> Steps[None]:
            for op in ops:
                yield from op.steps()

        return Op(steps, writes=True, refusable=True, atomic=True)

    def _if_tenant_matches(self, tenant_id: str, etags: Collection[str] | None, op: Op[T]) -> Op[T]:
        """The op, unless the tenant has changed: none of these is its `etag` any more, while its row is locked."""
        if etags is None:
            return op

        def steps() -> Steps[T]:
            yield from self._store.ops.lock_row("tenant", tenant_id, tenant_id=None).steps()
            found = yield from self._store.ops.list_tenants(limit=1, only=tenant_id).steps()
            if found and found[0].etag not in etags:
                raise ChangedMeanwhile(f"tenant {found[0].slug or tenant_id} has changed meanwhile: look at it again")
            return (yield from op.steps())

        return Op(steps, writes=True, repeatable=op.repeatable, refusable=True, atomic=True)

    def _existing(self, tenant: str | UUID, conn: Any = None) -> str:
        """The id of a tenant that exists, as far as can be seen; raises `NotFound`."""
        ref = tenant_ref(tenant)
        found = self._run(self._store.ops.tenants_named([ref], create=False), conn)
        return found[ref] if ref in found else _missing(tenant)


def _new_name(name: str) -> str:
    if not isinstance(name, str):
        raise InvalidJob(f"a tenant's name is a text, not {type(name).__name__}")
    return tenant_ref(name)


def _checked_zone(tz: str | None) -> str | None:
    return None if tz is None else zone(tz).key


def _missing(tenant: str | UUID) -> NoReturn:
    raise refusals.no_such_tenant(str(tenant))
