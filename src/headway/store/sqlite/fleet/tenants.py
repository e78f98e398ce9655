"""Tenants: looks up names and ids, and adds rows for new ones."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from headway.model import refusals
from headway.model.ids import DEFAULT_TENANT_ID, check_new_tenants, is_id
from headway.store.ops import Batch, Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list

_SQL = statements("fleet/tenants")


class Owned(Protocol):
    """Something of a tenant, with the tenant's id and name."""

    @property
    def tenant(self) -> str | None: ...

    @property
    def tenant_id(self) -> str: ...


class TenantVerbs(Verbs):
    def tenants(self, ids: Sequence[str]) -> Op[dict[str, str]]:
        def steps() -> Steps[dict[str, str]]:
            return dict((yield Statement(_SQL["names"], (json_list(ids),))))

        return SqliteOp(steps, writes=False)

    def tenants_named(self, names: Sequence[str], *, create: bool) -> Op[dict[str, str]]:
        def read() -> Steps[dict[str, str]]:
            return dict((yield Statement(_SQL["named"], (json_list(names),))))

        def probe() -> Steps[dict[str, str] | None]:
            found = yield from read()
            return found if len(found) == len(set(names)) else None

        if not create:
            return SqliteOp(read, writes=False)
        return SqliteOp(lambda: named(names, self._clock.now()), writes=True, probe=probe)


def named(names: Iterable[str], now: int) -> Steps[dict[str, str]]:
    """The ids of the tenants of these names; a new name becomes a tenant."""
    found: dict[str, str] = dict((yield Statement(_SQL["named"], (json_list(sorted(names)),))))
    new = {name: name if is_id(name) else str(uuid.uuid4()) for name in names if name not in found}
    check_new_tenants(new)
    yield from add_tenants({tenant_id: None if is_id(name) else name for name, tenant_id in new.items()}, now)
    return {**found, **new}


def name_tenants(owned: Iterable[Owned], now: int) -> Steps[None]:
    """Add rows for new tenants among the owners; the default tenant always has one."""
    others = {each.tenant_id: each.tenant for each in owned if each.tenant_id != DEFAULT_TENANT_ID}
    if others:
        known = {tenant_id for (tenant_id,) in (yield Statement(_SQL["known"], (json_list(list(others)),)))}
        new = {key: None if slug is None or is_id(slug) else slug for key, slug in others.items() if key not in known}
        yield from add_tenants(new, now)


def add_tenants(new: Mapping[str, str | None], now: int) -> Steps[None]:
    """Add tenants, by id, with their names."""
    if not new:
        return
    for (tenant_id,) in (yield Statement(_SQL["deleted"], (json_list(list(new)),))):
        raise refusals.tenant_deleted(tenant_id)
    yield from check_names_free([slug for slug in new.values() if slug is not None])
    yield Batch(_SQL["add"], [(tenant_id, slug, now) for tenant_id, slug in new.items()])


def check_names_free(slugs: Sequence[str]) -> Steps[None]:
    """Raises `InvalidJob` if a tenant has, or had, one of these names."""
    for slug, retired in (yield Statement(_SQL["taken"], (json_list(slugs),))):
        if retired:
            raise refusals.tenant_name_retired(slug)
        raise refusals.tenant_name_taken(slug)
