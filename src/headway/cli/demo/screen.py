"""Shows the demo: live bars on a terminal, one line per second elsewhere, a table at the end."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from headway.cli.program.output import COLORS, Column, console, say, table, tell

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headway.model.job import Job
    from headway.model.status import Status

_FINISHED: tuple[Status, ...] = ("succeeded", "dead", "canceled")
_BAR = 36


class Screen:
    """Draws the rows as they are read, and knows nothing else."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.live import Live

        self._console = console()
        self._quiet = quiet
        self._began = time.monotonic()
        self._line_at = 0.0
        self._live: Live | None = None
        if self._console.is_terminal and not quiet:
            self._live = Live(console=self._console, refresh_per_second=10)

    def __enter__(self) -> Screen:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def tell(self, what: str) -> None:
        """Print an event, which stays on the screen."""
        if not self._quiet:
            self._console.print(f"{self._clock()}  {what}")

    def show(self, jobs: list[Job]) -> None:
        """Show the current counts."""
        if self._live:
            self._live.update(self._picture(jobs))
        elif not self._quiet and time.monotonic() - self._line_at >= 1:
            self._line_at = time.monotonic()
            self._console.print(f"{self._clock()}  {_line(jobs)}")

    def summarize(self, summary: dict[str, Any]) -> None:
        """Print the final table and what it shows."""
        say("")
        total = {"kind": "all", **summary["total"]}
        names = ("kind", "jobs", *_FINISHED, "executions", "failures", "losses")
        table(
            [Column(name.upper(), right=name != "kind") for name in names],
            [[str(row[name]) for name in names] for row in [*summary["kinds"], total]],
        )
        counts = summary["total"]
        tell(
            f"\n{counts['jobs']} jobs ended in {summary['seconds']} s; none was lost. Of {counts['executions']} "
            f"executions {counts['failures']} failed and {counts['losses']} were lost with the killed worker: they ran "
            f"again, but for {counts['dead']} that had used up its attempts and {counts['canceled']} that was canceled."
        )

    def _clock(self) -> str:
        return f"{time.monotonic() - self._began:5.1f}s"

    def _picture(self, jobs: list[Job]) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        for kind in sorted({job.kind for job in jobs}):
            counts = Counter(job.status for job in jobs if job.kind == kind)
            total = counts.total()
            ended = sum(counts[status] for status in _FINISHED)
            states = Text("  ").join(
                Text(f"{count} {status}", COLORS[status]) for status, count in sorted(counts.items()) if count
            )
            bar = ProgressBar(total=total, completed=ended, width=_BAR)
            grid.add_row(Text(kind, "bold"), bar, Text(f"{ended}/{total}"), states)
        return grid


def _line(jobs: list[Job]) -> str:
    counts = Counter(job.status for job in jobs)
    ended = sum(counts[status] for status in _FINISHED)
    states = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    return f"{ended}/{len(jobs)} done: {states}"
