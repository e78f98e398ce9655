"""How many requests are under way at once: while several tenants ask, each has its share, and takes its turn."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from headway.api.wire.problems import Refused

PLACES = 64
"""More requests at once make none of them quicker."""
ALONE = PLACES - 8  # so that who comes next finds some
SHARE = {"postgres": 6, "sqlite": 3}
"""Of a tenant while others ask, too: fewer than there are connections that read from the database."""
_TOGETHER_S = 1.0  # tenants that ask within this time of each other ask together
_MOST_WAITING = 1_000

Tenant = str | None


class Places:
    """A request waits until its tenant has a place for it. Alone, a tenant has nearly all of them."""

    def __init__(self, share: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._monotonic = monotonic
        self._free = PLACES
        self._taken: Counter[Tenant] = Counter()
        self._waiting: OrderedDict[Tenant, deque[asyncio.Future[None]]] = OrderedDict()  # whose turn is next, first
        self._last: tuple[Tenant, float] = (None, float("-inf"))  # who asked last
        self._other = float("-inf")  # when somebody else asked last

    @asynccontextmanager
    async def taken(self, tenant_id: Tenant) -> AsyncIterator[Place]:
        """Hold a place; waits for it. Raises `Refused` with 429 where too many of the tenant wait already."""
        await self.take(tenant_id)
        place = Place(self, tenant_id)
        try:
            yield place
        finally:
            place.leave()

    async def take(self, tenant_id: Tenant, *, again: bool = False) -> None:
        """`again`: for a request that had one, and is not refused any more."""
        now = self._monotonic()
        if self._last[0] != tenant_id:
            self._other = self._last[1]
        self._last = (tenant_id, now)
        if self._may_enter(tenant_id) and tenant_id not in self._waiting:
            self._enter(tenant_id)
            return
        queue = self._waiting.setdefault(tenant_id, deque())
        if len(queue) >= _MOST_WAITING and not again:
            raise Refused(
                429,
                f"{_MOST_WAITING:,} requests of this tenant wait for their turn already",
                fix="ask again after the seconds that Retry-After says, with fewer requests at once",
                headers={"Retry-After": "1"},
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn came at the same moment
                self.give_back(tenant_id)
            raise

    def give_back(self, tenant_id: Tenant) -> None:
        self._free += 1
        self._taken[tenant_id] -= 1
        if not self._taken[tenant_id]:
            del self._taken[tenant_id]
        self._let_in()

    def _let_in(self) -> None:
        """Each place that is free goes to the next tenant that has somebody waiting and not its whole share."""
        for tenant_id in list(self._waiting):
            queue = self._waiting[tenant_id]
            while queue and queue[0].done():  # its client has gone
                queue.popleft()
            if queue and self._may_enter(tenant_id):
                self._enter(tenant_id)
                queue.popleft().set_result(None)
                self._waiting.move_to_end(tenant_id)
            if not queue:
                del self._waiting[tenant_id]
            if not self._free:
                return

    def _enter(self, tenant_id: Tenant) -> None:
        self._free -= 1
        self._taken[tenant_id] += 1

    def _may_enter(self, tenant_id: Tenant) -> bool:
        taken = self._taken[tenant_id]
        return self._free > 0 and (taken < self._share or (taken < ALONE and self._is_alone(tenant_id)))

    def _is_alone(self, tenant_id: Tenant) -> bool:
        other = self._other if self._last[0] == tenant_id else self._last[1]
        return self._monotonic() - other > _TOGETHER_S


class Place:
    """What one request holds."""

    def __init__(self, places: Places, tenant_id: Tenant) -> None:
        self._places = places
        self._tenant_id = tenant_id
        self._held = True

    def leave(self) -> None:
        if self._held:
            self._held = False
            self._places.give_back(self._tenant_id)

    async def come_back(self) -> None:
        await self._places.take(self._tenant_id, again=True)
        self._held = True
