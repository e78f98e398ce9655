"""What a transfer asks of either database."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import msgspec

from headway.store.ops import Row
from headway.store.run import Store
from headway.store.transfer.tables import Catalogue, Dialect, Layout

Role = Literal["source", "target"]
Phase = Literal["copying", "sealed", "done", "aborted"]


class Note(msgspec.Struct, frozen=True):
    """What a database knows about its last transfer."""

    id: str
    role: Role
    peer: str
    phase: Phase
    history: bool


class Counters(msgspec.Struct, frozen=True):
    """What gives out numbers."""

    position: int


class Side(Protocol):
    """One database of a transfer, on a connection of its own. Nothing here may be used by two threads."""

    dialect: Dialect

    @property
    def store(self) -> Store: ...

    def describe(self) -> str: ...

    def catalogue(self) -> Catalogue:
        """The tables of the schema with their columns."""
        ...

    def read(self, layout: Layout, scope: str, after: Row | None, upto: Row | None, limit: int | None) -> list[Row]:
        """Rows in the common form, in order of their keys, from behind `after` up to `upto`."""
        ...

    def count(self, layout: Layout, scope: str) -> int: ...

    def snapshot(self) -> AbstractContextManager[None]:
        """Reads inside see one state of the database."""
        ...

    def writing(self, transfer_id: str) -> AbstractContextManager[None]:
        """A transaction of the transfer's own, which no seal refuses."""
        ...

    def insert(self, layout: Layout, rows: Sequence[Row]) -> None: ...

    def delete(self, layout: Layout, keys: Sequence[Row]) -> None: ...

    def clear(self, layout: Layout, scope: str) -> None:
        """Delete the rows of `t` that meet this condition."""
        ...

    def update(self, layout: Layout, row: Row, names: Sequence[str]) -> None:
        """Write these columns of one row."""
        ...

    def note(self) -> Note | None:
        """The last transfer of this database."""
        ...

    def write_note(self, note: Note) -> None:
        """Write it, inside `writing`."""
        ...

    def seal(self, note: Note) -> None:
        """Inside `writing`: wait until nobody else writes, and refuse every write from this commit on."""
        ...

    def unseal(self) -> None: ...

    def running(self) -> int:
        """How many jobs run."""
        ...

    def artifact_stores(self) -> list[str]:
        """The stores of all artifacts, as their rows name them."""
        ...

    def process_rest(self) -> int:
        """Inside `writing`: process some arrivals, and add up some stats; gives how many of both are left."""
        ...

    def counters(self) -> Counters: ...

    def finish(self, counters: Counters) -> None:
        """Inside `writing`: set what is not copied but follows from what was."""
        ...

    def close(self) -> None: ...


def keyed(layout: Layout, row: Row) -> Row:
    """The key of a row."""
    return row[: layout.keys]


def named(layout: Layout, row: Row) -> dict[str, Any]:
    return {column.name: value for column, value in zip(layout.columns, row, strict=True)}
