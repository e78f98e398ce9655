"""Ops: verbs as recipes, which a driver of either colour runs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

Row = tuple[Any, ...]
Rows = list[Row]


class Statement(msgspec.Struct, frozen=True):
    """One statement; its parameters are `$1`, `$2`, … on PostgreSQL and `?1`, `?2`, … on SQLite."""

    sql: str
    params: Sequence[Any] = ()


class Batch(msgspec.Struct, frozen=True):
    """One statement run once for each row of parameters; gives the rows of all runs, in order."""

    sql: str
    rows: Sequence[Sequence[Any]]


Steps = Generator[Statement | Batch, Rows, T]


class Op(msgspec.Struct, Generic[T], frozen=True):
    """A verb, ready to run: `steps` makes a new generator each time, so that an op can be tried again."""

    steps: Callable[[], Steps[T]]
    writes: bool
    repeatable: bool = True  # a driver may run it again after the connection was lost
    refusable: bool = False  # may be refused by design, and the caller's transaction should go on then: use a savepoint
    joins: bool = False  # makes sense only as part of the caller's transaction
    atomic: bool = False  # several statements that need one transaction
    computes: bool = False  # its steps take a while: not on an event loop
    urgent: bool = False  # a heartbeat, which does not wait for a free connection
    alone: Callable[[], Steps[T]] | None = None  # the steps to run if the transaction ends with them
    # what to run instead after a failure for some of its rows: blocked by somebody's open transaction, or broken
    fallback: Op[T] | None = None
