"""Generated from app/tenants.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from headway.app.tenants import TenantLookup
from headway.model.ids import is_id


class AsyncTenantLookup(TenantLookup):
    """The async twins of the verbs of `TenantLookup`."""

    async def _aensure_known(self, *refs: str | UUID | None, create: bool = False) -> None:
        """Look up those that are not known yet. Async verbs begin with it, so that nothing blocks the loop later."""
        named = {str(ref) for ref in refs if ref is not None and ref != "*"}
        unknown = [ref for ref in named if not self._tenants.get(ref) and (create or not is_id(ref))]
        if unknown:
            await self._alook_up(unknown, create=create)

    async def _alook_up(self, refs: Iterable[str], *, create: bool, conn: Any = None) -> Mapping[str, str]:
        op = self._naming(refs, create)
        if conn is None or self._whole_store.dialect == "postgres":
            ids = await self._whole_store.arun(op)
            self._tenants.hear(ids)
            return ids
        return await self._whole_store.arun_in(conn, op)
