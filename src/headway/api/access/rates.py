"""How often a caller may ask: a bucket of requests for each key and one for each tenant, in this process alone."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from math import ceil

from headway.api.serving.settings import Rate, ServerSettings
from headway.api.wire.problems import Refused

_SMALL_BODY = 16_384
_LARGE_BODIES = 4  # of a tenant at once: they are in memory until they are decoded
_MOST = 10_000  # buckets remembered; the one that was longest unused is full again soon


class Rates:
    """Takes one request from each bucket that it concerns."""

    def __init__(self, settings: ServerSettings, monotonic: Callable[[], float] = time.monotonic) -> None:
        given = {"key": settings.key_rate, "tenant": settings.tenant_rate}
        self._buckets = {name: _Buckets(rate, monotonic) for name, rate in given.items() if rate is not None}
        self._policy = ", ".join(
            f'"{name}";q={each.rate.count};w={each.seconds}' for name, each in self._buckets.items()
        )

    def take(self, **owners: str | None) -> list[tuple[bytes, bytes]]:
        """The headers that say what is left; raises `Refused` with 429. `owners` are the ids of `key` and `tenant`."""
        if not self._buckets:
            return []
        left, wait_s, empty = [], 0.0, ""
        for name, buckets in self._buckets.items():
            owner = owners.get(name)
            if owner is not None:
                remaining, until_full, until_next = buckets.take(owner)
                left.append(f'"{name}";r={remaining};t={ceil(until_full)}')
                if until_next > wait_s:
                    wait_s, empty = until_next, name
        headers = {"RateLimit-Policy": self._policy, "RateLimit": ", ".join(left)}
        if empty:
            raise Refused(
                429,
                f"too many requests by this {empty}: {self._buckets[empty].rate} are allowed",
                fix="ask again after the seconds that Retry-After says",
                headers={**headers, "Retry-After": str(max(1, ceil(wait_s)))},
            )
        return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


class BodyBytes:
    """How many bytes of bodies a tenant may send: reading them takes longer than anything else of a request. Small ones
    are not counted."""

    def __init__(self, settings: ServerSettings, monotonic: Callable[[], float] = time.monotonic) -> None:
        rate = settings.tenant_bytes
        self._buckets = None if rate is None else _Buckets(rate, monotonic)

    def take(self, tenant_id: str | None, size: int) -> None:
        """Raises `Refused` with 429."""
        if self._buckets is None or tenant_id is None or size <= _SMALL_BODY:
            return
        rate = self._buckets.rate
        _, _, wait_s = self._buckets.take(tenant_id, min(size, rate.count))
        if wait_s:
            raise Refused(
                429,
                f"too many bytes of bodies by this tenant: {rate.count:,} in {self._buckets.seconds} s are allowed",
                fix="ask again after the seconds that Retry-After says",
                headers={"Retry-After": str(max(1, ceil(wait_s)))},
            )


class LargeBodies:
    """Requests with large bodies: of each tenant a few at once. The body of the next is not read before its turn: its
    client waits, as what it sends is not received."""

    def __init__(self) -> None:
        self._turns: dict[str | None, asyncio.Semaphore] = {}
        self._count: Counter[str | None] = Counter()

    @asynccontextmanager
    async def turn(self, tenant_id: str | None, size: int) -> AsyncIterator[None]:
        """Around reading and answering a request with a body of this size."""
        if size <= _SMALL_BODY:
            yield
            return
        turns = self._turns.setdefault(tenant_id, asyncio.Semaphore(_LARGE_BODIES))
        self._count[tenant_id] += 1
        try:
            async with turns:
                yield
        finally:
            self._count[tenant_id] -= 1
            if not self._count[tenant_id]:
                del self._count[tenant_id], self._turns[tenant_id]


class Strangers:
    """How often one address may ask with keys or cookies that this process does not know: each costs a look at the
    database."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._buckets = _Buckets(Rate(100, 60_000), monotonic)

    @contextmanager
    def looked_up(self, address: str) -> Iterator[None]:
        """Around a look at the database, and what is said of it: it counts where that is `Refused`, and not where the
        key is valid, or the database did not say. Raises `Refused` with 429 for too many."""
        self.take(address)
        try:
            yield
        except Refused:
            raise
        except BaseException:  # away, or silent, which cancels the request
            self._buckets.give_back(address)
            raise
        self._buckets.give_back(address)

    def has_room(self, address: str) -> bool:
        return self._buckets.has_room(address)

    def take(self, address: str) -> None:
        """Raises `Refused` with 429."""
        _, _, wait_s = self._buckets.take(address)
        if wait_s:
            raise Refused(
                429,
                f"too many unknown keys or sessions from this address: {self._buckets.rate} are looked up",
                fix="use a valid key; ask again after the seconds that Retry-After says",
                headers={"Retry-After": str(max(1, ceil(wait_s)))},
            )


class _Buckets:
    """Token buckets of one rate. A new one is full; it fills evenly, up to the rate's count."""

    def __init__(self, rate: Rate, monotonic: Callable[[], float]) -> None:
        self.rate = rate
        self.seconds = max(1, round(rate.period_ms / 1_000))
        self._per_s = rate.count * 1_000 / rate.period_ms
        self._monotonic = monotonic
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when

    def take(self, owner: str, count: int = 1) -> tuple[int, float, float]:
        """What remains, in how many seconds it is full again, and when to ask again (0: this one was allowed)."""
        now = self._monotonic()
        tokens, at = self._left.get(owner, (float(self.rate.count), now))
        tokens = min(float(self.rate.count), tokens + (now - at) * self._per_s)
        wait_s = 0.0 if tokens >= count else (count - tokens) / self._per_s
        if not wait_s:
            tokens -= count
        self._left[owner] = (tokens, now)
        self._left.move_to_end(owner)
        if len(self._left) > _MOST:
            self._left.popitem(last=False)
        return int(tokens), (self.rate.count - tokens) / self._per_s, wait_s

    def has_room(self, owner: str) -> bool:
        """Whether one would be allowed now."""
        tokens, at = self._left.get(owner, (float(self.rate.count), self._monotonic()))
        return tokens + (self._monotonic() - at) * self._per_s >= 1

    def give_back(self, owner: str) -> None:
        """Take back what was taken last."""
        tokens, at = self._left.get(owner, (float(self.rate.count), self._monotonic()))
        self._left[owner] = (min(float(self.rate.count), tokens + 1), at)
