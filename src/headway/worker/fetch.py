"""Finds work: claims for free slots, at once where there is known to be work, else by polling."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from headway.config import Settings
from headway.define.flow_kind import FlowKind
from headway.define.machine import MachineKind
from headway.define.registry import AnyKind
from headway.errors import HeadwayError, LeaseLost
from headway.model import job as model
from headway.model.fleet import Queue
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Claim
from headway.model.served import Entry
from headway.worker.batch_size import max_claim, worth_a_claim
from headway.worker.database import Database
from headway.worker.execution import Handler
from headway.worker.intervals import poll_interval
from headway.worker.lease import Lease
from headway.worker.loop import Loop
from headway.worker.queue_order import Candidate, QueueOrder
from headway.worker.returned_claims import ReturnedClaims
from headway.worker.run import Runner
from headway.worker.served_queues import ServedQueues
from headway.worker.settle import Settler
from headway.worker.wake import News

if TYPE_CHECKING:
    from headway.worker.metrics import WorkerMetrics

_NO_SLOTS_S = 1.0  # nothing to poll for: the first free slot brings the next round forward
_MANY_QUEUES = 8  # when this many are due together, one statement asks which have work, instead of a claim for each
_MANY_QUEUES_REST = 3  # times as long as that statement took, until the next one
_FEW_SLOTS = 4  # with so few, a claim beside a settle gains nothing: the settle claims
_ARRIVALS = 1_000
_ROUNDS_WITHOUT_PROGRESS = 5


class PolledQueue:
    """What the fetcher knows of one queue."""

    __slots__ = ("full", "name", "poll_at", "woken", "worked_at")

    def __init__(self, name: str) -> None:
        self.name = name
        self.full = False  # the last claim got all it asked for, or was cut by its bytes: there is more
        self.woken = False  # somebody said that there is work
        self.poll_at = 0.0
        self.worked_at = time.monotonic()


class Fetcher:
    """Claims jobs and has them started. At most one claim is on its way at any time."""

    def __init__(
        self,
        database: Database,
        lease: Lease,
        served: ServedQueues,
        settler: Settler,
        runner: Runner,
        kinds: Mapping[str, AnyKind],
        settings: Settings,
        *,
        promote: Callable[[], Awaitable[int]],
        on_idle: Callable[[], None] | None,
        metrics: WorkerMetrics | None = None,
    ) -> None:
        self._database = database
        self._ops = database.ops
        self._lease = lease
        self._served = served
        self._slots = slots = served.slots
        self._settler = settler
        self._runner = runner
        self._kinds = kinds
        self._settings = settings
        self._promote = promote
        self._on_idle = on_idle
        self._metrics = metrics
        self._queues: dict[str, PolledQueue] = {}
        self.serve()
        self._backlog_limit = max(1_000, 2 * slots.total)
        self._waits_for_slots = False
        self._flushed = False
        self._closed = False
        self._remaining = 0
        self._rounds_without_progress = 0
        self._tenants = {DEFAULT_TENANT_ID: "default"}
        self._event_loop = asyncio.get_running_loop()
        self.loop = Loop("claiming", self._round, lambda: 0.0)
        self.returned = ReturnedClaims(
            database,
            lease,
            settings,
            kinds,
            known=lambda: runner.running.keys() | settler.unwritten(),
            on_returned=self._mark_all,
            on_mismatch=self.loop.poke,
        )

    def serve(self) -> None:
        """Claim from the queues that are served now."""
        served = self._served
        old = self._queues
        self._queues = {name: old.get(name) or PolledQueue(name) for name in served.queues}
        groups: dict[str, tuple[Entry, list[PolledQueue]]] = {
            entry.pattern: (entry, []) for entry in served.served.entries
        }
        for name, entry in served.queues.items():
            groups[entry.pattern][1].append(self._queues[name])
        self._order = QueueOrder(served.served.order, list(groups.values()))

    # what brings the next claim forward

    def wake(self, queue: str | None, _: frozenset[News] = frozenset()) -> bool:
        """There is work in this queue, or somewhere (None); from any thread. Gives whether a slot is free."""
        if queue is not None and queue not in self._queues and self._served.served.serves(queue):
            with suppress(RuntimeError):
                self._event_loop.call_soon_threadsafe(self._add, queue)
            return True
        if self._mark(queue):
            with suppress(RuntimeError):  # the event loop is closed: this worker has ended
                self._event_loop.call_soon_threadsafe(self.loop.poke)
        return queue in self._queues and self._slots.free(queue) > 0

    def _add(self, queue: str) -> None:
        """A pattern matches this queue, which is new."""
        self._served.add(queue)
        self._mark(queue)
        self.loop.poke()

    def wake_all(self) -> None:
        self._mark_all()
        self.loop.poke()

    def set_free(self, queues: Iterable[str]) -> None:
        """In these queues jobs ended that others waited for: cars of their train, jobs of their partition or limit."""
        news = [queue for queue in queues if self._mark(queue)]
        if news:
            self.loop.poke()

    def _mark(self, name: str | None) -> bool:
        """Remember that there is work; False where that was known, or the queue is none of this worker's."""
        queue = None if name is None else self._queues.get(name)
        queues = self._queues.values() if name is None else () if queue is None else (queue,)
        news = [queue for queue in queues if not queue.woken]
        for queue in news:
            queue.woken = True
        return bool(news)

    def _mark_all(self) -> None:
        self._mark(None)

    def slot_freed(self) -> None:
        """In a busy worker the next claim waits until enough slots are free."""
        if not self._waits_for_slots:
            return
        if any(self._is_ready(queue) for queue in self._queues.values()):
            self._waits_for_slots = False
            self.loop.poke()
        else:
            self.loop.poke(self._settings.pace_ms / 1_000)

    def batch_settled(self) -> None:
        self._flushed = True
        if self._waits_for_slots or self._on_idle is not None:
            self.loop.poke()

    async def close(self, timeout_s: float) -> None:
        """Claim no more; what a claim on its way brings is given back."""
        self._closed = True
        await self.loop.stop(timeout_s)

    # one round

    async def _round(self) -> float:
        """Claim for every queue that is ready, in turn; gives the seconds until the next poll."""
        await self.returned.return_mismatched()
        if not self._slots.asked:  # while a settle claims, the store has claims that are not known here yet
            await self.returned.check()
        while not self._closed:
            await self._probe_many()  # each time: after many claims the first queues are due again
            queue = self._next()
            if queue is None:
                break
            await self._claim(queue)
        self._flushed = False
        if self._on_idle is not None and not self._closed:
            await self._end_if_idle(self._on_idle)
        return self._rest_s()

    async def _end_if_idle(self, on_idle: Callable[[], None]) -> None:
        if self._has_no_jobs():
            if await self._finds_nothing():
                self._closed = True
                on_idle()
        elif self._only_waits_for_batches() and not await self._claim_any():
            self._runner.batches.start_all()

    async def _probe_many(self) -> None:
        """Where many queues are due for a poll, or will be soon, ask once which of them have work."""
        now = time.monotonic()
        if len(self._queues) < _MANY_QUEUES or self._slots.asked or self._is_behind:
            return
        soon = now + self._settings.idle_pace_ms / 2_000
        due = [
            queue
            for queue in self._queues.values()
            if queue.poll_at <= soon and not queue.woken and not queue.full and self._slots.free(queue.name) > 0
        ]
        if len(due) < _MANY_QUEUES or min(queue.poll_at for queue in due) > now:
            return
        found: list[str] = await self._database.run(self._ops.claimable([queue.name for queue in due]))
        work, began, now = set(found), now, time.monotonic()
        jitter = random.random()  # one for all, so that they stay due together
        for queue in due:
            queue.woken = queue.woken or queue.name in work
            # the longer it takes, the less often it is done
            queue.poll_at = now + max(self._interval(queue, now, jitter), _MANY_QUEUES_REST * (now - began))

    def _rest_s(self) -> float:
        """How long until the next poll, if nothing brings the next round forward."""
        if self._is_behind:
            self._waits_for_slots = True
            return _NO_SLOTS_S
        queues, free = self._queues.values(), self._slots.free
        self._waits_for_slots = any(queue.full or free(queue.name) <= 0 for queue in queues)
        polls = [queue.poll_at for queue in queues if free(queue.name) > 0]
        return max(min(polls) - time.monotonic(), 0.001) if polls else _NO_SLOTS_S

    @property
    def _is_behind(self) -> bool:
        """Whether more outcomes wait to be written than this worker should keep in memory."""
        return self._settler.backlog >= self._backlog_limit or self._settler.is_full

    def _next(self) -> PolledQueue | None:
        """The queue to claim from now: by default each in turn, so that none waits for the others' backlogs."""
        return cast("PolledQueue | None", self._order.next(self._is_ready, self._slots.free))

    def _is_ready(self, candidate: Candidate) -> bool:
        queue = cast(PolledQueue, candidate)
        free = self._slots.free(queue.name)
        if free <= 0 or self._slots.asked or self._is_behind:
            return False
        if self._slots.caps[queue.name] <= _FEW_SLOTS and self._settler.will_claim(queue.name):
            return False  # the next settle brings its claim with it
        if queue.full and (free >= worth_a_claim(self._slots.caps[queue.name]) or self._flushed):
            return True
        return (queue.woken and not queue.full) or time.monotonic() >= queue.poll_at

    async def _claim(self, queue: PolledQueue) -> int:
        """Take as many jobs as there are free slots and start them; gives how many."""
        worker_id = self._lease.worker_id
        limit = self._ask(queue)
        try:
            queue.woken = False
            began = time.monotonic()
            claims = await self._database.run(self._ops.claim(worker_id, queue.name, limit))
            if self._metrics is not None:
                self._metrics.polled(queue.name, len(claims), time.monotonic() - began)
            await self._claimed(queue, limit, claims, worker_id)
        except LeaseLost:
            await self._lease.renew(worker_id, "the database does not know this worker any more")
            return 0
        except BaseException:
            self.returned.uncertain()  # the store may have committed: check before the next claim
            raise
        finally:
            self._slots.answered()
        return len(claims)

    def _ask(self, queue: PolledQueue) -> int:
        free = self._order.most(queue.name, self._slots.free(queue.name))
        most = min(max_claim(self._slots.caps[queue.name]), free)
        return self._slots.ask(queue.name, most)

    async def _claimed(self, queue: PolledQueue, limit: int, claims: list[Claim], worker_id: str) -> None:
        now = time.monotonic()
        queue.full = len(claims) == limit or sum([claim.size for claim in claims]) > model.CLAIM_BYTES // 2
        self._order.claimed(queue.name, len(claims))
        if claims:
            queue.worked_at = now
        queue.poll_at = now + self._interval(queue, now, random.random())
        if claims:
            if self._metrics is not None:
                self._metrics.claimed(queue.name, len(claims))
            await self._start(claims, worker_id, now)

    def _interval(self, queue: PolledQueue, now: float, jitter: float) -> float:
        return poll_interval(
            pace_ms=self._settings.pace_ms,
            idle_pace_ms=self._settings.idle_pace_ms,
            heartbeat_ms=self._settings.heartbeat_ms,
            fleet=self._lease.fleet.get(queue.name, 1),
            since_work_s=now - queue.worked_at,
            jitter=jitter,
        )

    # claims that a settle makes: it takes the jobs that it sets free in the same transaction

    def reserve_claim(self, queues: Iterable[str]) -> tuple[str, int] | None:
        """One of these queues for a settle to claim from, and how many; the fetcher claims nothing until
        `claimed_by_settle`."""
        if self._slots.asked or self._closed or self.returned.is_uncertain:
            return None
        for queue in map(self._queues.get, queues):
            if queue is None or not self._order.is_first(queue.name):
                continue
            limit = self._ask(queue)
            # with a backlog, claims beside settles get more done
            if limit > 0 and (not queue.full or limit <= _FEW_SLOTS):
                queue.woken = False
                return queue.name, limit
        self._slots.answered()
        return None

    async def claimed_by_settle(self, name: str, limit: int, claims: list[Claim] | None, worker_id: str) -> None:
        """What the settle claimed; None: its answer was lost."""
        # one that is not served any more: what it brought runs
        queue = self._queues.get(name) or PolledQueue(name)
        try:
            if claims is None:
                self.returned.uncertain()
            else:
                await self._claimed(queue, limit, claims, worker_id)
        finally:
            self._slots.answered()
        if queue.full and self._slots.free(name) <= 0:
            self._waits_for_slots = True
        elif self.returned.is_uncertain or queue.full:
            self.loop.poke()

    # starting what was claimed

    async def _start(self, claims: list[Claim], worker_id: str, now: float) -> None:
        if self._closed or not self._lease.is_held(worker_id):
            await self.returned.give_back([(claim.id, claim.fence) for claim in claims])
            return
        names = self._tenants
        if not all(claim.tenant_id in names for claim in claims):
            await self._learn_tenants(claims)
        unknown: list[Claim] = []
        kinds, start = self._kinds, self._runner.start
        for claim in claims:
            kind = kinds.get(claim.kind)
            handler: Handler | None = kind
            if isinstance(kind, MachineKind | FlowKind):
                try:
                    handler = kind.claimed(claim)
                except Exception as error:
                    self._runner.settle_as_dead(claim, error)  # the others of the batch run
                    continue
                claim = claim if handler is None else handler.claim
            if handler is None:
                unknown.append(claim)
            else:
                start(claim, handler, worker_id, names.get(claim.tenant_id), now)
        if unknown:
            await self.returned.unknown(unknown)

    async def _learn_tenants(self, claims: list[Claim]) -> None:
        ids = list({claim.tenant_id for claim in claims} - self._tenants.keys())
        try:
            found = await self._database.run(self._ops.tenants(ids))
        except HeadwayError:
            return  # the jobs run anyway, under their tenants' ids
        self._tenants.update({tenant_id: found.get(tenant_id, tenant_id) for tenant_id in ids})

    # until idle

    def _has_no_jobs(self) -> bool:
        return not self._runner.running and not self._settler.backlog and not self.returned.has_mismatched

    async def _finds_nothing(self) -> bool:
        """Whether no queue has due work left that this worker can get."""
        await self._promote()
        if await self._claim_any():
            return False
        if not self._has_no_jobs() or any(queue.woken for queue in self._queues.values()):
            return False
        return not await self._work_remains()

    async def _claim_any(self) -> bool:
        """Whether a queue has something to claim, which it then starts."""
        for queue in self._queues.values():
            if self._slots.free(queue.name) > 0 and await self._claim(queue):
                return True
        return False

    def _only_waits_for_batches(self) -> bool:
        """Whether all its jobs are calls that wait for more of their kind."""
        waiting = self._runner.batches.waiting
        return 0 < waiting == len(self._runner.running) and not self._settler.backlog

    async def _work_remains(self) -> bool:
        """Whether there is work that a claim did not reach yet: cars that arrive, jobs behind many limited ones.

        If that does not shrink for a few rounds, somebody else has it or nobody can take it.
        """
        arrived = await self._database.run(self._ops.process_arrivals(limit=_ARRIVALS))
        queues = await self._database.run(self._ops.queues(tenant_id=None))
        remaining = arrived + sum(_claimable(queue) for queue in queues if queue.name in self._queues)
        self._rounds_without_progress = self._rounds_without_progress + 1 if remaining == self._remaining else 0
        self._remaining = remaining
        return remaining > 0 and self._rounds_without_progress < _ROUNDS_WITHOUT_PROGRESS


def _claimable(queue: Queue) -> int:
    """How many jobs of the queue a claim could take now."""
    counts = queue.counts
    full = queue.max_running is not None and counts.get("running", 0) >= queue.max_running
    if queue.paused or queue.reserved_by is not None or full:
        return 0
    return counts.get("queued", 0) - queue.limited
