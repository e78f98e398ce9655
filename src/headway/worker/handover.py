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
    """A slot that is kept for one job, in a `with`, while it is enqueued."""

    def __init__(self, handover: Handover, job: NewJob, kind: AnyKind, worker_id: str) -> None:
        self._handover = handover
        self.kind = kind
        self.queue = job.queue
        self.key = job.id, 1
        self.worker_id = worker_id
        self._open = True

    def __enter__(self) -> Kept:
        return self

    def fill(self, enqueued: Enqueued, claim: Claim | None) -> bool:
        """Give the worker its job; False: it was not claimed, or the worker ends and the claim must be given back."""
        if claim is not None and self._handover.take(self, claim):
            self._open = False
            return True
        if claim is None and enqueued.status != "running":
            self._open = False
            self._handover.give_up(self, doubtful=False)
        return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # the store may have it running under the worker, which does not know of it
        if self._open:
            self._handover.give_up(self, doubtful=True)


class Handover:
    """Keeps slots for jobs that somebody in this process enqueues, from any thread, and starts those jobs.

    From before its transaction until it runs, such a job is known here: the worker does not take it for a claim whose
    answer was lost.
    """

    def __init__(
        self,
        slots: Slots,
        lease: Lease,
        runner: Runner,
        *,
        on_start: Callable[[str], None],
        on_given_up: Callable[[bool], None],
    ) -> None:
        self._slots = slots
        self._lease = lease
        self._runner = runner
        self._on_start = on_start
        self._on_given_up = on_given_up
        self._lock = threading.Lock()
        self._known: set[tuple[str, int]] = set()
        self._taken: list[tuple[Kept, Claim]] = []
        self._closed = False
        self._event_loop = asyncio.get_running_loop()

    def keep(self, job: NewJob, kind: AnyKind) -> Kept | None:
        """A slot for this job, if one is free."""
        if self._closed or not self._slots.take_free(job.queue):
            return None
        kept = Kept(self, job, kind, self._lease.worker_id)
        with self._lock:
            self._known.add(kept.key)
        return kept

    def take(self, kept: Kept, claim: Claim) -> bool:
        """Have it started by the event loop; False: the worker ends."""
        with self._lock:
            if self._closed:
                return False
            self._taken.append((kept, claim))
        try:
            self._event_loop.call_soon_threadsafe(self._start)
        except RuntimeError:  # it was closed under the worker
            return False
        return True

    def give_up(self, kept: Kept, *, doubtful: bool) -> None:
        with self._lock:
            self._known.discard(kept.key)
        self._slots.give(kept.queue)
        with suppress(RuntimeError):  # the event loop is closed: this worker has ended
            self._event_loop.call_soon_threadsafe(self._on_given_up, doubtful)

    def holds(self) -> set[tuple[str, int]]:
        """The claims that there are, or may be by now, and that do not run yet."""
        with self._lock:
            return set(self._known)

    def close(self) -> None:
        """Take no more; start what was taken before."""
        with self._lock:
            self._closed = True
        self._start()

    def _start(self) -> None:
        with self._lock:
            taken, self._taken = self._taken, []
            self._known.difference_update(kept.key for kept, _ in taken)
        now = time.monotonic()
        for kept, claim in taken:
            if kept.worker_id == self._lease.worker_id:
                self._runner.begin(claim, kept.kind, kept.worker_id, "default", now)
                self._on_start(kept.queue)
            else:
                self._slots.give(kept.queue)  # it was lost with the lease


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
    return await asyncio.shield(asyncio.ensure_future(_ahand_over(store, job, kept)))


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
