"""What the flows of one worker share: its recorder, reads of journals, news, the store's time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from headway.clock import to_micros
from headway.define.flow_kind import ClaimedFlow, FlowContext
from headway.model.journal import Row
from headway.store.ops import Op
from headway.worker.database import Database
from headway.worker.loop import Loop
from headway.worker.recorder import Recorder
from headway.worker.spill import SpilledValues
from headway.worker.threads import Threads

if TYPE_CHECKING:
    from headway.telemetry.tracing import Tracing
    from headway.worker.flow_execution import FlowExecution

NEWS_S = 0.25
"""How often a worker asks what came for flows while they run: one question for all of them."""
_NOBODY_S = 3600.0


class FlowDesk:
    """Runs the claims of flows, each as a `FlowExecution`."""

    def __init__(
        self,
        database: Database,
        threads: Threads,
        spilled: SpilledValues,
        ask: Callable[[Op[Any]], Awaitable[Any]],
        *,
        worker_id: Callable[[], str],
        result_limit: int,
        payload_limit: int,
        tracing: Tracing | None = None,
    ) -> None:
        self.database = database
        self.ops = database.ops
        self.threads = threads
        self.spilled = spilled
        self.ask = ask  # runs an op, and waits while the database is away: that is not the flow's fault
        self.worker_id = worker_id
        self.result_limit = result_limit
        self.payload_limit = payload_limit
        self.tracing = tracing
        self.recorder = Recorder(database, worker_id=worker_id)
        self._running: dict[str, FlowExecution] = {}
        self._reads: list[tuple[str, asyncio.Future[list[Row]]]] = []
        self._reading: asyncio.Task[None] | None = None
        self._ahead_s = 0.0  # how far the store's clock is ahead of this host's
        self._news = Loop("asking for news of flows", self._ask, lambda: NEWS_S)

    @property
    def loops(self) -> tuple[Loop, Loop]:
        return self.recorder.loop, self._news

    async def run(self, claimed: ClaimedFlow, ctx: FlowContext) -> Any:
        """Run it until it parks or ends; gives how."""
        from headway.worker.flow_execution import FlowExecution

        execution = FlowExecution(self, claimed, ctx)
        self._running[ctx.job_id] = execution
        self._news.poke(NEWS_S)
        try:
            return await execution.run()
        finally:
            if self._running.get(ctx.job_id) is execution:
                del self._running[ctx.job_id]

    # the store's time

    def now(self) -> float:
        return time.time() + self._ahead_s

    def noted(self, at: int) -> None:
        """The store has said what time it is, in microseconds."""
        if at:
            self._ahead_s = at / 1_000_000 - time.time()

    # journals: of all flows that were claimed together, by one query

    async def journal(self, job_id: str) -> list[Row]:
        future: asyncio.Future[list[Row]] = asyncio.get_running_loop().create_future()
        self._reads.append((job_id, future))
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        return await future

    async def _read(self) -> None:
        try:
            while self._reads:
                reads, self._reads = self._reads, []
                try:
                    rows = await self._rows([job_id for job_id, _ in reads])
                except Exception as error:
                    for _, future in reads:
                        if not future.done():
                            future.set_exception(error)
                else:
                    for job_id, future in reads:
                        if not future.done():
                            future.set_result(rows.get(job_id, []))
        finally:
            self._reading = None

    async def _rows(self, ids: Sequence[str]) -> dict[str, list[Row]]:
        ids = sorted(set(ids))
        found: dict[str, list[Row]] = {}
        after: dict[str, int] | None = None
        while True:
            journals = await self.ask(self.ops.journal(ids, after=after))
            self.noted(to_micros(journals.now))  # what is due is judged by the store's time
            for row in journals.rows:
                found.setdefault(row.job_id, []).append(row)
            if not journals.more:
                return found
            last = journals.rows[-1]
            ids = ids[ids.index(last.job_id) :]
            after = {last.job_id: last.seq}

    async def _ask(self) -> float:
        if not self._running:
            return _NOBODY_S
        news = await self.database.run(self.ops.flow_news(self.worker_id(), list(self._running)))
        for job_id, found in news.items():
            execution = self._running.get(job_id)
            if execution is not None:
                execution.take_news(found)
        return NEWS_S
