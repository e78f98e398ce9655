"""What the SQLite store's verbs share: their clock, and ops that read before they take the write lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from headway.clock import Clock, to_micros
from headway.store.ops import Op, Steps

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class SqliteOp(Op[T], frozen=True):
    """An op with what only this store needs.

    A SQLite file has one write lock, so a worker that polls an empty queue must not take it. `probe` runs first, on a
    read connection: its result is the op's answer, and only None makes the store run `steps`, which read again, under
    the write lock. `read_ahead` runs there, too, just before `steps`: for an answer that is too long to be read under
    the write lock. Inside a caller's transaction neither runs. An op with `absent` reads the file whatever its schema;
    `absent` is its answer if there is no file.
    """

    probe: Callable[[], Steps[T | None]] | None = None
    read_ahead: Callable[[], Steps[None]] | None = None
    absent: T | None = None


class Verbs:
    """The base class of the verbs, with their clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock


def json_list(values: Sequence[str] | Sequence[int] | Sequence[tuple[Any, ...]]) -> str:
    """A JSON array for `json_each`."""
    return _encode(values).decode()


def given(change: msgspec.Struct, but: Sequence[str] = ()) -> dict[str, Any]:
    """The values that a change sets, as stored."""
    values = {name: getattr(change, name) for name in change.__struct_fields__ if name not in but}
    return {
        name: to_micros(value) if isinstance(value, datetime) else value
        for name, value in values.items()
        if value is not msgspec.UNSET
    }
