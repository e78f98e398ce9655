"""How many requests are under way at once: while several tenants ask, each has its share, and takes its turn; a tenant
whose requests take long has a smaller one for these, so that it costs the others little time."""

from __future__ import annotations

import asyncio
import math
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
QUICK_S = 0.02
"""A request that has its place for longer is slow: it used the server's threads, or the database, for as long."""
CREDIT_S = 0.3
"""How long a tenant's slow requests may take together before they wait for each other, and rest."""
PACE = 0.15
"""The part of the time that a tenant's slow requests have, once its credit is used up, while others ask."""
GREEDY = 3.0
"""So many times what others use on average: where all are slow, only who uses much more than they do is held back."""
_USED_S = 10.0  # of time in which what a tenant used counts less and less
_MOST_OWED_S = 1.0  # so that no rest is longer than some seconds
_TOGETHER_S = 1.0  # tenants that ask within this time of each other ask together
_MOST_WAITING = 1_000
_MOST_USERS = 1_000
_MOST_SLOW = 10_000  # sorts of requests that are remembered as slow

Tenant = str | None
_Lane = tuple[Tenant, bool]  # each tenant has one for what is quick, and one for what was slow the last time


class Places:
    """A request waits until its tenant has a place for it. Alone, a tenant has nearly all of them."""

    def __init__(self, share: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._monotonic = monotonic
        self._free = PLACES
        self._taken: Counter[Tenant] = Counter()
        self._taken_slow: Counter[Tenant] = Counter()
        self._waiting: OrderedDict[_Lane, deque[asyncio.Future[None]]] = OrderedDict()  # whose turn is next, first
        self._slow: OrderedDict[tuple[Tenant, str], None] = OrderedDict()
        self._owed: dict[Tenant, tuple[float, float]] = {}  # seconds that slow requests took, and when
        self._used: dict[Tenant, tuple[float, float]] = {}  # seconds that it used lately, and when that was
        self._rest: asyncio.TimerHandle | None = None  # until a tenant that waits alone owes little enough
        self._last: tuple[Tenant, float] = (None, float("-inf"))  # who asked last
        self._other = float("-inf")  # when somebody else asked last

    @asynccontextmanager
    async def taken(self, tenant_id: Tenant, what: str = "") -> AsyncIterator[Place]:
        """Hold a place for a request of the sort `what`; waits for it. Raises `Refused` with 429 where too many of the
        tenant wait already."""
        place = Place(self, tenant_id, what)
        await place.take()
        try:
            yield place
        finally:
            place.leave()

    def is_slow(self, tenant_id: Tenant, what: str) -> bool:
        """Whether the tenant's last request of this sort was."""
        return (tenant_id, what) in self._slow

    def has_others(self, tenant_id: Tenant) -> bool:
        """Whether requests of others have places."""
        return PLACES - self._free > self._taken[tenant_id]

    async def take(self, tenant_id: Tenant, *, slow: bool = False, again: bool = False) -> None:
        """`again`: for a request that had one, and is not refused any more."""
        now = self._monotonic()
        if self._last[0] != tenant_id:
            self._other = self._last[1]
        self._last = (tenant_id, now)
        lane = tenant_id, slow
        if lane not in self._waiting and self._may_enter(lane):
            self._enter(lane)
            return
        queue = self._waiting.setdefault(lane, deque())
        if len(queue) >= _MOST_WAITING and not again:
            raise Refused(
                429,
                f"{_MOST_WAITING:,} requests of this tenant wait for their turn already",
                fix="ask again after the seconds that Retry-After says, with fewer requests at once",
                headers={"Retry-After": "1"},
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self._set_rest()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn came at the same moment
                self.give_back(tenant_id, slow=slow)
            raise

    def give_back(self, tenant_id: Tenant, *, slow: bool = False) -> None:
        self._free += 1
        taken = (self._taken, self._taken_slow) if slow else (self._taken,)
        for each in taken:
            each[tenant_id] -= 1
            if not each[tenant_id]:
                del each[tenant_id]
        self._let_in()

    def count(self, tenant_id: Tenant, what: str, held_s: float) -> None:
        """A request of this sort had its place for so long; "" is of no sort, and never slow."""
        if not what:
            return
        if held_s <= QUICK_S:
            self._slow.pop((tenant_id, what), None)
            return
        self._slow[tenant_id, what] = None
        if len(self._slow) > _MOST_SLOW:
            self._slow.popitem(last=False)
        self._used[tenant_id] = self._uses(tenant_id) + held_s, self._monotonic()
        if len(self._used) > _MOST_USERS:
            oldest = min(self._used, key=lambda each: self._used[each][1])
            del self._used[oldest]
        owed = min(self._owes(tenant_id) + held_s, CREDIT_S + _MOST_OWED_S)
        self._owed.pop(tenant_id, None)
        self._owed[tenant_id] = owed, self._monotonic()
        if len(self._owed) > _MOST_SLOW:
            del self._owed[next(iter(self._owed))]

    def _let_in(self) -> None:
        """Each place that is free goes to the next tenant that has somebody waiting and not its whole share."""
        for lane in list(self._waiting):
            queue = self._waiting[lane]
            while queue and queue[0].done():  # its client has gone
                queue.popleft()
            if queue and self._may_enter(lane):
                self._enter(lane)
                queue.popleft().set_result(None)
                self._waiting.move_to_end(lane)
            if not queue:
                del self._waiting[lane]
            if not self._free:
                return
        self._set_rest()

    def _set_rest(self) -> None:
        """Slow requests that nobody's end lets in are let in when their tenant has rested."""
        if self._rest is not None:
            return
        waits = [
            (self._owes(tenant_id) - CREDIT_S) / PACE
            for tenant_id, slow in self._waiting
            if slow and not self._taken_slow[tenant_id]
        ]
        if waits:
            self._rest = asyncio.get_running_loop().call_later(max(0.005, min(waits)), self._rested)

    def _rested(self) -> None:
        self._rest = None
        self._let_in()

    def _enter(self, lane: _Lane) -> None:
        tenant_id, slow = lane
        self._free -= 1
        self._taken[tenant_id] += 1
        if slow:
            self._taken_slow[tenant_id] += 1

    def _may_enter(self, lane: _Lane) -> bool:
        tenant_id, slow = lane
        taken = self._taken[tenant_id]
        if not self._free or taken >= ALONE:
            return False
        if self._is_alone(tenant_id):
            return True
        if taken >= self._share:
            return False
        if not slow or self._owes(tenant_id) <= (0.0 if self._taken_slow[tenant_id] else CREDIT_S):
            return True
        return not self._is_greedy(tenant_id)

    def _is_greedy(self, tenant_id: Tenant) -> bool:
        others = [self._uses(each) for each in self._used if each != tenant_id]
        return not others or self._uses(tenant_id) > GREEDY * sum(others) / len(others)

    def _uses(self, tenant_id: Tenant) -> float:
        seconds, at = self._used.get(tenant_id, (0.0, 0.0))
        return seconds * math.exp((at - self._monotonic()) / _USED_S)

    def _owes(self, tenant_id: Tenant) -> float:
        seconds, at = self._owed.get(tenant_id, (0.0, 0.0))
        return max(0.0, seconds - (self._monotonic() - at) * PACE)

    def _is_alone(self, tenant_id: Tenant) -> bool:
        other = self._other if self._last[0] == tenant_id else self._last[1]
        return self._monotonic() - other > _TOGETHER_S


class Place:
    """What one request holds."""

    def __init__(self, places: Places, tenant_id: Tenant, what: str) -> None:
        self._places = places
        self._tenant_id = tenant_id
        self._what = what
        self.is_slow = places.is_slow(tenant_id, what)
        self._since: float | None = None

    async def take(self, *, again: bool = False) -> None:
        await self._places.take(self._tenant_id, slow=self.is_slow, again=again)
        self._since = self._places._monotonic()

    def leave(self) -> None:
        if self._since is not None:
            held_s = self._places._monotonic() - self._since
            self._since = None
            self._places.count(self._tenant_id, self._what, held_s)
            self._places.give_back(self._tenant_id, slow=self.is_slow)

    async def come_back(self) -> None:
        await self.take(again=True)
