"""Connections that have the rights of one tenant's application only: the second wall between tenants, behind the
filters of the verbs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from psycopg import pq, sql

from headway.store.ops import Statement, Steps
from headway.store.postgres.engine.connection import AsyncConnection, Connection
from headway.store.postgres.engine.pool import AsyncPool, Pool

# role and tenant end with the transaction, so a connection goes back with neither
_BEGIN = sql.SQL("begin; set local role {role}; select pg_catalog.set_config('headway.tenant_id', {tenant}, true)")
_OPEN = (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)


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


@contextmanager
def transaction(conn: Connection, role: str, tenant_id: str) -> Iterator[None]:
    conn.execute(_begin(role, tenant_id), prepare=False)
    try:
        yield
    except BaseException:
        if conn.pgconn.transaction_status in _OPEN:
            conn.rollback()
        raise
    conn.commit()


@asynccontextmanager
async def atransaction(conn: AsyncConnection, role: str, tenant_id: str) -> AsyncIterator[None]:
    await conn.execute(_begin(role, tenant_id), prepare=False)
    try:
        yield
    except BaseException:
        if conn.pgconn.transaction_status in _OPEN:
            await conn.rollback()
        raise
    await conn.commit()


def _begin(role: str, tenant_id: str) -> sql.Composed:
    return _BEGIN.format(role=sql.Identifier(role), tenant=sql.Literal(tenant_id))
