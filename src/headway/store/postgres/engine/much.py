"""Drives ops on an event loop, and does in a thread what takes a while: reading many or large rows, and computing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from types import NoneType
from typing import Any, TypeVar

import msgspec
import psycopg

from headway.store.ops import Batch, Rows, Statement, Steps
from headway.store.postgres.engine.connection import in_thread

T = TypeVar("T")

_ROWS = 16  # that are fetched at once before it is known how large they are: at most a few megabytes
_MANY = 256
_CELLS = 20_000  # of so many fields an op makes something for longer than a thread costs
_MUCH = 256 * 1024  # characters: a claim of a thousand small jobs has fewer

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
    if _size(request.params if isinstance(request, Statement) else ()) > _MUCH:
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
    size, piece = 0, _ROWS
    while True:
        some = await cursor.fetchmany(piece)
        rows += some
        size += _characters(some)
        if size > _MUCH:
            await asyncio.sleep(0)
        if len(some) < piece:
            return rows, size > _MUCH or len(rows) * cursor.pgresult.nfields >= _CELLS
        # as many as hold about so much, if the next ones are like these
        piece = max(_ROWS, min(_MANY, _MUCH * len(rows) // (size + 1)))


def _size(params: Any) -> int:
    """How many characters lists of texts have together."""
    found = 0
    for param in params:
        if type(param) is str:
            found += len(param)
        elif type(param) is list and param and type(param[0]) in (str, NoneType):
            found += _length(param)
    return found


def _characters(rows: Rows) -> int:
    """The same of rows."""
    return sum(_length(column) for column in zip(*rows, strict=True) if type(column[0]) in (str, NoneType))


def _length(texts: Collection[Any]) -> int:
    try:
        return sum(map(len, filter(None, texts)))
    except TypeError:  # no texts, after a first one that is null
        return 0
