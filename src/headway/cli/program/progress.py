"""A progress bar on a terminal; elsewhere a line on stderr for each stage."""

from __future__ import annotations

import sys
from typing import Any

from headway.cli.program.output import console, note


class Bar:
    """Shows how far something long is; `quiet`: not at all."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._task: Any = None
        self._stage = ""

    def __enter__(self) -> Bar:
        if not self._quiet and sys.stderr.isatty():
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=console(stderr=True), transient=True)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, stage: str, done: int = 0, total: int = 0) -> None:
        """Where it is: a stage, and how much of it is done; without a total, only the stage."""
        if self._quiet:
            return
        if self._bar is None:
            if stage != self._stage:
                note(stage)
        else:
            if stage != self._stage or self._task is None:
                if self._task is not None:
                    self._bar.remove_task(self._task)
                self._task = self._bar.add_task(stage, total=None)
            self._bar.update(self._task, completed=done, total=total or None)
        self._stage = stage
