"""Writes the progress and log lines of running jobs, and learns from the answer which were canceled."""

from __future__ import annotations

from collections.abc import Callable

from headway.worker.database import Database
from headway.worker.loop import Loop
from headway.worker.run import Runner

EVERY_S = 1.0


class Reporter:
    """Reports once a second, while a job has run for a second or has something to report."""

    def __init__(self, database: Database, runner: Runner, *, worker_id: Callable[[], str]) -> None:
        self._database = database
        self._runner = runner
        self._worker_id = worker_id
        self.loop = Loop("reporting", self._report, lambda: EVERY_S, first_s=EVERY_S)

    async def _report(self) -> None:
        reports = self._runner.reports()
        if reports or self._runner.oldest_s() >= EVERY_S:
            canceled = await self._database.run(self._database.ops.report(self._worker_id(), reports))
            self._runner.cancel(canceled)
