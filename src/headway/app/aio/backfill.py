"""Generated from app/backfill.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from headway.app.aio.trigger_rows import AsyncTriggerRows
from headway.app.backfill import _PIECE, BackfillVerbs, _checked_times
from headway.model.schedule import time_before
from headway.model.trigger import Backfilled


class AsyncBackfillVerbs(BackfillVerbs, AsyncTriggerRows):
    """The async twins of the verbs of `BackfillVerbs`."""

    async def abackfill_schedule(
        self,
        name: str,
        start: datetime,
        end: datetime,
        payload: Mapping[str, Any] | None = None,
        *,
        dry_run: bool = False,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        conn: Any = None,
    ) -> list[Backfilled]:
        """Fire a schedule for each of its times from `start` to `end`, both included, that it has not fired for, with
        these fields over its payload; gives every time, oldest first, with the job that it made.

        `dry_run=True` makes nothing, and gives what would be made. Whether it is paused, and its `overlap` and
        `jitter`, do not matter. At most 10,000 times, in pieces: after an error, call it again for the rest. Raises
        `InvalidJob` (also for times so old that their fires are pruned), `NotFound`, and what an enqueue raises.
        """
        await self._aensure_known(self._own_tenant, tenant)
        await self.alearn(conn)
        resolved, now = await self._arun(self._resolved(name, payload, tenant), conn)
        trigger = resolved.trigger
        times = _checked_times(trigger, start, end, now, self._retention_ms["fires"])
        before: list[datetime | None] = [time_before(trigger, times[0]) if times else None, *times]
        found: list[Backfilled] = []
        for first in range(0, len(times), _PIECE):
            piece = list(zip(times, before, strict=False))[first : first + _PIECE]
            made = await self._arun(self._backfill(resolved, piece, now, dry_run, actor), conn)
            found.extend(made)
        for queue in {each.queue for each in found if each.status == "enqueued"}:
            self._wake_up(queue, conn)
        return found
