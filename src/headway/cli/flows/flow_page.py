"""One flow on a page: what it has recorded, and what it waits for now."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headway.cli.program.output import COLORS, Cell, Column, at, clean, console, first_line, status, table
from headway.model.duration import show_ms
from headway.model.status import FINISHED

if TYPE_CHECKING:
    from headway.model.job import Job
    from headway.model.journal_row import JournalRow

_MOST_SHOWN = 200
"""How many characters of a value are shown."""
_INDENT = "  "

_COLORS = {
    "done": "green",
    "ended": "green",
    "signal": "green",
    "failed": COLORS["failed"],
    "cancel": COLORS["canceled"],
    "timer": "cyan",
    "tried": "yellow",
}


def show_flow(job: Job, rows: Sequence[JournalRow], reasons: Sequence[str], *, earlier: int) -> None:
    """`reasons`: why it is as it is. `earlier`: how many rows are left out."""
    from rich.text import Text

    out = console()
    version = "" if job.version is None else f" version {job.version}"
    out.print(Text.assemble((job.kind, "bold"), version, "  ", status(job.status), "  ", (job.id, "dim")))
    for name, value in _values(job):
        out.print(Text(clean(f"{_INDENT}{name:<15}{value}")))
    out.print("\nnow" if job.status not in FINISHED else "\nend", style="bold")
    for reason in reasons:
        out.print(clean(f"{_INDENT}{reason}"), soft_wrap=not out.is_terminal)
    if not rows:
        out.print(f"\n{_INDENT}nothing recorded yet", style="dim")
        return
    out.print("\njournal", style="bold")
    if earlier:
        out.print(f"{_INDENT}┊ {earlier:,} earlier: add --limit {min(earlier + len(rows), 10_000)}", style="dim")
    table(_COLUMNS, [_row(row) for row in rows])
    for title, shown in (("state", job.state), ("result", job.result)):
        if shown is not None:
            out.print(f"\n{title}", style="bold")
            out.print(clean(f"{_INDENT}{_compact(shown)}"))


def _values(job: Job) -> list[tuple[str, str]]:
    values = [
        ("queue", job.queue),
        ("tenant", job.tenant if job.tenant != "default" else None),
        ("unique key", job.unique_key),
        ("train", job.train),
        ("called by", job.parent_id),
        ("forked from", job.forked_from),
        ("created", at(job.created_at)),
        ("finished", at(job.finished_at) if job.finished_at else None),
    ]
    return [(name, value) for name, value in values if value is not None]


_COLUMNS = (
    Column("ROW", right=True),
    Column("PLACE", shrink=True),
    Column("WHAT"),
    Column("TRIES", right=True, spare=True),
    Column("TOOK", right=True, spare=True),
    Column("RECORDED", wide=110),
    Column("VALUE", shrink=True),
)


def _row(row: JournalRow) -> list[Cell]:
    cells: list[tuple[str, str]] = [
        (str(row.seq) if row.seq > 0 else "–", ""),
        (row.place, ""),
        (_what(row), _COLORS.get(row.kind, "")),
        ("" if row.tries is None else str(row.tries), ""),
        ("" if row.took_ms is None else show_ms(row.took_ms), ""),
        (row.at.strftime("%Y-%m-%d %H:%M:%SZ"), ""),
        (_told(row), COLORS["failed"] if row.error else ""),
    ]
    if row.counts:
        return list(cells)
    return [(text, "dim") for text, _ in cells]


def _what(row: JournalRow) -> str:
    what = row.status or row.kind if row.kind == "ended" else row.kind
    return what if row.counts else f"({what})"


def _told(row: JournalRow) -> str:
    if row.error:
        return first_line(row.error)[:_MOST_SHOWN]
    if row.due_at is not None:
        return f"due {at(row.due_at)}"
    parts = [row.signal if row.signal is not None and f"receive:{row.signal}" != row.place.partition("#")[0] else None]
    parts.append(None if row.value is None else _compact(row.value))
    parts.append(row.job_id if row.value is None else None)
    return " ".join(part for part in parts if part)


def _compact(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
