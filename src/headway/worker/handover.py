"""The hand-over: who enqueues in the process of a worker with a free slot gives the job to it, as claimed already."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from headway.define.registry import AnyKind
from headway.errors import HeadwayError
from headway.model.job import Claim, Enqueued, NewJob
from headway.store.ops import Op
from headway.store.run import Store
from headway.worker.lease import Lease
from headway.worker.run import Runner
from headway.worker.slots import Slots


class Kept:
    """A slot that is kept for one job while it is enqueued, in a `with`, after which it is handed over or given up."""

    def __init__(self, handover: Handover, job: NewJob, kind: AnyKind, worker_id: str) -> None:
        self._handover = handover
        self.kind = kind
        self.queue = job.queue
        self.key = job.id, 1
        self.worker_id = worker_id
        self.is_over = False

    def __enter__(self) -> Kept:
        return self

    def fill(self, enqueued: Enqueued, claim: Claim | None) -> bool:
        """Give the worker its job; False: it was not claimed, or the worker ends and the claim must be given back."""
        taken = claim is not None and self._handover.take(self, claim)
        self.is_over = taken
        if claim is None and enqueued.status != "running":
            self.give_up(doubtful=False)
        return taken

    def give_up(self, *, doubtful: bool) -> None:
        self.is_over = True
        self._handover.give_up(self, doubtful=doubtful)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # the store may have it running under the worker, which does not know of it
        if not self.is_over:
            self.give_up(doubtful=True)


class Handover:
    """Keeps slots for jobs that somebody in this process enqueues, from any thread, and starts those jobs.

    From before its transaction until it runs, such a job is known here: the worker does not take it for a claim whose
    answer was lost. Whoever takes a slot out of `_kept` decides, once, what becomes of it.
    """

    def __init__(
        self,
        slots: Slots,
        lease: Lease,
        runner: Runner,
        *,
        on_start: Callable[[str], None],
        on_given_up: Callable[[str, bool], None],
    ) -> None:
        self._slots = slots
        self._lease = lease
        self._runner = runner
        self._on_start = on_start
        self._on_given_up = on_given_up
        self._lock = threading.Lock()
        self._kept: dict[Kept, Claim | None] = {}  # with the claim, once it was taken
        self._taken = 0
        self._closed = False
        self._last_left = asyncio.Event()
        self._event_loop = asyncio.get_running_loop()

    def keep(self, job: NewJob, kind: AnyKind) -> Kept | None:
        """A slot for this job, if one is free, and the event loop is not behind."""
        if self._closed or self._taken or not self._slots.take_free(job.queue):
            return None
        kept = Kept(self, job, kind, self._lease.worker_id)
        with self._lock:
            self._kept[kept] = None
        return kept

    def take(self, kept: Kept, claim: Claim) -> bool:
        """Have it started by the event loop; False: the worker ends."""
        with self._lock:
            if self._closed or kept not in self._kept:
                return False
            self._kept[kept] = claim
            self._taken += 1
        try:
            self._event_loop.call_soon_threadsafe(self._start)
        except RuntimeError:  # it was closed under the worker
            return False
        return True

    def give_up(self, kept: Kept, *, doubtful: bool) -> None:
        with self._lock:
            if kept not in self._kept:
                return
            self._taken -= self._kept.pop(kept) is not None
        self._slots.give(kept.queue)
        with suppress(RuntimeError):  # the event loop is closed: this worker has ended
            self._event_loop.call_soon_threadsafe(self._given_up, kept.queue, doubtful)

    def _given_up(self, queue: str, doubtful: bool) -> None:
        self._on_given_up(queue, doubtful)
        if not self._kept:
            self._last_left.set()

    def holds(self) -> set[tuple[str, int]]:
        """The claims that there are, or may be by now, and that do not run yet."""
        with self._lock:
            return {kept.key for kept in self._kept}

    async def close(self, timeout_s: float) -> None:
        """Take no more; start what was taken before, and wait for those who find out that they come too late."""
        with self._lock:
            self._closed = True
        self._start()
        if self._kept:
            self._last_left.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._last_left.wait()

    def _start(self) -> None:
        with self._lock:
            taken = [(kept, claim) for kept, claim in self._kept.items() if claim is not None]
            for kept, _ in taken:
                del self._kept[kept]
            self._taken = 0
        now = time.monotonic()
        for kept, claim in taken:
            if self._lease.is_held(kept.worker_id):
                self._runner.begin(claim, kept.kind, kept.worker_id, "default", now)
                self._on_start(kept.queue)
            else:  # it was lost with the lease
                self._slots.give(kept.queue)
                self._on_given_up(kept.queue, False)


def hand_over(store: Store, job: NewJob, kept: Kept) -> tuple[Enqueued, bool]:
    """Enqueue the job that the slot is kept for; gives whether the worker has it now."""
    with kept:
        enqueued, claim = store.run(store.ops.enqueue_claimed(job, kept.worker_id))
        taken = kept.fill(enqueued, claim)
        if claim is not None and not taken:
            with suppress(HeadwayError):  # else it is reaped
                store.run(_give_back(store, claim))
    return enqueued, taken


async def ahand_over(store: Store, job: NewJob, kept: Kept) -> tuple[Enqueued, bool]:
    # who stops waiting for it does not stop it: what a store has begun it may end after that
    handing = asyncio.ensure_future(_ahand_over(store, job, kept))
    # an event loop that ends may cancel it before it begins
    handing.add_done_callback(lambda _: None if kept.is_over else kept.give_up(doubtful=False))
    return await asyncio.shield(handing)


async def _ahand_over(store: Store, job: NewJob, kept: Kept) -> tuple[Enqueued, bool]:
    with kept:
        enqueued, claim = await store.arun(store.ops.enqueue_claimed(job, kept.worker_id))
        taken = kept.fill(enqueued, claim)
        if claim is not None and not taken:
            with suppress(HeadwayError):
                await store.arun(_give_back(store, claim))
    return enqueued, taken


def _give_back(store: Store, claim: Claim) -> Op[int]:
    return store.ops.release([(claim.id, claim.fence)], delay_ms=0)
