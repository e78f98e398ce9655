"""Finds the tenant of a name: looked up in the database, and remembered for a few seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from headway.errors import NotFound
from headway.model.ids import NOBODY, is_id, known_id
from headway.store.ops import Op
from headway.store.run import Store

_REMEMBERED_S = 5.0  # for this long a renamed tenant is still found by its old name
_MOST = 10_000  # names remembered; a loop over invented names must not fill the memory


class Tenants:
    """The ids of tenants by name; an app and all its `app.tenant(…)` share one."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, float]] = {}

    def get(self, ref: str) -> str:
        """The id, if it is known; else ""."""
        found = known_id(ref)
        if found:
            return found
        found, until = self._found.get(ref, ("", 0.0))
        return found if time.monotonic() < until else ""

    def forget(self) -> None:
        """A tenant has another name now, or is gone."""
        self._found.clear()

    def hear(self, found: Mapping[str, str]) -> None:
        if len(self._found) + len(found) > _MOST:
            self._found.clear()
        until = time.monotonic() + _REMEMBERED_S
        self._found.update({ref: (tenant_id, until) for ref, tenant_id in found.items()})


class TenantLookup:
    """Finds the ids of the tenants that verbs name."""

    _tenants: Tenants
    _whole_store: Store
    _own_tenant: str

    def _id_of(self, ref: str) -> str:
        """The id of the tenant to read from; where there is no such tenant, that of nobody."""
        if is_id(ref):
            return ref
        self._ensure_known(ref)
        return self._tenants.get(ref) or NOBODY

    def _id_for(self, ref: str) -> str:
        """The id of the tenant to write for; a new name becomes a tenant. Raises `NotFound`."""
        self._ensure_known(ref, create=True)
        return self._tenants.get(ref) or found(ref, {})

    def _ensure_known(self, *refs: str | UUID | None, create: bool = False) -> None:
        """Look up those that are not known yet. Async verbs begin with it, so that nothing blocks the loop later."""
        named = {str(ref) for ref in refs if ref is not None and ref != "*"}
        unknown = [ref for ref in named if not self._tenants.get(ref) and (create or not is_id(ref))]
        if unknown:
            self._look_up(unknown, create=create)

    def _look_up(self, refs: Iterable[str], *, create: bool, conn: Any = None) -> Mapping[str, str]:
        op = self._naming(refs, create)
        if conn is None or self._whole_store.dialect == "postgres":
            # outside the caller's transaction, which would lock the new name until it ends
            ids = self._whole_store.run(op)
            self._tenants.hear(ids)
            return ids
        return self._whole_store.run_in(conn, op)  # it may be rolled back, so do not remember the ids

    def _naming(self, refs: Iterable[str], create: bool) -> Op[dict[str, str]]:
        return self._whole_store.ops.tenants_named(sorted(refs), create=create)


def found(ref: str, ids: Mapping[str, str]) -> str:
    if ref in ids:
        return ids[ref]
    raise NotFound(f"there is no tenant {ref} (or it is not this login's)")
