"""Runs ops: a blocking and an async driver, and what a store offers to the layers above."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from headway.store.ops import Batch, Op, Ops, Rows, Statement, Steps

T = TypeVar("T")


def drive(steps: Steps[T], execute: Callable[[Statement | Batch], Rows]) -> T:
    """Run an op's steps with a blocking `execute`."""
    try:
        request = next(steps)
        while True:
            try:
                rows = execute(request)
            except Exception as error:
                request = steps.throw(error)  # the op may handle it
            else:
                request = steps.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()


async def adrive(steps: Steps[T], execute: Callable[[Statement | Batch], Awaitable[Rows]]) -> T:
    """Run an op's steps with an awaitable `execute`."""
    try:
        request = next(steps)
        while True:
            try:
                rows = await execute(request)
            except Exception as error:
                request = steps.throw(error)  # the op may handle it
            else:
                request = steps.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()


class Store(Protocol):
    """A database with Headway's schema. Opening is lazy, safe to share between threads, and survives a fork."""

    dialect: Literal["sqlite", "postgres"]
    ops: Ops

    @property
    def install_id(self) -> str | None:
        """Identifies this database to the processes of a machine; None until it was first used."""
        ...

    @property
    def artifacts_beside(self) -> Path:
        """The folder of artifacts where no setting names one: beside a file, or in the current folder."""
        ...

    @property
    def is_absent(self) -> bool:
        """Whether it is a file that does not exist; the first op makes it."""
        ...

    def describe(self) -> str:
        """The database, as shown to people: the file's full path, or the URL without its password."""
        ...

    def run(self, op: Op[T]) -> T:
        """Run in a transaction of its own; raises `StoreUnavailable`, `SchemaMissing`, `SchemaOutdated`, …"""
        ...

    async def arun(self, op: Op[T], *, timeout_s: float | None = None) -> T:
        """The same without blocking the event loop. If the database is silent for `timeout_s` (default: the store's
        own), it raises `StoreUnavailable`, and the op may have been done or not."""
        ...

    def run_in(self, conn: Any, op: Op[T]) -> T:
        """Run inside the caller's own transaction on `conn`, a connection of any supported library."""
        ...

    async def arun_in(self, conn: Any, op: Op[T]) -> T:
        """The same; `conn` may be async or not."""
        ...

    def for_tenant(self, tenant_id: str) -> Store:
        """The same store in sessions that act for this tenant only (sets `headway.tenant_id` on PostgreSQL)."""
        ...

    def walled_for(self, tenant_id: str) -> Store:
        """The same for callers that nobody vouches for, on connections of their own: with the rights of an application
        of this tenant and no others, where PostgreSQL has roles. Elsewhere, as `for_tenant`."""
        ...

    def walls(self) -> int:
        """How many walls stand between tenants for `walled_for`: the verbs' own filter, and the database's."""
        ...

    def presume_silent(self, silent: bool) -> None:
        """Whether the server is taken to be silent: calls that are given up do not ask it to break off their work."""
        ...

    def with_own_connections(self) -> Store:
        """The same database on separate connections, so that a worker's heartbeat never waits for its handlers."""
        ...

    def close(self) -> None:
        """Close the connections; they open again when needed."""
        ...

    async def aclose(self) -> None: ...

    async def leave_loop(self) -> None:
        """Close what belongs to the running event loop, which is about to end."""
        ...
