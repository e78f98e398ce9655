"""Prints answers: tables that fit the terminal, plain columns elsewhere, JSON for programs, readable times."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, Literal

from headway.printable import printable, printable_json

if TYPE_CHECKING:
    from rich.console import Console

GAP = "  "
COLORS = {
    "queued": "cyan",
    "scheduled": "blue",
    "held": "blue",
    "running": "yellow",
    "waiting": "yellow",
    "succeeded": "green",
    "failed": "red",
    "dead": "bold red",
    "canceled": "magenta",
    "timeout": "red",
    "lost": "red",
    "enqueued": "green",
    "skipped": "yellow",
    "deduped": "yellow",
    "signaled": "green",
    "undelivered": "yellow",
    "pending": "cyan",
    "handled": "green",
    "enabled": "green",
    "paused": "bold yellow",
    "disabled": "bold yellow",
    "active": "green",
    "inactive": "bold yellow",
}
# a job's error or log line must not control the reader's terminal
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `shrink`: it may be cut to fit the terminal. `wide`: shown only on terminals at least this wide.
    `spare`: left out on a terminal if all its cells are empty."""

    title: str
    right: bool = False
    shrink: bool = False
    wide: int = 0
    spare: bool = False


Cell = str | tuple[str, str]  # text, or text and style


def console(stderr: bool = False) -> Console:
    """A console that prints text verbatim, in color only on terminals; control characters are printed as escapes."""
    from rich.console import Console
    from rich.text import Text

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

        def print(self, *objects: Any, **options: Any) -> None:
            super().print(*map(self._printable, objects), **options)

        def _printable(self, item: Any) -> Any:
            if isinstance(item, Text) and printable(item.plain) != item.plain:
                parts = ((printable(part.text), part.style or "") for part in item.render(self, end=""))
                return Text.assemble(*parts)
            return printable(item) if isinstance(item, str) else item

    # nor bold: NO_COLOR asks for no escapes at all
    colors: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Quiet(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True, color_system=colors)


def emit(value: Any) -> None:
    """One JSON value on stdout, times as ISO 8601 with Z."""
    import msgspec

    sys.stdout.write(printable_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()) + "\n")


def merged(struct: Any, **more: Any) -> dict[str, Any]:
    """A struct's fields as in its JSON, followed by more fields."""
    import msgspec

    fields: dict[str, Any] = msgspec.structs.asdict(struct)
    return fields | more


def say(text: str, style: str | None = None) -> None:
    """One line on stdout for people."""
    console().print(clean(text), style=style)


def tell(text: str) -> None:
    """A paragraph on stdout, wrapped between words on a terminal."""
    out = console()
    out.print(clean(text), soft_wrap=not out.is_terminal)


def note(text: str) -> None:
    """One line on stderr for people: a hint that is not part of the answer."""
    console(stderr=True).print(clean(text), style="dim")


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    """Rows under headings: cut to the terminal's width, or complete if there is no terminal."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    out = console()
    room = out.width if out.is_terminal else None
    shown = [
        index
        for index, column in enumerate(columns)
        if room is None or (room >= column.wide and (not column.spare or any(_cell(row[index])[0] for row in rows)))
    ]
    cells = [[_cell(row[index]) for index in shown] for row in rows]
    kept = [columns[index] for index in shown]
    widths = [
        max([cell_len(column.title), *(cell_len(row[index][0]) for row in cells)]) for index, column in enumerate(kept)
    ]
    if room is not None:
        _shrink(widths, kept, room)
    for row in [[(column.title, "bold") for column in kept], *cells]:
        line = Text()
        for index, (text, style) in enumerate(row):
            size = widths[index]
            if cell_len(text) > size:
                text = set_cell_size(text, size - 1) + "…"
            padding = " " * (size - cell_len(text))
            last = index == len(row) - 1
            line.append(padding + text if kept[index].right else text, style)
            line.append("" if last else (GAP if kept[index].right else padding + GAP))
        out.print(line)


def status(name: str) -> tuple[str, str]:
    """A status in its color."""
    return name, COLORS.get(name, "")


def clean(text: str) -> str:
    """The text, with control characters as escapes."""
    return printable(text)


def readable(text: str) -> str:
    """A program's output as lines, without colors; a carriage return, as of a progress bar, ends a line."""
    return clean(_ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))


def many(count: int, noun: str = "job") -> str:
    """`1 job`, `2,000 jobs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def first_line(text: str | None) -> str:
    """The first line, which fits into a cell."""
    lines = (text or "").strip().splitlines()
    return lines[0] if lines else ""


def at(moment: datetime | None) -> str:
    """A moment, with its distance from now."""
    if moment is None:
        return "–"
    return f"{moment.astimezone(UTC).strftime('%Y-%m-%d %H:%M:%SZ')} ({ago(moment)})"


def local(moment: datetime | None, zone: tzinfo | None = None) -> str:
    """A moment in a zone (default: this host's): `Tue 2026-03-31 02:00 CEST`."""
    if moment is None:
        return "–"
    shown = moment.astimezone(zone)
    return shown.strftime(f"%a %Y-%m-%d {clock(shown)} %Z")


def clock(shown: datetime) -> str:
    """The time of day: `02:00`, `02:00:30`, with milliseconds if it has any."""
    if shown.microsecond:
        return shown.strftime("%H:%M:%S.") + f"{shown.microsecond // 1_000:03}"
    return shown.strftime("%H:%M:%S" if shown.second else "%H:%M")


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """A moment's distance from now: `3m 20s ago`, `in 2h 5m`."""
    from headway.model.duration import show_ms

    if moment is None:
        return "–"
    ms = ((now or datetime.now(UTC)) - moment).total_seconds() * 1_000
    return f"{show_ms(ms)} ago" if ms >= 0 else f"in {show_ms(-ms)}"


def span(ms: int) -> str:
    """A duration as people write it, without zero parts: 5m, not 5m 0s."""
    from headway.model.duration import show_ms

    return " ".join(part for part in show_ms(ms).split() if part[:-1] != "0").replace(".0s", "s")


def _cell(cell: Cell) -> tuple[str, str]:
    text, style = (cell, "") if isinstance(cell, str) else cell
    return printable(text).replace("\n", " ").replace("\t", " "), style


def _shrink(widths: list[int], columns: Sequence[Column], room: int) -> None:
    """Narrow the widest column that may be cut, until all fit or none can be cut further."""
    while sum(widths) + len(GAP) * (len(widths) - 1) > room:
        cuttable = [index for index, column in enumerate(columns) if column.shrink and widths[index] > 6]
        if not cuttable:
            return
        widest = max(cuttable, key=lambda index: widths[index])
        widths[widest] -= 1
