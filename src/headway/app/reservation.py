"""A reservation of a queue, as a context manager."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import datetime
from types import TracebackType
from typing import Self

from headway.define.checks import name as checked_name
from headway.errors import HeadwayError, InvalidJob, NotAllowed, ReservationBusy, StoreUnavailable
from headway.logs import get_logger
from headway.model.actor import as_actor, check_actor
from headway.model.duration import Duration, to_ms
from headway.model.ids import new_id
from headway.model.reservation import Reservation
from headway.store.ops import Op
from headway.store.run import Store
from headway.worker.host import hostname
from headway.worker.wake import Wake

log = get_logger("headway.app")

EXPIRES: Duration = "10m"
SHORTEST_MS = 100
_FIRST_S = 0.05
_SLOWEST_S = 0.5
_AGAIN_S = 0.5

# the reservations that the current thread or task holds
_inside: ContextVar[tuple[BlockingReserved, ...]] = ContextVar("headway_reserved", default=())


def reservation_of(store: Store, queue: str) -> BlockingReserved | None:
    """The reservation of this queue that the current thread or task holds."""
    return next((each for each in _inside.get() if each.stands_on(store, queue)), None)


class BlockingReserved:
    """What `app.reserve` returns: holds the queue while its block lasts. `lost` is True once others may work on it."""

    def __init__(
        self,
        store: Store,
        wake: Wake,
        queue: str,
        *,
        expires: Duration,
        timeout: Duration | None,
        drain: bool,
        holder: str | None,
        discreet: bool = False,
    ) -> None:
        self.queue = checked_name(queue, "queue")
        self.id = ""
        self.lost = False
        self._store = store
        self._wake = wake
        self._expires_ms = to_ms(expires, "expires")
        if self._expires_ms < SHORTEST_MS:
            raise InvalidJob(f"expires={expires!r} is too short to be renewed in time: give a few seconds at least")
        self._timeout = timeout
        self._timeout_s = None if timeout is None else to_ms(timeout, "timeout") / 1_000
        self._drain = drain
        self._holder = check_actor(holder, "holder") or as_actor(f"{hostname()}:{os.getpid()}")
        self._discreet = discreet  # do not say who holds the queue: it may be another tenant's
        self._standing: Reservation | None = None
        self._renewed_at = 0.0
        self._over = threading.Event()
        self._renewing: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<Reserved {self.queue} until {self._standing.expires_at if self._standing else 'it is entered'}>"

    @property
    def expires_at(self) -> datetime | None:
        """When it ends unless it is renewed; None outside its block."""
        return self._standing.expires_at if self._standing else None

    def stands_on(self, store: Store, queue: str) -> bool:
        return self._standing is not None and self._store is store and self.queue == queue

    # the context manager

    def __enter__(self) -> Self:
        self._begin()
        for pause_s in self._pauses(forever=False):
            if self._is_mine(self._store.run(self._ask()), last=pause_s is None):
                break
            assert pause_s is not None
            time.sleep(pause_s)
        self._enter()
        try:
            for pause_s in self._pauses(forever=self._timeout is None) if self._drain else ():
                running = self._store.run(self._store.ops.running_in(self.queue))
                if self._is_drained(running, last=pause_s is None):
                    break
                assert pause_s is not None
                time.sleep(pause_s)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._leave()

    # entering

    def _begin(self) -> None:
        if self._standing is not None:
            raise NotAllowed(
                f"this reservation of queue {self.queue} is held already: make another with app.reserve(…)"
            )
        self.id = new_id()
        self.lost = False
        self._until = time.monotonic() + (self._timeout_s or 0.0)

    def _ask(self) -> Op[Reservation]:
        self._renewed_at = time.monotonic()
        return self._store.ops.reserve(self.queue, self.id, holder=self._holder, expires_ms=self._expires_ms)

    def _is_mine(self, standing: Reservation, *, last: bool) -> bool:
        if standing.id == self.id:
            self._standing = standing
            return True
        if last:
            waited = f" (waited {self._timeout_s:g}s)" if self._timeout_s else ""
            since, until = (at.isoformat(timespec="seconds") for at in (standing.since, standing.expires_at))
            holder = "somebody" if self._discreet else standing.holder
            raise ReservationBusy(
                f"queue {self.queue} is reserved by {holder} since {since}, until {until} or longer{waited}: "
                "try again later, or wait for it with a longer timeout="
            )
        return False

    def _is_drained(self, running: int, *, last: bool) -> bool:
        if running and last:
            jobs = "job of it still runs" if running == 1 else "jobs of it still run"
            raise ReservationBusy(
                f"queue {self.queue} was reserved, but {running} {jobs} after {self._timeout_s:g}s, so it was given "
                "back: wait longer with timeout=, or cancel them"
            )
        return not running

    def _pauses(self, *, forever: bool) -> Iterator[float | None]:
        """How long to pause after each look; None after the last."""
        pause_s = _FIRST_S
        while forever or (left_s := self._until - time.monotonic()) > 0:
            yield pause_s if forever else min(pause_s, left_s)
            pause_s = min(pause_s * 1.25, _SLOWEST_S)
        yield None

    def _enter(self) -> None:
        self._over = threading.Event()
        # a thread, even for async code: it must renew while the event loop is busy
        self._renewing = threading.Thread(target=self._renew, name=f"headway-reserve-{self.queue}", daemon=True)
        self._renewing.start()
        _inside.set((*(each for each in _inside.get() if each._standing is not None), self))

    # holding

    def _renew(self) -> None:
        pause_s = every_s = self._expires_ms / 3_000
        while not self._over.wait(pause_s):
            before = self._renewed_at
            try:
                standing = self._store.run(self._ask())
            except HeadwayError as error:
                self._renewed_at = before
                pause_s = min(_AGAIN_S, every_s)
                if time.monotonic() - before > self._expires_ms / 1_000:
                    self._lose(f"it could not be renewed: {error}")
                    return
                if not isinstance(error, StoreUnavailable):
                    log.warning("a reservation could not be renewed and will be tried again", error=str(error))
                continue
            if standing.id != self.id:
                self._lose(f"{standing.holder} has it now")
                return
            if self._renewed_at - before > self._expires_ms / 1_000:
                self._lose("it was renewed too late, and had expired")
                return
            self._standing, pause_s = standing, every_s

    def _lose(self, why: str) -> None:
        self.lost = True
        log.warning(f"the reservation of queue {self.queue} was lost: {why}", queue=self.queue)

    # leaving

    def _leave(self) -> None:
        self._over.set()
        self._join_renewing()
        try:
            self._store.run(self._give_back())
        except HeadwayError as error:
            self._complain(error)
        self._wake.poke(self.queue)

    def _join_renewing(self) -> None:
        if self._renewing is not None:
            self._renewing.join()  # or it might renew what was just given back

    async def _ajoin_renewing(self) -> None:
        if self._renewing is not None:
            await asyncio.to_thread(self._renewing.join)

    def _give_back(self) -> Op[bool]:
        self._standing = None
        _inside.set(tuple(each for each in _inside.get() if each._standing is not None))
        return self._store.ops.unreserve(self.queue, self.id)

    def _complain(self, error: HeadwayError) -> None:
        # the work inside the block is done and must not fail because of this
        log.warning(
            f"the reservation of queue {self.queue} could not be given back: it expires by itself",
            queue=self.queue,
            error=str(error),
        )
