"""Worker: the life of one process that claims and runs, from registering to its orderly end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headway.artifacts import Places
from headway.config import Settings
from headway.define.definitions import Definitions
from headway.define.flow_kind import FlowKind
from headway.define.machine import MachineKind
from headway.define.registry import AnyKind, Registry
from headway.errors import HeadwayError
from headway.logs import get_logger
from headway.model.fleet import NewWorker
from headway.model.lease import call_timeout_ms
from headway.model.served import Ordering, Queues, served
from headway.model.trigger import Declaration
from headway.secrets import Vault
from headway.store.run import Store
from headway.worker import host
from headway.worker.abandoned_threads import AbandonedThreads
from headway.worker.batches import tell_of_few_slots
from headway.worker.database import Database
from headway.worker.execution import Execution
from headway.worker.fetch import Fetcher
from headway.worker.grace import LAST_WRITES_S, Grace, kinds_of, seconds_to
from headway.worker.hooks import Event, Hooks
from headway.worker.lease import Lease
from headway.worker.lifespan import Lifespan, shut_down, start_up
from headway.worker.loop import Loop
from headway.worker.maintenance import Maintenance
from headway.worker.report import Reporter
from headway.worker.run import Middleware, Runner
from headway.worker.served_queues import ServedQueues
from headway.worker.settle import Settler
from headway.worker.summary import Summary
from headway.worker.trigger_runner import TriggerRunner
from headway.worker.wake import EVENTS, HintListener, News, Wake, folder_of
from headway.worker.watchdog import Watchdog

if TYPE_CHECKING:
    from headway.telemetry.tracing import Tracing
    from headway.worker.metrics import WorkerMetrics

log = get_logger("headway.worker")

_SIGN_OFF_S = 0.5  # of the time for the last writes, kept for signing off
_ANSWER_S = 10.0
"""How long a stopping worker waits, at most, for one answer of the database that it could do without."""


class Worker:
    """Claims jobs of some queues and runs them, until stopped or idle. One `run` per object.

    `queues` gives the slots of each queue; `concurrency` bounds them together (default: their sum). `order` says which
    queue comes first. Startup functions run before the first claim, shutdown functions after the last job; both may be
    async.
    """

    def __init__(
        self,
        store: Store,
        kinds: Mapping[str, AnyKind],
        *,
        settings: Settings | None = None,
        queues: Queues | None = None,
        concurrency: int | None = None,
        order: Ordering = "turns",
        hooks: Hooks | None = None,
        middleware: Sequence[Middleware] = (),
        startup: Sequence[Lifespan] = (),
        shutdown: Sequence[Lifespan] = (),
        wake: Wake | None = None,
        emitted: Wake | None = None,
        definitions: Definitions | None = None,
        declare: Callable[[datetime], Declaration] | None = None,
        vault: Vault | None = None,
        places: Places | None = None,
        tracing: Tracing | None = None,
        metrics: WorkerMetrics | None = None,
        version: str = "",
    ) -> None:
        self.store = store.with_own_connections()
        self._handlers_store = store
        self._kinds = kinds
        self._settings = settings or Settings()
        queues = "default" if queues is None else queues
        if concurrency is None and not isinstance(queues, Mapping):
            concurrency = self._settings.concurrency
        self._served = ServedQueues(served(queues, total=concurrency, order=order), self._queues_changed)
        self._hooks = hooks or Hooks()
        self._middleware = middleware
        self._startup = startup
        self._shutdown = shutdown
        self._wake = wake or Wake()
        self._emitted = emitted or Wake()
        self._definitions = definitions or Definitions(Registry())
        self._declare = declare or (lambda _: Declaration())
        self._vault = vault or Vault()
        self._places = places
        self._tracing = tracing
        self._metrics = metrics
        self._version = version
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self.started = asyncio.Event()  # set when it claims
        self._grace = Grace(self._settings.grace_ms)
        self._is_idle = False
        self._listener: HintListener | None = None
        self.summary = Summary()

    _takes_hints = True

    @property
    def worker_id(self) -> str:
        """The id it is registered under; new at every start, and after a lost lease."""
        return self._lease.worker_id

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop, or ends because it is idle."""
        return self._grace.stopping.is_set()

    async def run(self, *, until_idle: bool = False) -> Summary:
        """Work until `stop`, or with `until_idle` until nothing is due; later jobs are not waited for.

        Raises what the store raises if it cannot be reached at the start.
        """
        self._event_loop = asyncio.get_running_loop()
        for each in self._startup:
            await start_up(each)
        try:
            await self._work(until_idle)
        finally:
            for each in self._shutdown:
                await shut_down(each)
            await self.store.leave_loop()
        return self.summary

    async def leave_loop(self) -> None:
        """Close what handlers opened on this event loop, which is about to end."""
        await self._handlers_store.leave_loop()

    def stop(self) -> None:
        """Claim no more, let jobs finish for the grace period, end; a second call ends at once. From any thread."""
        if self._event_loop in (None, _running_loop()):
            self._grace.stop()
        else:
            self._event_loop.call_soon_threadsafe(self._grace.stop)

    async def _work(self, until_idle: bool) -> None:
        self._assemble(until_idle)
        # first of all: an event that is emitted while it gets ready must not wait for the next round
        self._emitted.add(self._on_emitted)
        ready = False
        try:
            ready = await self._ready_unless_stopped()
        finally:
            if not ready:
                self._emitted.remove(self._on_emitted)
                if self.worker_id:  # others would count its row until the lease is over
                    await self._sign_off(LAST_WRITES_S, [])
        if not ready:
            return log.info("worker stopped before it began", worker_id=self.worker_id)
        self._start()
        try:
            await self._grace.stopping.wait()
            if self._is_idle:
                await self._tidy_up()
        except asyncio.CancelledError:
            # the caller of run() gave up on it
            self._grace.at_once.set()
            raise
        finally:
            await self._wind_down()

    async def _ready_unless_stopped(self) -> bool:
        """Register and prepare; False if it was told to stop first, for instance while the database does not answer."""
        ready = asyncio.create_task(self._get_ready())
        stopping = asyncio.create_task(self._grace.stopping.wait())
        try:
            await asyncio.wait((ready, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not ready.done():
                ready.cancel()
                await asyncio.wait((ready,), timeout=LAST_WRITES_S)
        if ready.done() and not ready.cancelled():
            ready.result()
            return True
        return False

    async def _get_ready(self) -> None:
        await self._lease.begin()
        await self._prepare()

    def _assemble(self, until_idle: bool) -> None:
        """Make the parts and connect them. Settler, runner and fetcher call each other in a circle: each callback has
        the name of the method it leads to."""
        slots = self._served.slots
        timeout_ms = call_timeout_ms(
            lease_ms=self._settings.lease_ms, database_timeout_ms=self._settings.database_timeout_ms
        )
        self._database = database = Database(self.store, timeout_s=timeout_ms / 1_000)
        self._settler = Settler(
            database,
            self._hooks,
            self.summary,
            worker_id=lambda: self._lease.worker_id,
            batch_settled=lambda: self._fetcher.batch_settled(),
            set_free=lambda queues: self._fetcher.set_free(queues),
            reserve_claim=lambda queues: self._fetcher.reserve_claim(queues),
            claimed_by_settle=lambda *claimed: self._fetcher.claimed_by_settle(*claimed),
            due_in=lambda delay_ms: self._maintenance.due_in(delay_ms),
            queues=lambda: self._served.queues,
            start_next_step=lambda *turned: self._runner.start_next_step(*turned),
            drop_next_step=lambda claim: self._runner.drop_next_step(claim),
            metrics=self._metrics,
        )
        self._runner = Runner(
            database,
            slots,
            self._settler,
            self._hooks,
            middleware=self._middleware,
            result_limit=self._settings.result_limit,
            spill_limit=self._settings.spill_limit,
            state_limit=self._settings.payload_limit,
            vault=self._vault,
            places=self._places,
            tracing=self._tracing,
            worker_id=lambda: self._lease.worker_id,
            slot_freed=lambda: self._fetcher.slot_freed(),
            mismatched=lambda claim, why: self._fetcher.returned.mismatched(claim, why),
            out_of_reach=lambda claim, why: self._fetcher.returned.out_of_reach(claim, why),
        )
        self._lease = Lease(
            database, self._served, self._settings, self._describe, on_cancel=self._runner.cancel, on_lost=self._lose
        )
        self._maintenance = Maintenance(
            database,
            self._lease,
            self._hooks,
            self._settings,
            places=self._places,
            on_promoted=lambda: self._fetcher.wake_all(),
        )
        self._trigger_runner = TriggerRunner(
            database,
            self._lease,
            self._settings,
            self._definitions,
            kinds=lambda: list(self._kinds),
            declare=self._declare,
            on_fired=lambda: self._fetcher.wake_all(),
        )
        self._fetcher = self._new_fetcher(
            database,
            self._lease,
            self._served,
            self._settler,
            self._runner,
            self._kinds,
            self._settings,
            promote=self._fire_and_promote,
            on_idle=self._end_idle if until_idle else None,
            metrics=self._metrics,
        )
        self._reporter = Reporter(database, self._runner, worker_id=lambda: self._lease.worker_id)
        self._watchdog = Watchdog(job_of=self._fields_of, metrics=self._metrics)
        if self._metrics is not None:
            self._metrics.watch(slots, self._settler, self._lease, self._fleet_loops())

    def _new_fetcher(self, *parts: Any, **options: Any) -> Fetcher:
        return Fetcher(*parts, **options)

    def _fleet_loops(self) -> Sequence[Loop]:
        """The loops that any worker runs for the whole fleet."""
        return (*self._maintenance.loops, self._trigger_runner.loop)

    def _end_idle(self) -> None:
        self._is_idle = True
        if not self._grace.stopping.is_set():
            self._grace.stop()

    async def _tidy_up(self) -> None:
        """What a worker that ends because it is idle still does for the fleet."""
        await self._maintenance.prune_before_end()

    async def _prepare(self) -> None:
        """Write what the code declares, and reap workers of this machine that are gone."""
        await self._trigger_runner.begin()
        await asyncio.gather(self._maintenance.reap_local(), self._settler.warm_up())

    async def _fire_and_promote(self) -> int:
        """Queue what is due, before the worker counts as idle."""
        return await self._trigger_runner.fire() + await self._maintenance.promote()

    def _on_hint(self, queue: str) -> bool:
        return self._on_emitted(queue) if queue == EVENTS else self._fetcher.wake(queue)

    def _on_emitted(self, _: str | None, __: frozenset[News] = frozenset()) -> bool:
        """An event was emitted, by any thread of this process or by another one."""
        assert self._event_loop is not None
        self._event_loop.call_soon_threadsafe(self._trigger_runner.poke)
        return True

    def _describe(self, worker_id: str) -> NewWorker:
        return host.new_worker(
            worker_id,
            self._settings,
            version=self._version,
            queues=self._served.caps,
            kinds=tuple(sorted(self._kinds_and_versions())),
            concurrency=self._served.slots.total,
        )

    def _kinds_and_versions(self) -> Iterator[str]:
        """What this worker can run: each kind, and each version of a machine."""
        for name, kind in self._kinds.items():
            yield name
            if isinstance(kind, MachineKind):
                yield from (f"{name}@{version}" for version in kind.editions)
            elif isinstance(kind, FlowKind):
                yield from (f"{name}@{version}" for each in kind.editions for version in (each.since, each.version))

    def _start(self) -> None:
        loops = (self._settler.loop, self._lease.loop, self._fetcher.loop, self._reporter.loop)
        for loop in (*loops, *self._runner.flows.loops, *self._fleet_loops()):
            loop.start()
        self._watchdog.start()
        self._wake.add(self._fetcher.wake)
        if self._takes_hints and self._settings.hints and (folder := folder_of(self.store.install_id)) is not None:
            self._listener = HintListener(folder, [*self._served.caps, EVENTS], self._on_hint)
            self._listener.open()
        log.info(
            "worker started",
            worker_id=self.worker_id,
            queues=", ".join(f"{queue}={slots}" for queue, slots in self._served.caps.items())
            or str(self._served.served),
            concurrency=self._served.slots.total,
            kinds=", ".join(sorted(self._kinds)),
            database=self.store.describe(),
            pid=os.getpid(),
        )
        tell_of_few_slots(self._kinds, self._served.slots)
        self.started.set()
        self._tell("worker.started")

    def _fields_of(self, task: asyncio.Task[Any] | None) -> Mapping[str, object]:
        """The log's fields for the job that a task runs, if it runs one."""
        for run in list(self._runner.running.values()):
            if task is not None and run.task is task:
                return run.log_fields()
            if task is not None and run.batch is not None and run.batch.task is task:
                return run.batch.log_fields()
        return {}

    def _queues_changed(self) -> None:
        """A queue is new to a pattern, or an operator changed what is served."""
        self._fetcher.serve()
        if self._listener is not None:
            self._listener.serve([*self._served.caps, EVENTS])

    def _lose(self) -> int:
        running = self._runner.drop()
        self.summary.count("lost", running)
        return running + self._settler.drop()

    async def _wind_down(self) -> None:
        """End in good order: every claim gets an outcome, and every outcome is written."""
        self._wake.remove(self._fetcher.wake)
        if self._listener is not None:
            self._listener.close()
        self._emitted.remove(self._on_emitted)
        self._runner.close()
        # side by side: a database that hangs takes no time from the jobs, nor the jobs from it
        claiming = asyncio.create_task(self._stop_claiming())
        left = await self._end_jobs()
        end_at = self._grace.end_at()
        await self._grace.wait_until(end_at - _SIGN_OFF_S, claiming, asyncio.create_task(self._settler.drain()))
        if self._settler.backlog:
            log.error(
                "the last outcomes could not be written: their jobs will be reaped and run again",
                jobs=self._settler.backlog,
            )
        loops = (self._settler.loop, self._lease.loop, self._reporter.loop, *self._runner.flows.loops)
        await _stop_all(*loops, timeout_s=min(1.0, seconds_to(end_at)))
        await self._sign_off(min(max(seconds_to(end_at), _SIGN_OFF_S), _ANSWER_S), left)
        self._watchdog.stop()
        self._runner.threads.close()
        self._tell("worker.stopped")
        await self._hooks.finish(max(seconds_to(end_at), LAST_WRITES_S))
        log.info("worker stopped", worker_id=self.worker_id, did=str(self.summary))

    async def _stop_claiming(self) -> None:
        """Give back what a claim on its way brings. One that takes too long is canceled; signing off gives back what it
        brought anyway."""
        await asyncio.gather(self._fetcher.close(_ANSWER_S), _stop_all(*self._fleet_loops(), timeout_s=1.0))

    async def _end_jobs(self) -> list[Execution]:
        """Let the jobs finish, interrupt and give back the rest; gives those that still run in threads."""
        await self._grace.let_finish(list(self._runner.running.values()))
        interrupted = self._runner.interrupt()
        if interrupted:
            await asyncio.wait(interrupted, timeout=0.1 if self._grace.at_once.is_set() else self._runner.patience_s())
        return self._runner.abandon()

    async def _sign_off(self, limit_s: float, left: Sequence[Execution]) -> None:
        if left:
            self._hand_over_threads(left)
        try:
            async with asyncio.timeout(limit_s):
                await self._fetcher.returned.reconcile(kept=[(run.claim.id, run.claim.fence) for run in left])
                await (self._lease.retire() if left else self._lease.end())
        except (HeadwayError, TimeoutError) as error:
            reason = str(error) or "the database gave no answer"
            log.warning("could not sign off: the lease will run out by itself", error=reason)

    def _hand_over_threads(self, left: Sequence[Execution]) -> None:
        """Some plain functions did not return: their jobs stay running until they do or this process ends."""
        log.warning(
            "plain functions are still running, and a thread cannot be killed: their jobs are given back when they "
            "return. If this process ends first, another worker of this machine frees them within seconds; where there "
            "is none, the end of the lease does",
            jobs=kinds_of(left),
            worker_id=self.worker_id,
        )
        heartbeat_s = self._settings.heartbeat_ms / 1_000
        AbandonedThreads(self._handlers_store, self.worker_id, left, heartbeat_s=heartbeat_s).start()

    def _tell(self, name: str) -> None:
        if self._hooks.listens(name):
            self._hooks.emit(Event(name, self.worker_id))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _stop_all(*loops: Loop, timeout_s: float) -> None:
    await asyncio.gather(*(loop.stop(timeout_s) for loop in loops))
