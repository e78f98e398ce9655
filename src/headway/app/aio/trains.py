"""Generated from app/trains.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from headway.app.aio.base import AsyncVerbBase
from headway.app.trains import TrainVerbs
from headway.model.job import Job
from headway.model.status import Status
from headway.model.train import Moved, Train


class AsyncTrainVerbs(TrainVerbs, AsyncVerbBase):
    """The async twins of the verbs of `TrainVerbs`."""

    async def atrains(
        self,
        *,
        blocked: bool | None = None,
        tenant: str | UUID | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> list[Train]:
        """The trains that have unfinished cars or are on hold, by name; `blocked` picks those on hold, or the others.

        For the next page give the last one's name as `after`.
        """
        await self._aensure_known(self._own_tenant, tenant)
        return await self._arun(self._trains(blocked, tenant, limit, after))

    async def atrain(self, train: str, *, limit: int = 1000, raw: bool = False) -> list[Job]:
        """The unfinished cars of a train in their order, the locomotive first; empty if there is no such train."""
        await self._aensure_known(self._own_tenant)
        return await self._aread(self._cars(train, limit, raw), raw=raw)

    async def ahold_train(
        self, train: str, *, reason: str | None = None, actor: str | None = None, conn: Any = None
    ) -> None:
        """Start no further car of the train until it is resumed; the running one goes on to its end."""
        await self._aensure_known(self._own_tenant, create=True)
        await self._arun(self._hold_train(train, reason, actor), conn)

    async def aresume_train(self, train: str, *, actor: str | None = None, conn: Any = None) -> bool:
        """End a train's hold, so that its next car may start; False if it was not on hold."""
        await self._aensure_known(self._own_tenant)
        resumed = await self._arun(self._resume_train(train, actor), conn)
        self._wake_up(None, conn)
        return resumed

    async def aclear_train(self, train: str, *, actor: str | None = None, conn: Any = None) -> list[str]:
        """Cancel all cars of a train but the running one, and end its hold; returns the ids of the canceled."""
        await self._aensure_known(self._own_tenant)
        ids = await self._arun(self._clear_train(train, actor), conn)
        self._wake_up(None, conn)
        return ids

    async def askip(self, job_id: str | UUID, *, actor: str | None = None, conn: Any = None) -> Status:
        """Take a car out of its train, which then goes on: a waiting car is canceled; a finished one that put its train
        on hold stays as it is. Returns its status. Raises `NotFound`, `NotAllowed` (it runs, or is not a car).
        """
        await self._aensure_known(self._own_tenant)
        status = await self._arun(self._skip(job_id, actor), conn)
        self._wake_up(None, conn)
        return status

    async def amove(
        self,
        job_id: str | UUID,
        *,
        before: str | UUID | None = None,
        after: str | UUID | None = None,
        first: bool = False,
        last: bool = False,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> Moved:
        """Move a waiting job: `before` or `after` another one, or `first` or `last`; returns its new place.

        A car moves among the waiting cars of its train; any other job among the queued jobs of its queue, where it
        takes its new neighbor's priority. Raises `NotFound`, `NotAllowed` (it does not wait, or not beside that one).
        """
        await self._aensure_known(self._own_tenant)
        op = self._move(job_id, before, after, first, last, actor)
        return await self._arun(self._if_matching(job_id, if_match, op), conn)
