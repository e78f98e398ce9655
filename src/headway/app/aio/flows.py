"""Generated from app/flows.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from headway.app.aio.base import AsyncVerbBase
from headway.app.flows import FlowVerbs
from headway.model.journal_row import (
    JournalRow,
)


class AsyncFlowVerbs(FlowVerbs, AsyncVerbBase):
    """The async twins of the verbs of `FlowVerbs`."""

    async def ajournal(self, job_id: str | UUID, *, everything: bool = False, raw: bool = False) -> list[JournalRow]:
        """What a flow has recorded, in order: the answers of its operations and the notes about them that count; with
        `everything` also what a retry or an accept has taken back. Raises `NotFound`, `NotAllowed` (not a
        flow)."""
        await self._aensure_known(self._own_tenant)
        return await self._aread(self._journal(job_id, everything, raw), raw=raw)

    async def aaccept(
        self, job_id: str | UUID, from_seq: int | None = None, *, actor: str | None = None, conn: Any = None
    ) -> int:
        """Let a flow go on with changed code: what it has recorded from row `from_seq` on is taken back, its signals
        are unread again, and it is due now. The default is the first row that the code does not fit, as its last
        attempt says. Steps behind it run again. Gives the number. Raises `NotFound`, `NotAllowed` (not a flow, running,
        over, or not set aside), `InvalidJob`."""
        await self._aensure_known(self._own_tenant)
        accepted, queue = await self._arun(self._accept(job_id, from_seq, actor), conn)
        self._wake_up(queue, conn)
        return accepted
