"""A worker for one job: it claims that job by its id and ends once the outcome is written. `run_now` uses it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from headway.errors import LeaseLost
from headway.worker.fetch import Fetcher
from headway.worker.loop import Loop
from headway.worker.worker import Worker

_POLL_S = 1.0  # the end of the job brings the next round forward


class SingleJobWorker(Worker):
    """Lease, heartbeat, timeout and outcome are any worker's; the rest of the queue is left to others.

    It needs a slot in the job's queue. `taken` says, after the run, whether it got the job.
    """

    _takes_hints = False  # it claims no other job

    def __init__(self, *args: Any, job_id: str, reservation_id: str | None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._job_id = job_id
        self._reservation_id = reservation_id

    @property
    def taken(self) -> bool:
        fetcher = getattr(self, "_fetcher", None)  # there is none before it started
        return isinstance(fetcher, SingleJobFetcher) and fetcher.taken

    def _new_fetcher(self, *parts: Any, **options: Any) -> Fetcher:
        return SingleJobFetcher(*parts, job_id=self._job_id, reservation_id=self._reservation_id, **options)

    def _fleet_loops(self) -> Sequence[Loop]:
        return ()  # it is too short-lived to work for the fleet

    async def _prepare(self) -> None:
        """Declare nothing: its caller waits for the job alone."""

    async def _tidy_up(self) -> None:
        """Prune nothing, for the same reason."""


class SingleJobFetcher(Fetcher):
    """Claims the one job, once, and is idle when its outcome is written."""

    def __init__(self, *parts: Any, job_id: str, reservation_id: str | None, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._job_id = job_id
        self._reservation_id = reservation_id
        self._answered = False
        self.taken = False

    async def _round(self) -> float:
        await self.returned.return_mismatched()
        await self.returned.check()
        if not self._answered and not self._closed:
            await self._take()
        if self._answered and self._has_no_jobs() and not self._closed and self._on_idle is not None:
            self._closed = True
            self._on_idle()
        self._waits_for_slots = True
        return _POLL_S if self._answered else 0.0

    def reserve_claim(self, queues: Iterable[str]) -> None:
        """A settle claims nothing either."""

    async def _take(self) -> None:
        worker_id = self._lease.worker_id
        op = self._ops.take(worker_id, self._job_id, reservation_id=self._reservation_id)
        try:
            claim = await self._database.run(op)
            self._answered = True
            if claim is not None:
                self.taken = True
                await self._start([claim], worker_id, time.monotonic())
        except LeaseLost:
            await self._lease.renew(worker_id, "the database does not know this worker any more")
        except BaseException:
            self.returned.uncertain()
            raise
