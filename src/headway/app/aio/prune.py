"""Generated from app/prune.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Mapping

from headway.app.aio.base import AsyncVerbBase
from headway.app.prune import PruneVerbs
from headway.model.duration import Duration
from headway.worker.prune import BATCH, prunes


class AsyncPruneVerbs(PruneVerbs, AsyncVerbBase):
    """The async twins of the verbs of `PruneVerbs`."""

    async def aprune(self, retention: Mapping[str, Duration] | None = None) -> dict[str, int]:
        """Delete what is older than the app's retention, or than this one; returns how many of each were deleted.

        `app.prune({"dead": "1d"})` deletes jobs that died more than a day ago, and nothing else. Workers prune
        without being asked. The bytes of artifacts are deleted after the rows of their jobs.
        """
        await self._aensure_known(self._own_tenant)
        found = {}
        while await self._arun(self._store.ops.seal_audit(limit=BATCH)):
            pass
        for name, op in prunes(self._store.ops, self._kept(retention)).items():
            found[name] = 0
            while pruned := (await self._arun(op)):
                found[name] += pruned
                if pruned < BATCH:
                    break
        while trash := (await self._arun(self._store.ops.trash(self._places.ids, limit=BATCH))):
            await self._places.adiscard(trash)
            await self._arun(self._store.ops.empty_trash([each.id for each in trash]))
        return found

    async def aprunable(self, retention: Mapping[str, Duration] | None = None) -> dict[str, int]:
        """How many of each `prune` would delete now."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._store.ops.prunable(self._kept(retention)))
