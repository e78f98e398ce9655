"""Generated from app/reservation.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from headway.app.reservation import BlockingReserved
from headway.errors import HeadwayError


class Reserved(BlockingReserved):
    """What `app.reserve` returns: holds the queue while its block lasts. `lost` is True once others may work on it."""

    async def __aenter__(self) -> Self:
        self._begin()
        for pause_s in self._pauses(forever=False):
            if self._is_mine(await self._store.arun(self._ask()), last=pause_s is None):
                break
            assert pause_s is not None
            await asyncio.sleep(pause_s)
        self._enter()
        try:
            for pause_s in self._pauses(forever=self._timeout is None) if self._drain else ():
                running = await self._store.arun(self._store.ops.running_in(self.queue))
                if self._is_drained(running, last=pause_s is None):
                    break
                assert pause_s is not None
                await asyncio.sleep(pause_s)
        except BaseException:
            await self._aleave()
            raise
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self._aleave()

    async def _aleave(self) -> None:
        self._over.set()
        await self._ajoin_renewing()
        try:
            await self._store.arun(self._give_back())
        except HeadwayError as error:
            self._complain(error)
        self._wake.poke(self.queue)
