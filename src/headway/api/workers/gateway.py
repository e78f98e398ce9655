"""The workers over HTTP of one server: which key each belongs to, and the claims that they wait for."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any
from weakref import WeakValueDictionary

from headway.api.wire.problems import Refused
from headway.api.workers.caretaker import Caretaker
from headway.api.workers.waiting import WaitingClaims
from headway.app import Headway
from headway.errors import HeadwayError
from headway.logs import Seldom, get_logger
from headway.model.access import ApiKey
from headway.model.fleet import NewWorker, Worker
from headway.model.refusals import not_registered

_KNOWN_S = 60.0  # a worker id that was reaped, and then taken by another key, is noticed after this
_MOST = 10_000
_MOST_QUEUES = 1_000  # of one worker: its row has them all
_AT_ONCE = 4  # claims of one tenant
_LAST_MOMENT_S = 5.0  # for the claims of a worker that leaves
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0  # before it tries to start again

log = get_logger("headway.api")


class Claiming:
    """A claim whose answer is not made yet."""

    def __init__(self) -> None:
        self.left: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # its worker leaves
        self.taken: list[tuple[str, int]] = []
        self.over = asyncio.Event()


class Gateway:
    """Does what the fleet needs, as workers do: from the first claim on, or from the start (`tend`)."""

    def __init__(self, app: Headway, version: str) -> None:
        self._app = app
        self._version = version
        self._known: OrderedDict[str, tuple[Any, set[str], float]] = OrderedDict()
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # by tenant
        self._claiming: dict[str, set[Claiming]] = {}  # by worker
        self._starting = asyncio.Lock()
        self._caretaker: Caretaker | None = None
        self._waiting: WaitingClaims | None = None
        self._says = Seldom(600)

    async def waiting(self) -> WaitingClaims:
        if self._waiting is None:
            async with self._starting:
                if self._waiting is None:
                    await self._start()
        assert self._waiting is not None
        return self._waiting

    async def tend(self) -> None:
        """Start, as soon as the database lets it."""
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await self.waiting()
            except HeadwayError as error:
                if self._says():
                    log.warning(f"schedules fire and delayed jobs are queued by workers alone for now: {error}")
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)

    async def _start(self) -> None:
        caretaker = Caretaker(self._app, self._version, lambda: waiting.wake_all())
        waiting = WaitingClaims(self._app, caretaker.fleet, caretaker.serve)
        await caretaker.start()
        waiting.start()
        self._caretaker, self._waiting = caretaker, waiting

    async def aclose(self) -> None:
        waiting, self._waiting = self._waiting, None
        caretaker, self._caretaker = self._caretaker, None
        if waiting is not None:
            await waiting.stop()
        if caretaker is not None:
            with suppress(HeadwayError):  # its lease runs out by itself
                await caretaker.stop()

    @asynccontextmanager
    async def turn(self, tenant_id: str | None) -> AsyncIterator[None]:
        """A tenant's claims ask the database a few at a time, so that many of them do not keep others waiting."""
        if tenant_id is None:
            yield
            return
        turns = self._turns.get(tenant_id)
        if turns is None:
            turns = self._turns[tenant_id] = asyncio.Semaphore(_AT_ONCE)
        async with turns:
            yield

    @contextmanager
    def claiming(self, worker_id: str) -> Iterator[Claiming]:
        claiming = Claiming()
        self._claiming.setdefault(worker_id, set()).add(claiming)
        try:
            yield claiming
        finally:
            claiming.over.set()
            claiming.left.cancel()
            self._claiming[worker_id].discard(claiming)
            if not self._claiming[worker_id]:
                del self._claiming[worker_id]

    def taken(self, worker_id: str) -> list[tuple[str, int]]:
        """What claims of this worker have taken that are still to be answered: it cannot name them."""
        return [key for each in self._claiming.get(worker_id, ()) for key in each.taken]

    async def end_claims(self, worker_id: str) -> None:
        """The worker leaves: its claims that wait here end, and give back what they have taken."""
        claims = list(self._claiming.get(worker_id, ()))
        for each in claims:
            if not each.left.done():
                each.left.set_result(None)
        if claims:
            await asyncio.wait([asyncio.ensure_future(each.over.wait()) for each in claims], timeout=_LAST_MOMENT_S)

    async def check(self, worker_id: str, key: ApiKey) -> bool:
        """Whether this worker is registered; raises `Refused` if it belongs to another key, or to another tenant."""
        owner, _, until = self._known.get(worker_id, (None, set(), 0.0))
        if time.monotonic() >= until:
            found = await self._app.store.arun(self._app.store.ops.worker(worker_id))
            if found is None:
                return False
            owner = self._remember(found)
        if owner != _owner(key):
            raise Refused(
                403, f"worker {worker_id} belongs to another key", fix="make a new UUID at each start of a worker"
            )
        return True

    async def register(
        self, worker_id: str, key: ApiKey, *, queues: Sequence[str], kinds: Sequence[str], slots: int, **said: str
    ) -> None:
        """Register the worker, or note queues that are new to it; raises `Refused` if it belongs to another key, and
        `LeaseLost` if it is gone again."""
        if not await self.check(worker_id, key):
            await self._add(worker_id, key, queues, kinds, slots, said)
            if not await self.check(worker_id, key):
                raise not_registered(worker_id)  # it was declared dead just now
        _, known, _ = self._known[worker_id]
        if not known.issuperset(queues):
            served = sorted(known.union(queues))
            if len(served) > _MOST_QUEUES:
                raise Refused(422, f"one worker claims from up to {_MOST_QUEUES:,} queues: start another one for these")
            store = self._app.store
            held: list[tuple[str, int]] = await store.arun(store.ops.running(worker_id))
            serves = (dict.fromkeys(served, slots), slots)
            await store.arun(store.ops.heartbeat(worker_id, running=len(held), busy=[], serves=serves))
            known.update(queues)

    async def _add(
        self, worker_id: str, key: ApiKey, queues: Sequence[str], kinds: Sequence[str], slots: int, said: dict[str, str]
    ) -> None:
        store = self._app.store
        worker = NewWorker(
            id=worker_id,
            hostname=said.get("hostname") or "unknown",
            pid=0,
            machine=None,
            process_started=None,
            version=said.get("version") or "",
            queues=dict.fromkeys(queues, slots),
            kinds=tuple(sorted(kinds)),
            concurrency=slots,
            lease_ms=self._app.settings.lease_ms,
            metadata=_owner(key),
        )
        await store.arun(store.ops.register(worker))

    def forget(self, worker_id: str) -> None:
        """Look at the database at its next request."""
        self._known.pop(worker_id, None)

    def _remember(self, worker: Worker) -> Any:
        owner = worker.metadata
        self._known[worker.id] = (owner, set(worker.queues), time.monotonic() + _KNOWN_S)
        self._known.move_to_end(worker.id)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return owner


def _owner(key: ApiKey) -> dict[str, str]:
    """Whom a worker belongs to. The holder of an issuer's tokens may have some for several tenants."""
    return {"key": key.id} if key.tenant_id is None else {"key": key.id, "tenant": key.tenant_id}
