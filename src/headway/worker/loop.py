"""The one periodic loop: everything that a worker does again and again is one of these."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable

from headway.errors import HeadwayError, StoreBusy, StoreUnavailable
from headway.logs import Seldom, get_logger
from headway.worker.intervals import backoff, jittered

log = get_logger("headway.worker")

_START_AGAIN_S = 0.1

Work = Callable[[], Awaitable[float | None]]


class Loop:
    """Calls `work` every so often until stopped. An error is logged and followed by a growing pause; if even the loop's
    own task ends, it is started again.

    `work` may return the seconds until its next round; None means the usual `every`, jittered. `poke` brings the next
    round forward, but does not cut short the pause after an error.
    """

    def __init__(
        self,
        name: str,
        work: Work,
        every: Callable[[], float],
        *,
        first_s: float = 0.0,
        longest_pause_s: float = 5.0,
    ) -> None:
        self.name = name
        self._work = work
        self._every = every
        self._first_s = first_s
        self._longest_pause_s = longest_pause_s
        self._wanted_at = math.inf
        self._woken = asyncio.Event()
        self.late_s = 0.0  # how late its last round began: the event loop, or the machine, was busy
        self._stopped = False
        self._says = Seldom(30)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if not self._stopped:
            self._task = asyncio.create_task(self._run(), name=f"headway {self.name}")
            self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Start it again: a worker without one of its loops would look alive and do half of its work."""
        error = None if task.cancelled() else task.exception()
        if self._stopped:
            return
        if not task.cancelling():  # if it is, the event loop may be about to end
            log.error(f"{self.name} ended by itself and is started again", exc_info=error)
        task.get_loop().call_later(_START_AGAIN_S, self.start)

    def poke(self, within_s: float = 0.0) -> None:
        """Start the next round within this time; from the event loop's thread only."""
        at = asyncio.get_running_loop().time() + within_s if within_s else 0.0
        if at < self._wanted_at:
            self._wanted_at = at
            self._woken.set()

    async def stop(self, timeout_s: float = 5.0) -> None:
        """Give the current round this long to end, then cancel it."""
        self._stopped = True
        self._woken.set()
        if self._task is not None:
            try:
                await asyncio.wait([self._task], timeout=timeout_s)
            finally:
                self._task.cancel()

    async def _run(self) -> None:
        failures = 0
        await self._sleep(self._first_s)
        while not self._stopped:
            self._wanted_at = math.inf
            try:
                seconds = await self._work()
                failures = 0
                await self._sleep(jittered(self._every(), random.random()) if seconds is None else seconds)
            except Exception as error:
                failures += 1
                self._log(error)
                await self._sleep(
                    backoff(failures, cap_s=self._longest_pause_s, jitter=random.random()), ignore_pokes=True
                )

    def _log(self, error: Exception) -> None:
        # an unreachable database is reported once for all loops (database.py)
        away = isinstance(error, StoreUnavailable) and not isinstance(error, StoreBusy)
        if away or not self._says():
            return
        if isinstance(error, HeadwayError):
            log.warning(f"{self.name} failed and will be tried again", error=str(error))
        else:
            log.error(f"{self.name} failed and will be tried again", exc_info=error)

    async def _sleep(self, seconds: float, *, ignore_pokes: bool = False) -> None:
        now = asyncio.get_running_loop().time
        until = now() + seconds
        while not self._stopped:
            left = (until if ignore_pokes else min(until, self._wanted_at)) - now()
            if left <= 0:
                self.late_s = max(0.0, now() - until)
                return
            self._woken.clear()
            try:
                async with asyncio.timeout(None if left == math.inf else left):
                    await self._woken.wait()
            except TimeoutError:
                self.late_s = max(0.0, now() - until)
                return
