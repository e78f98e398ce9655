"""Connections that have the rights of one tenant's application only: the second wall between tenants, behind the
filters of the verbs."""

from __future__ import annotations

from headway.store.ops import Statement, Steps
from headway.store.postgres.engine.pool import AsyncPool, Pool


class TenantConnections:
    """Connections for requests of tenants, apart from those that act for all."""

    def __init__(self, url: str) -> None:
        self.pool = Pool(url)
        self.apool = AsyncPool(url)
        self._role: str | None = None
        self._asked = False

    def role(self) -> Steps[str | None]:
        """The role to take on; None where there are no roles, or this login may not take it on."""
        if not self._asked:
            ((self._role,),) = yield Statement("select headway.wall_role()")
            self._asked = True
        return self._role

    def forget(self) -> None:
        self._asked = False
        self.pool.forget()
