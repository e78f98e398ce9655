"""Generated from app/base.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.app.aio.tenants import AsyncTenantLookup
from headway.app.base import T, VerbBase
from headway.model.codec import decode
from headway.model.job import Outcome
from headway.model.spill import Spilled
from headway.store.ops import Op


class AsyncVerbBase(VerbBase, AsyncTenantLookup):
    """The async twins of the verbs of `VerbBase`."""

    async def _arun(self, op: Op[T], conn: Any = None) -> T:
        """Run an op; with `conn`, in that connection's transaction."""
        op = self._unless_suspended(op)
        return await self._store.arun(op) if conn is None else await self._store.arun_in(conn, op)

    async def _aread(self, op: Op[T], conn: Any = None, *, raw: bool = False) -> T:
        """Run an op whose answer people read: secrets in it are masked. `raw` is for programs: JSON is as stored."""
        if raw and (not self._is_for_viewers):
            return await self._arun(op, conn)
        await self.alearn(conn)
        return await self._arun(self._masking(op), conn)

    async def alearn(self, conn: Any) -> None:
        """Read what operators changed about kinds, unless that was done within the last seconds."""
        if self._definitions.are_stale:
            op = self._whole_store.ops.definitions(None)
            if conn is not None:
                found = await self._whole_store.arun_in(conn, op)
            elif self._whole_store.is_absent:
                found = []
            else:
                found = await self._whole_store.arun(op)
            self._definitions.replace(found)

    async def alearn_again(self, conn: Any) -> None:
        """Read it now: a kind that is not known may have been declared a moment ago."""
        self._definitions.expire()
        await self.alearn(conn)

    async def _awith_value(self, outcome: Outcome) -> Outcome:
        """The outcome with the value itself, where an artifact has it. Raises as `open_artifact` does."""
        if type(outcome.value) is not Spilled:
            return outcome
        found = await self._arun(self._artifact(outcome.value.id))
        content = await self._places.aread(found)
        return msgspec.structs.replace(outcome, value=decode(content, what="result"))
