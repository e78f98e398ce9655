"""Makes a table of the target equal to that of the source, and proves that it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from headway.errors import StoreError
from headway.store.ops import Row
from headway.store.transfer.side import Side, keyed
from headway.store.transfer.tables import Layout, scope_of
from headway.store.transfer.values import Digest, arriving

BATCH = 500
Tell = Callable[[str, int], None]  # the table, and how many more of its rows were looked at


class Compared(msgspec.Struct, frozen=True):
    """A table after the check: the same number of rows and the same digest on both sides."""

    table: str
    rows: int
    digest: str


def sync(source: Side, target: Side, layouts: list[Layout], transfer_id: str, *, history: bool, tell: Tell) -> int:
    """Bring every table of the target to the state of the source; gives how many rows were written.

    First what is gone or different is deleted, and only then the rest inserted: what two states of the source have
    under one unique key never meets.
    """
    written = 0
    for layout in layouts:
        scope = scope_of(layout.table, source.dialect, history=history)
        ranges: list[tuple[Row | None, Row | None]] = []
        for after, upto, rows in _batches(source, layout, scope):
            there = {keyed(layout, row): row for row in target.read(layout, "true", after, upto, None)}
            wrong = _wrong(layout, rows, there)
            if wrong:
                with target.writing(transfer_id):
                    target.delete(layout, wrong)
            if len(rows) > len(there) - len(wrong) or layout.table.in_place:
                ranges.append((after, upto))
            tell(layout.name, len(rows))
        for after, upto in ranges:
            # read again: of a large first copy, no more than a batch is in memory
            rows = {keyed(layout, row): row for row in _arriving(source, layout, scope, after, upto)}
            there = {keyed(layout, row): row for row in target.read(layout, "true", after, upto, None)}
            written += _write(target, layout, rows, there, transfer_id)
    return written


def check(source: Side, target: Side, layouts: list[Layout], *, history: bool, tell: Tell) -> list[Compared]:
    """Read both sides again and compare them; raises `StoreError` where they differ."""
    found = []
    for layout in layouts:
        scope = scope_of(layout.table, source.dialect, history=history)
        here, there = Digest(), Digest()
        for _, _, rows in _batches(source, layout, scope):
            for row in rows.values():
                here.add(row)
            tell(layout.name, len(rows))
        for _, _, rows in _batches(target, layout, "true"):
            for row in rows.values():
                there.add(row)
        if (here.rows, here.hex) != (there.rows, there.hex):
            raise StoreError(
                f"the check failed: {layout.name} has {here.rows:,} rows ({here.hex[:12]}) at the source and "
                f"{there.rows:,} ({there.hex[:12]}) at the target. Nothing runs on either; run the transfer again, or "
                "go back with --abort"
            )
        found.append(Compared(layout.name, here.rows, here.hex))
    return found


def _batches(side: Side, layout: Layout, scope: str) -> Iterator[tuple[Row | None, Row | None, dict[Row, Row]]]:
    """The rows in batches, each with the range of keys that it covers; the last range is open."""
    after: Row | None = None
    while True:
        rows = side.read(layout, scope, after, None, BATCH)
        upto = keyed(layout, rows[-1]) if len(rows) == BATCH else None
        yield after, upto, {keyed(layout, row): arriving(layout, row) for row in rows}
        if upto is None:
            return
        after = upto


def _arriving(side: Side, layout: Layout, scope: str, after: Row | None, upto: Row | None) -> list[Row]:
    return [arriving(layout, row) for row in side.read(layout, scope, after, upto, None)]


def _wrong(layout: Layout, rows: dict[Row, Row], there: dict[Row, Row]) -> list[Row]:
    """The keys of what has to be deleted at the target."""
    if layout.table.in_place:
        return [key for key in there if key not in rows]
    return [key for key, row in there.items() if rows.get(key) != row]


def _write(target: Side, layout: Layout, rows: dict[Row, Row], there: dict[Row, Row], transfer_id: str) -> int:
    missing = [row for key, row in rows.items() if key not in there]
    changed = [
        (row, _changed(layout, row, there[key])) for key, row in rows.items() if key in there and row != there[key]
    ]
    if missing or changed:
        with target.writing(transfer_id):
            if missing:
                target.insert(layout, missing)
            for row, names in changed:
                target.update(layout, row, names)
    return len(missing) + len(changed)


def _changed(layout: Layout, row: Row, there: Row) -> list[str]:
    pairs: Iterator[tuple[Any, Any, Any]] = zip(layout.columns, row, there, strict=True)
    return [column.name for column, value, other in pairs if value != other]
