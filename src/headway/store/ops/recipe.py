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
    repeatable: bool = True  # a driver may run it once more when the connection was lost on the way
    refusable: bool = False  # it may be refused by design, and the caller's transaction should live on then
    atomic: bool = False  # its statements need one transaction around them
    urgent: bool = False  # a heartbeat does not wait until other calls give a connection back
    alone: Callable[[], Steps[T]] | None = None  # the same steps for a transaction of its own, which ends with them
    # what to run instead where it failed for some of its rows: somebody's open transaction, or a row that is broken
    apart: Op[T] | None = None
