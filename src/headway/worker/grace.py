"""Grace: how long a worker that was told to stop waits for its jobs and for the database."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from headway.logs import get_logger
from headway.model.duration import show_ms
from headway.worker.execution import Execution

log = get_logger("headway.worker")

LAST_WRITES_S = 2.0
"""How long a worker whose jobs used up the grace period, or that was told to end at once, tries to write its last
outcomes and to sign off."""


class Grace:
    """The first `stop` begins the grace period, the second ends it."""

    def __init__(self, grace_ms: int) -> None:
        self._grace_ms = grace_ms
        self._stopped_at = 0.0
        self.stopping = asyncio.Event()
        self.at_once = asyncio.Event()

    def stop(self) -> None:
        if self.stopping.is_set():
            self.at_once.set()
        else:
            self._stopped_at = time.monotonic()
        self.stopping.set()

    async def let_finish(self, runs: Sequence[Execution]) -> None:
        """Wait for the running jobs: for the grace period, or until told to end at once."""
        running = [run.task for run in runs if run.task is not None]
        if not running:
            return
        if self._grace_ms and not self.at_once.is_set():
            log.info(
                "stopping: waits for running jobs; a second Ctrl-C or SIGTERM gives them back and ends at once",
                jobs=kinds_of(runs),
                at_most=show_ms(self._grace_ms),
            )
        over = asyncio.create_task(self.at_once.wait())
        everyone = asyncio.create_task(asyncio.wait(running))
        await asyncio.wait((over, everyone), timeout=self._grace_ms / 1_000, return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        everyone.cancel()

    def end_at(self) -> float:
        """When the worker ends, whether or not the database answers: at the end of its grace period; if its jobs used
        that up, a moment after them."""
        soonest = time.monotonic() + LAST_WRITES_S
        return soonest if self.at_once.is_set() else max(soonest, self._stopped_at + self._grace_ms / 1_000)

    async def wait_until(self, end_at: float, *tasks: asyncio.Task[None]) -> None:
        """Wait for these; cancel what is left then, or soon after the worker was told to end at once."""
        all_done = asyncio.create_task(asyncio.wait(tasks))
        over = asyncio.create_task(self.at_once.wait())
        await asyncio.wait((all_done, over), timeout=seconds_to(end_at), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((all_done,), timeout=min(LAST_WRITES_S, seconds_to(end_at)))
        for task in (all_done, over, *tasks):
            task.cancel()


def seconds_to(end_at: float) -> float:
    return max(end_at - time.monotonic(), 0.0)


def kinds_of(runs: Sequence[Execution]) -> str:
    """How many of which kinds, for the log."""
    counts = Counter(run.claim.kind for run in runs)
    return ", ".join(kind if count == 1 else f"{count} × {kind}" for kind, count in counts.most_common(10))
