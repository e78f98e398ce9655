"""Runs ops: one small driver per colour, and what a store offers to the layers above."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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
                request = steps.throw(error)  # an op may know what to do instead
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
                request = steps.throw(error)  # an op may know what to do instead
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
        """Names this database on this machine; None until it was first used."""
        ...

    def describe(self) -> str:
        """The database for people: the file's full path, or the URL without its password."""
        ...

    def run(self, op: Op[T]) -> T:
        """Run in a transaction of its own; raises `StoreUnavailable`, `SchemaMissing`, `SchemaOutdated`, …"""
        ...

    async def arun(self, op: Op[T], *, timeout_s: float | None = None) -> T:
        """The same without blocking the event loop. Where the database gives no answer for `timeout_s` (None: the
        store's own), it raises `StoreUnavailable`, and the op may have been done or not."""
        ...

    def run_in(self, conn: Any, op: Op[T]) -> T:
        """Run inside the caller's own transaction on `conn`, whatever supported library it is of."""
        ...

    async def arun_in(self, conn: Any, op: Op[T]) -> T:
        """The same for a connection of either colour."""
        ...

    def bound(self, tenant_id: str) -> Store:
        """The same store in sessions that see only this tenant (sets `headway.tenant_id` on PostgreSQL)."""
        ...

    def apart(self) -> Store:
        """The same database on connections of its own, so that a worker's heartbeat never waits for its handlers."""
        ...

    def close(self) -> None:
        """Close the connections; they open again when they are needed."""
        ...

    async def aclose(self) -> None: ...

    async def leave_loop(self) -> None:
        """Close what belongs to the running event loop, which is about to end."""
        ...
