"""Generated from app/stats.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from headway.app.aio.base import AsyncVerbBase
from headway.app.stats import StatVerbs
from headway.model.duration import Duration
from headway.model.stats import By, Span, Stat


class AsyncStatVerbs(StatVerbs, AsyncVerbBase):
    """The async twins of the verbs of `StatVerbs`."""

    async def astats(
        self,
        every: Span = "minute",
        *,
        since: datetime | Duration | None = None,
        until: datetime | None = None,
        by: By | Collection[By] = (),
        queue: str | Collection[str] | None = None,
        kind: str | Collection[str] | None = None,
    ) -> list[Stat]:
        """What happened, in order of time: jobs enqueued, succeeded, dead and so on, how long they waited and ran.

        `since` is a time or an age ("6h"); by default the last hour by minutes, day by hours, 30 days by days. A span
        is given whole: the first one is that in which `since` is. `by="kind"`, or several of tenant, queue and kind,
        gives one each; spans in which nothing happened are left out. `queue` and `kind` may be several. Raises
        `InvalidJob`.
        """
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._stats(every, since, until, by, queue, kind))
