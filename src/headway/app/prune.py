"""Deleting what is old, and counting it first: what workers do every few minutes, at once and in full."""

from __future__ import annotations

from collections.abc import Mapping

from headway.app.base import VerbBase
from headway.app.settings import ages
from headway.model.duration import Duration
from headway.worker.prune import BATCH, prunes


class PruneVerbs(VerbBase):
    """For the database as a whole: retention is not a tenant's."""

    def prune(self, retention: Mapping[str, Duration] | None = None) -> dict[str, int]:
        """Delete what is older than the app's retention, or than another one; gives how many of each were deleted.

        `app.prune({"dead": "1d"})` deletes jobs that died more than a day ago, and nothing else. Workers prune by
        themselves.
        """
        found = {}
        for name, op in prunes(self._store.ops, self._kept(retention)).items():
            found[name] = 0
            while pruned := self._run(op):
                found[name] += pruned
                if pruned < BATCH:
                    break
        return found

    def prunable(self, retention: Mapping[str, Duration] | None = None) -> dict[str, int]:
        """How many of each `prune` would delete."""
        return self._run(self._store.ops.prunable(self._kept(retention)))

    def _kept(self, retention: Mapping[str, Duration] | None) -> Mapping[str, int]:
        return self._retention_ms if retention is None else ages(retention)
