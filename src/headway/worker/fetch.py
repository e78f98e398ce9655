"""Finds work: claims for free slots, at once where there is known to be work, else at the fleet's pace."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress

from headway.config import Settings
from headway.define.machine import MachineKind
from headway.define.registry import AnyKind
from headway.errors import HeadwayError, LeaseLost
from headway.logs import Seldom, get_logger
from headway.model.fleet import Queue
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Claim
from headway.worker.batch_size import jobs_that_fit, max_claim, worth_a_claim
from headway.worker.database import Database
from headway.worker.execution import Handler
from headway.worker.intervals import jittered, poll_interval
from headway.worker.lease import Lease
from headway.worker.loop import Loop
from headway.worker.run import Runner
from headway.worker.settle import Settler
from headway.worker.slots import Slots

log = get_logger("headway.worker")

UNKNOWN_KIND_MS = 30_000
_NO_SLOTS_S = 1.0  # there is nothing to poll for; the first slot to become free brings the next round
_MANY = 8  # so many queues that are due together are asked for in one statement, and not by a claim each
_REST = 3  # times as long as a look at many queues took, until the next one
_FEW = 4  # with so few slots a claim is no work that a settle should not wait for
_ARRIVALS = 1_000
_STILL_HELD_S = 1.0
_LEASES = 10  # between two looks for claims that this worker does not know of, without a reason to doubt
_PATIENCE = 5


class Lane:
    """What the fetcher knows of one queue."""

    __slots__ = ("full", "poll_at", "queue", "size", "woken", "worked_at")

    def __init__(self, queue: str, size: int) -> None:
        self.queue = queue
        self.size = size  # bytes of a job, as the last claims brought them; at first as large as one may be
        self.full = False  # the last claim got all it asked for: there is more
        self.woken = False  # somebody in this process enqueued or promoted
        self.poll_at = 0.0
        self.worked_at = time.monotonic()


class Fetcher:
    """Claims jobs and has them started. No more than one claim is on its way at any time."""

    def __init__(
        self,
        database: Database,
        lease: Lease,
        slots: Slots,
        settler: Settler,
        runner: Runner,
        kinds: Mapping[str, AnyKind],
        settings: Settings,
        *,
        promote: Callable[[], Awaitable[int]],
        on_idle: Callable[[], None] | None,
    ) -> None:
        self._database = database
        self._ops = database.ops
        self._lease = lease
        self._slots = slots
        self._settler = settler
        self._runner = runner
        self._kinds = kinds
        self._settings = settings
        self._promote = promote
        self._on_idle = on_idle
        self._lanes = {queue: Lane(queue, settings.payload_limit) for queue in slots.caps}
        self._turn = deque(self._lanes.values())
        self._backlog_limit = max(1_000, 2 * slots.total)
        self._waits_for_slots = False
        self._flushed = False
        self._doubts = 0  # how often it was not known whether a claim was made
        self._resolved = 0
        self._look_again_at = self._next_look(_LEASES)
        self._closed = False
        self._mismatched: list[tuple[Claim, str]] = []
        self._left = 0
        self._in_vain = 0
        self._tenants = {DEFAULT_TENANT_ID: "default"}
        self._says = Seldom(60)
        self._event_loop = asyncio.get_running_loop()
        self.loop = Loop("claiming", self._round, lambda: 0.0)

    # what brings the next claim forward

    def wake(self, queue: str | None) -> bool:
        """There is work in this queue, or somewhere (None); callable from any thread. Says whether a slot is free."""
        if self._mark(queue):
            with suppress(RuntimeError):  # the event loop is closed: this worker has ended
                self._event_loop.call_soon_threadsafe(self.loop.poke)
        return queue in self._lanes and self._slots.free(queue) > 0

    def wake_all(self) -> None:
        self._mark(None)
        self.loop.poke()

    def set_free(self, queues: Iterable[str]) -> None:
        """Jobs of these queues are over that others waited for: a train's next car, a partition's, a limit's."""
        news = [queue for queue in queues if self._mark(queue)]
        if news:
            self.loop.poke()

    def _mark(self, queue: str | None) -> bool:
        """Remember that there is work; False where that was known, or the queue is none of this worker's."""
        lane = None if queue is None else self._lanes.get(queue)
        lanes = self._lanes.values() if queue is None else () if lane is None else (lane,)
        news = [lane for lane in lanes if not lane.woken]
        for lane in news:
            lane.woken = True
        return bool(news)

    def freed(self) -> None:
        """A slot became free; in a busy worker a claim waits until it is worth it."""
        if not self._waits_for_slots:
            return
        if any(self._ready(lane) for lane in self._lanes.values()):
            self._waits_for_slots = False
            self.loop.poke()
        else:
            self.loop.poke(self._settings.pace_ms / 1_000)

    def flushed(self) -> None:
        """A batch of outcomes was written."""
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
        await self._return_mismatched()
        if not self._slots.asked:  # what a settle has just claimed is not known here yet
            await self._resolve_doubts()
        while not self._closed:
            await self._look_at_many()  # each time: by the end of many claims the first queues are due again
            lane = self._next()
            if lane is None:
                break
            await self._claim(lane)
        self._flushed = False
        if self._on_idle is not None and not self._closed and self._quiet() and await self._finds_nothing():
            self._closed = True
            self._on_idle()
        return self._rest_s()

    async def _look_at_many(self) -> None:
        """Where many queues are due for a poll, or will be soon, ask of all at once which of them have work."""
        now = time.monotonic()
        if len(self._lanes) < _MANY or self._slots.asked or self._is_behind:
            return
        soon = now + self._settings.idle_pace_ms / 2_000
        due = [
            lane
            for lane in self._lanes.values()
            if lane.poll_at <= soon and not lane.woken and not lane.full and self._slots.free(lane.queue) > 0
        ]
        if len(due) < _MANY or min(lane.poll_at for lane in due) > now:
            return
        found: list[str] = await self._database.run(self._ops.claimable([lane.queue for lane in due]))
        work, began, now = set(found), now, time.monotonic()
        jitter = random.random()  # one for all: so they stay together
        for lane in due:
            lane.woken = lane.woken or lane.queue in work
            # where it takes long, by the number of queues, it is done less often
            lane.poll_at = now + max(self._interval(lane, now, jitter), _REST * (now - began))

    def _rest_s(self) -> float:
        """How long until the next poll, if nothing brings the next round forward."""
        if self._is_behind:
            self._waits_for_slots = True
            return _NO_SLOTS_S
        lanes, free = self._lanes.values(), self._slots.free
        self._waits_for_slots = any(lane.full or free(lane.queue) <= 0 for lane in lanes)
        polls = [lane.poll_at for lane in lanes if free(lane.queue) > 0]
        return max(min(polls) - time.monotonic(), 0.001) if polls else _NO_SLOTS_S

    @property
    def _is_behind(self) -> bool:
        """Whether more outcomes wait to be written than this worker should have in memory."""
        return self._settler.backlog >= self._backlog_limit or self._settler.is_full

    def _next(self) -> Lane | None:
        """The next queue in turn that is ready, so that none waits for the others' backlogs."""
        for _ in range(len(self._turn)):
            lane = self._turn[0]
            self._turn.rotate(-1)
            if self._ready(lane):
                return lane
        return None

    def _ready(self, lane: Lane) -> bool:
        free = self._slots.free(lane.queue)
        if free <= 0 or self._slots.asked or self._is_behind:
            return False
        if self._slots.caps[lane.queue] <= _FEW and self._settler.will_claim(lane.queue):
            return False  # the settle that comes now brings the claim with it
        if lane.full and (free >= worth_a_claim(self._slots.caps[lane.queue]) or self._flushed):
            return True
        return (lane.woken and not lane.full) or time.monotonic() >= lane.poll_at

    async def _claim(self, lane: Lane) -> int:
        """Take as many jobs as there are free slots and start them; gives how many."""
        worker_id = self._lease.worker_id
        limit = self._ask(lane)
        try:
            lane.woken = False
            claims = await self._database.run(self._ops.claim(worker_id, lane.queue, limit))
            await self._claimed(lane, limit, claims, worker_id)
        except LeaseLost:
            await self._lease.renew(worker_id, "the database does not know this worker any more")
            return 0
        except BaseException:
            # the store may have them running without anybody who runs them: ask before the next claim
            self._doubts += 1
            raise
        finally:
            self._slots.answered()
        return len(claims)

    def _ask(self, lane: Lane) -> int:
        return self._slots.ask(lane.queue, min(max_claim(self._slots.caps[lane.queue]), jobs_that_fit(lane.size)))

    async def _claimed(self, lane: Lane, limit: int, claims: list[Claim], worker_id: str) -> None:
        now = time.monotonic()
        lane.full = len(claims) == limit
        if claims:
            lane.worked_at = now
            size = sum([claim.size for claim in claims]) // len(claims)
            lane.size = max(size, (lane.size + size) // 2)  # large ones count at once, small ones by and by
        lane.poll_at = now + self._interval(lane, now, random.random())
        if claims:
            await self._start(claims, worker_id, now)

    # claims that a settle makes: what it ends lets others go, and they are taken in the same transaction

    def reserve_claim(self, queues: Iterable[str]) -> tuple[str, int] | None:
        """One of these queues that a settle shall claim from, and how much; no claim is made here until `take_over`."""
        if self._slots.asked or self._closed or self._doubtful:
            return None
        for lane in map(self._lanes.get, queues):
            if lane is None:
                continue
            limit = self._ask(lane)
            # behind a backlog, claims beside settles get more done
            if limit > 0 and (not lane.full or limit <= _FEW):
                lane.woken = False
                return lane.queue, limit
        self._slots.answered()
        return None

    async def claimed_by_settle(self, queue: str, limit: int, claims: list[Claim] | None, worker_id: str) -> None:
        """What came of it; None: nobody knows."""
        lane = self._lanes[queue]
        try:
            if claims is None:
                self._doubts += 1
            else:
                await self._claimed(lane, limit, claims, worker_id)
        finally:
            self._slots.answered()
        if lane.full and self._slots.free(queue) <= 0:
            self._waits_for_slots = True
        elif self._doubtful or lane.full:
            self.loop.poke()

    def _interval(self, lane: Lane, now: float, jitter: float) -> float:
        return poll_interval(
            pace_ms=self._settings.pace_ms,
            idle_pace_ms=self._settings.idle_pace_ms,
            heartbeat_ms=self._settings.heartbeat_ms,
            fleet=self._lease.fleet.get(lane.queue, 1),
            since_work_s=now - lane.worked_at,
            jitter=jitter,
        )

    async def _start(self, claims: list[Claim], worker_id: str, now: float) -> None:
        if self._closed or not self._lease.is_held(worker_id):
            await self._give_back([(claim.id, claim.fence) for claim in claims], delay_ms=0)
            return
        names = self._tenants
        if not all(claim.tenant_id in names for claim in claims):
            await self._learn_tenants(claims)
        unknown: list[Claim] = []
        kinds, start = self._kinds, self._runner.start
        for claim in claims:
            kind = kinds.get(claim.kind)
            handler: Handler | None = kind
            if isinstance(kind, MachineKind):
                try:
                    handler = kind.admit(claim)
                except Exception as error:
                    self._runner.settle_as_dead(claim, error)  # it alone: the others of the batch run
                    continue
                claim = claim if handler is None else handler.claim
            if handler is None:
                unknown.append(claim)
            else:
                start(claim, handler, worker_id, names.get(claim.tenant_id), now)
        if unknown:
            await self._refuse(unknown)

    async def _learn_tenants(self, claims: list[Claim]) -> None:
        ids = list({claim.tenant_id for claim in claims} - self._tenants.keys())
        try:
            found = await self._database.run(self._ops.tenants(ids))
        except HeadwayError:
            return  # the jobs run all the same, under their tenants' ids
        self._tenants.update({tenant_id: found.get(tenant_id, tenant_id) for tenant_id in ids})

    async def _refuse(self, claims: list[Claim]) -> None:
        """Give back jobs of kinds, versions or steps that are not known here: another worker, or a newer one, does."""
        counts = Counter((self._unknown(claim), claim.kind, claim.queue) for claim in claims)
        for (what, kind, queue), count in counts.items():
            if self._says(what):
                log.warning(
                    f"no worker here knows {what}: its jobs are given back and come again in half a "
                    "minute; start a worker of the app that defines it, or give it a queue of its own",
                    kind=kind,
                    queue=queue,
                    jobs=count,
                )
        delay_ms = round(jittered(UNKNOWN_KIND_MS, random.random()))
        await self._give_back([(claim.id, claim.fence) for claim in claims], delay_ms=delay_ms)

    def _unknown(self, claim: Claim) -> str:
        kind = self._kinds.get(claim.kind)
        return f'kind "{claim.kind}"' if not isinstance(kind, MachineKind) else kind.unknown(claim)

    def mismatched(self, claim: Claim, why: str) -> None:
        """The code here cannot read the payload of this claim, which another release of it enqueued."""
        self._mismatched.append((claim, why))
        self.loop.poke()

    async def _return_mismatched(self) -> None:
        """Give back such jobs: a worker of that release can run them, and may be beside this one during a deploy."""
        if not self._mismatched:
            return
        returned, self._mismatched = self._mismatched, []
        for (why, kind, queue), count in Counter((why, claim.kind, claim.queue) for claim, why in returned).items():
            if self._says(why):
                log.warning(
                    f"another release of the code enqueued what this one cannot read: {why}. Such jobs are given back "
                    "and come again in half a minute, for a worker that knows them; bring this one up to date, and "
                    "give new parameters a default",
                    kind=kind,
                    queue=queue,
                    jobs=count,
                )
        delay_ms = round(jittered(UNKNOWN_KIND_MS, random.random()))
        try:
            await self._give_back([(claim.id, claim.fence) for claim, _ in returned], delay_ms=delay_ms)
        except BaseException:
            self._doubts += 1  # they are found again, and given back, with what else nobody here runs
            raise

    async def _give_back(self, claims: list[tuple[str, int]], *, delay_ms: int) -> None:
        given = await self._database.run(self._ops.release(claims, delay_ms=delay_ms))
        if given < len(claims):
            # somebody's open transaction is in the way of some: nobody waits for it, and `reconcile` asks again
            self._look_again_at = min(self._look_again_at, time.monotonic() + _STILL_HELD_S)

    @property
    def _doubtful(self) -> bool:
        return self._resolved < self._doubts

    async def _resolve_doubts(self) -> None:
        """Look where there is a doubt, again a lease later, and seldom without one: a commit may come long after its
        answer was given up."""
        doubtful = self._doubtful
        if doubtful or time.monotonic() >= self._look_again_at:
            self._doubts += 1  # so that no settle claims meanwhile
            self._look_again_at = self._next_look(1 if doubtful else _LEASES)
            await self.reconcile()

    def _next_look(self, leases: int) -> float:
        return time.monotonic() + jittered(leases * self._settings.lease_ms, random.random()) / 1_000

    async def reconcile(self, *, kept: Collection[tuple[str, int]] = ()) -> None:
        """Give back what the store has running under this worker and this worker does not know of, but for `kept`."""
        doubts, known = self._doubts, self._known().union(kept)
        held = await self._database.run(self._ops.running(self._lease.worker_id))
        strays = [claim for claim in held if claim not in known and claim not in self._known()]
        if strays:
            if self._says("strays"):
                log.warning("gives back jobs of a claim whose answer was lost, or that were held", jobs=len(strays))
            await self._give_back(strays, delay_ms=0)
            self._mark(None)
        self._resolved = doubts

    def _known(self) -> set[tuple[str, int]]:
        return self._runner.running.keys() | self._settler.unwritten()

    # until idle

    def _quiet(self) -> bool:
        return not self._runner.running and not self._settler.backlog and not self._mismatched

    async def _finds_nothing(self) -> bool:
        """Whether nothing that is due is left on any queue, as far as this worker can get it."""
        await self._promote()
        for lane in self._lanes.values():
            if self._slots.free(lane.queue) > 0 and await self._claim(lane):
                return False
        if not self._quiet() or any(lane.woken for lane in self._lanes.values()):
            return False
        return not await self._more_to_come()

    async def _more_to_come(self) -> bool:
        """Whether something is there that a claim did not reach yet: cars that arrive, jobs behind many limited ones.

        Where that does not become less in a few rounds, somebody else has it, or nobody can.
        """
        arrived = await self._database.run(self._ops.couple(limit=_ARRIVALS))
        queues = await self._database.run(self._ops.queues(tenant_id=None))
        left = arrived + sum(_claimable(queue) for queue in queues if queue.name in self._lanes)
        self._in_vain = self._in_vain + 1 if left == self._left else 0
        self._left = left
        return left > 0 and self._in_vain < _PATIENCE


def _claimable(queue: Queue) -> int:
    """How many jobs of the queue a claim could take now."""
    counts = queue.counts
    full = queue.max_running is not None and counts.get("running", 0) >= queue.max_running
    if queue.paused or queue.reserved_by is not None or full:
        return 0
    return counts.get("queued", 0) - queue.limited
