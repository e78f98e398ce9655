"""Stores the jobs of requests that come at the same time together: one transaction costs as much as its first job."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import nullcontext

import msgspec

from headway.app import Headway
from headway.app.verbs import Verbs
from headway.errors import HeadwayError, StoreError
from headway.model.job import Brief, Enqueued, NewJob
from headway.model.request import Request
from headway.model.spill import is_over

_MOST_JOBS = 100
_ENOUGH_JOBS = 32  # to begin with: while these commit, the next ones come
_PASSES = 3  # of the event loop, which a request takes at most from its socket to here
_MOST_CHARACTERS = 256 * 1024  # of their payloads: large ones gain nothing, and would keep small ones waiting
# Batches of a tenant on their way at once. On PostgreSQL each is a transaction: the next one fills up while two commit.
# On SQLite the writer commits whatever waits together, so none needs to fill up first.
_AT_ONCE = {"postgres": 2, "sqlite": 16}

Stored = tuple[Enqueued, Brief | None]
"""What became of a job, and its row; None if it was deleted meanwhile."""


class _Waiting(msgspec.Struct, eq=False):
    job: NewJob
    request: Request | None  # its Idempotency-Key
    stored: asyncio.Future[Stored]


class Enqueues:
    """Plain jobs on their way into the database, by tenant. Each request has its own answer or error."""

    def __init__(self, app: Headway) -> None:
        self._app = app
        self._lanes: dict[Verbs, _Lane] = {}

    async def enqueue(self, verbs: Verbs, job: NewJob, request: Request | None) -> Stored:
        """Enqueue one job that `is_plain_enough`, of this request if it has a key; raises as `enqueue_many` does."""
        tracing = self._app._tracing
        if tracing is None:
            return await self._stored(verbs, job, request)
        with tracing.sending("enqueue", job.queue, [job]) as traced:  # in this request, not with the others
            return await self._stored(verbs, traced[0], request)

    async def _stored(self, verbs: Verbs, job: NewJob, request: Request | None) -> Stored:
        lane = self._lanes.get(verbs)
        if lane is None:
            lane = self._lanes[verbs] = _Lane(self._app, verbs)
        one = _Waiting(job, request, asyncio.get_running_loop().create_future())
        lane.waiting.append(one)
        if not lane.is_called and len(lane.tasks) < _AT_ONCE[self._app.store.dialect]:
            lane.is_called = True
            lane.tasks.add(asyncio.create_task(self._store_all(verbs, lane)))
        return await one.stored

    async def _store_all(self, verbs: Verbs, lane: _Lane) -> None:
        task = asyncio.current_task()
        tracing = self._app._tracing
        try:
            with nullcontext() if tracing is None else tracing.sent_already():
                await lane.fill()
                while lane.waiting:
                    await lane.store_next()
        finally:
            # now, not in a callback of the task: the next request must see that nothing runs here any more
            lane.tasks.discard(task)
            if not lane.tasks and not lane.waiting:
                self._lanes.pop(verbs, None)


def is_plain_enough(job: NewJob, payload_limit: int) -> bool:
    """Whether it can be stored beside jobs of others: it has nothing that another transaction, or the object store that
    its payload spills to, could keep waiting."""
    return (
        job.unique_key is None
        and job.idempotency_key is None
        and not job.has_extras
        and not is_over(job.payload, payload_limit)
    )


class _Lane:
    """The jobs of one tenant, in the order in which they came."""

    def __init__(self, app: Headway, verbs: Verbs) -> None:
        self._app = app
        self._verbs = verbs
        self.waiting: deque[_Waiting] = deque()
        self.tasks: set[asyncio.Task[None] | None] = set()
        self.is_called = False  # a task is about to take what waits

    async def fill(self) -> None:
        """Wait for the requests that are arriving now. Clients that were answered together ask again together; without
        this the first of them would get a transaction of its own, and all others would wait for it."""
        before = 0
        while before < len(self.waiting) < _ENOUGH_JOBS:
            before = len(self.waiting)
            for _ in range(_PASSES):
                await asyncio.sleep(0)

    async def store_next(self) -> None:
        self.is_called = False
        batch = self._next_batch()
        if not await self._store(batch):
            for each in batch:  # one of them was refused: each gets its own answer
                await self._store([each])

    def _next_batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        keys: set[tuple[str, str, str]] = set()
        while self.waiting and len(batch) < _MOST_JOBS:
            following = self.waiting[0]
            size += len(following.job.payload)
            request = following.request
            key = None if request is None else (request.key_id, request.route, request.key)
            if batch and (size > _MOST_CHARACTERS or key in keys):
                break  # the second request with a key is answered by what the first one created
            if key is not None:
                keys.add(key)
            batch.append(self.waiting.popleft())
        return batch

    async def _store(self, batch: list[_Waiting]) -> bool:
        """Store the jobs and answer their requests; False if they have to be stored one by one."""
        rows: list[Brief] = []
        try:
            done = await self._verbs.aenqueue_many(
                [each.job for each in batch], request=[each.request for each in batch], rows=rows
            )
        except Exception as error:
            if len(batch) > 1 and isinstance(error, HeadwayError) and not isinstance(error, StoreError):
                return False
            for each in batch:
                if not each.stored.done():
                    each.stored.set_exception(error)
            return True
        found = {row.id: row for row in rows}
        for each, one in zip(batch, done, strict=True):
            if not each.stored.done():  # its client may have gone away
                each.stored.set_result((one, found.get(one.id)))
        return True
