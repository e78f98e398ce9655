"""Which tenant a name means: looked up in the database, and remembered for a few seconds."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headway.errors import NotFound
from headway.model.ids import NOBODY, is_id, known_id
from headway.store.ops import Op
from headway.store.run import Store

_REMEMBERED_S = 5.0  # how long a renamed tenant is still found by its old name
_MOST = 10_000


class Tenants:
    """The ids of tenants by name; an app and all its `app.tenant(…)` share one."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, float]] = {}

    def get(self, ref: str) -> str:
        """The id, if that was looked up lately; else ""."""
        found = known_id(ref)
        if found:
            return found
        found, until = self._found.get(ref, ("", 0.0))
        return found if time.monotonic() < until else ""

    def hear(self, found: Mapping[str, str]) -> None:
        if len(self._found) + len(found) > _MOST:
            self._found.clear()
        until = time.monotonic() + _REMEMBERED_S
        self._found.update({ref: (tenant_id, until) for ref, tenant_id in found.items()})


class TenantLookup:
    """Finds the tenants that verbs name. Async verbs look theirs up before they begin, so that none blocks its loop."""

    _tenants: Tenants
    _whole: Store
    _own: str

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, verb in list(vars(cls).items()):
            # enqueue and emit look up what their jobs and events name, in the caller's transaction if need be
            if inspect.iscoroutinefunction(verb) and not name.startswith(("_", "aenqueue", "aemit", "alearn")):
                setattr(cls, name, _knowing(verb))

    def _id_of(self, ref: str) -> str:
        """The tenant's id, to look for what is its own: where there is no such tenant, that is nothing."""
        if is_id(ref):
            return ref
        return self._tenants.get(ref) or self._look_up([ref], create=False).get(ref, NOBODY)

    def _id_for(self, ref: str) -> str:
        """The tenant's id, to write something of its own: a name that is new becomes a tenant; raises `NotFound`."""
        return self._tenants.get(ref) or found(ref, self._look_up([ref], create=True))

    def _look_up(self, refs: Iterable[str], *, create: bool, conn: Any = None) -> Mapping[str, str]:
        op = self._naming(refs, create)
        if conn is None or self._whole.dialect == "postgres":
            # not in the caller's transaction: it would hold the name until its end
            ids = self._whole.run(op)
            self._tenants.hear(ids)
            return ids
        return self._whole.run_in(conn, op)  # which may be rolled back, so nothing is remembered

    async def _alook_up(self, refs: Iterable[str], *, create: bool, conn: Any = None) -> Mapping[str, str]:
        op = self._naming(refs, create)
        if conn is None or self._whole.dialect == "postgres":
            ids = await self._whole.arun(op)
            self._tenants.hear(ids)
            return ids
        return await self._whole.arun_in(conn, op)

    def _naming(self, refs: Iterable[str], create: bool) -> Op[dict[str, str]]:
        return self._whole.ops.tenants_named(sorted(refs), create=create)


def found(ref: str, ids: Mapping[str, str]) -> str:
    if ref in ids:
        return ids[ref]
    raise NotFound(f"there is no tenant {ref} (or it is not this login's)")


def _knowing(verb: Callable[..., Any]) -> Callable[..., Any]:
    creates = verb.__name__.startswith(("acreate_", "alimit", "ahold_train"))

    @functools.wraps(verb)
    async def known(self: TenantLookup, *args: Any, **kwargs: Any) -> Any:
        refs = {self._own} if (named := kwargs.get("tenant")) is None else {self._own, str(named)}
        missing = [ref for ref in refs if ref != "*" and not self._tenants.get(ref) and (creates or not is_id(ref))]
        if missing:
            await self._alook_up(missing, create=creates)
        return await verb(self, *args, **kwargs)

    return known
