"""Drives ops on an event loop, and does in a thread what takes a while: reading many or large rows, and computing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec
import psycopg

from headway.store.ops import Batch, Rows, Statement, Steps
from headway.store.postgres.engine.connection import in_thread

T = TypeVar("T")

_ROWS = 16  # that are fetched at once: those of one look at most a few megabytes
_MANY = 256
_MUCH = 64 * 1024  # characters
_LARGE = 256 * 1024

Asked = tuple[str, list[Any] | None]


async def adrive_beside(
    steps: Steps[T],
    cursor: psycopg.AsyncRawCursor[Any],
    asked: Callable[[Statement | Batch], Asked],
    *,
    prepare: bool | None,
    computes: bool,
) -> T:
    """As `adrive`. `asked` makes a statement's parameters; `computes` says that the steps take long in any case."""
    is_much = computes
    rows: Rows | None = None
    try:
        while True:
            found = await in_thread(partial(_next, steps, rows)) if is_much else _next(steps, rows)
            while True:
                if isinstance(found, _End):
                    result: T = found.value
                    return result
                try:
                    rows, is_much = await _ask(cursor, found, asked, prepare)
                    break
                except Exception as error:
                    found = _after(steps, error)  # the op may handle it
            is_much = is_much or computes
    finally:
        steps.close()


class _End(msgspec.Struct):
    """What an op gives; a `StopIteration` cannot leave a thread."""

    value: Any


def _next(steps: Steps[Any], rows: Rows | None) -> Any:
    try:
        return next(steps) if rows is None else steps.send(rows)
    except StopIteration as end:
        return _End(end.value)


def _after(steps: Steps[Any], error: Exception) -> Any:
    try:
        return steps.throw(error)
    except StopIteration as end:
        return _End(end.value)


async def _ask(
    cursor: psycopg.AsyncRawCursor[Any],
    request: Statement | Batch,
    asked: Callable[[Statement | Batch], Asked],
    prepare: bool | None,
) -> tuple[Rows, bool]:
    """The rows, and whether it takes long to read them."""
    if _size(request.params if isinstance(request, Statement) else ()) > _LARGE:
        sql, params = await in_thread(partial(asked, request))
        cursor.connection.sends_much = True  # type: ignore[attr-defined]
        try:
            await cursor.execute(sql, params, prepare=prepare)
        finally:
            cursor.connection.sends_much = False  # type: ignore[attr-defined]
    else:
        await cursor.execute(*asked(request), prepare=prepare)
    if cursor.pgresult is None or cursor.pgresult.nfields == 0:  # not by cursor.description, which would be built
        return [], False
    rows: Rows = []
    size = 0
    while True:
        some = await cursor.fetchmany(_ROWS)
        rows += some
        if size <= _MUCH and len(rows) <= _MANY:
            size += sum(len(value) for row in some for value in row if type(value) is str)
        elif len(rows) % _MANY == 0:
            await asyncio.sleep(0)
        if len(some) < _ROWS:
            return rows, size > _MUCH or len(rows) >= _MANY


def _size(params: Any) -> int:
    """How many characters lists of texts have together."""
    found = 0
    for param in params:
        if type(param) is str:
            found += len(param)
        elif type(param) is list and param and type(param[0]) is not int:
            found += sum(len(each) for each in param if type(each) is str)
    return found
