"""Transactions of ops: with the rights of a role and for one tenant, where asked. Begun in one round trip."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from psycopg import pq, sql

from headway.store.postgres.engine.connection import AsyncConnection, Connection

# both end with the transaction, so a connection goes back with neither
_ROLE = sql.SQL("set local role {}")
_TENANT = sql.SQL("select pg_catalog.set_config('headway.tenant_id', {}, true)")
_OPEN = (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)


@contextmanager
def transaction(conn: Connection, *, role: str | None, tenant_id: str | None) -> Iterator[None]:
    try:
        conn.execute(_begin(role, tenant_id), prepare=False)
        yield
    except BaseException:
        if conn.pgconn.transaction_status in _OPEN:
            conn.rollback()
        raise
    conn.commit()


@asynccontextmanager
async def atransaction(conn: AsyncConnection, *, role: str | None, tenant_id: str | None) -> AsyncIterator[None]:
    try:
        await conn.execute(_begin(role, tenant_id), prepare=False)
        yield
    except BaseException:
        if conn.pgconn.transaction_status in _OPEN:
            await conn.rollback()
        raise
    await conn.commit()


def _begin(role: str | None, tenant_id: str | None) -> sql.Composed:
    parts: list[sql.Composable] = [sql.SQL("begin")]
    if role is not None:
        parts.append(_ROLE.format(sql.Identifier(role)))
    if tenant_id is not None:
        parts.append(_TENANT.format(sql.Literal(tenant_id)))
    return sql.SQL("; ").join(parts)
