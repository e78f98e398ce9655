"""The verbs that delete what is older than its retention, which workers also do every few minutes."""

from __future__ import annotations

from collections.abc import Mapping

from headway.app.base import VerbBase
from headway.app.settings import ages
from headway.model.duration import Duration
from headway.worker.prune import BATCH, prunes


class PruneVerbs(VerbBase):
    """They act on the whole database: retention is the same for every tenant."""

    def prune(self, retention: Mapping[str, Duration] | None = None) -> dict[str, int]:
        """Delete what is older than the app's retention, or than this one; returns how many of each were deleted.

        `app.prune({"dead": "1d"})` deletes jobs that died more than a day ago, and nothing else. Workers prune
        without being asked. The bytes of artifacts are deleted after the rows of their jobs.
        """
        found = {}
        while self._run(self._store.ops.seal_audit(limit=BATCH)):
            pass  # what has no seal is not pruned
        for name, op in prunes(self._store.ops, self._kept(retention)).items():
            found[name] = 0
            while pruned := self._run(op):
                found[name] += pruned
                if pruned < BATCH:
                    break
        while trash := self._run(self._store.ops.trash(self._places.ids, limit=BATCH)):
            self._places.discard(trash)
            self._run(self._store.ops.empty_trash([each.id for each in trash]))
        return found

    def prunable(self, retention: Mapping[str, Duration] | None = None) -> dict[str, int]:
        """How many of each `prune` would delete now."""
        return self._run(self._store.ops.prunable(self._kept(retention)))

    def _kept(self, retention: Mapping[str, Duration] | None) -> Mapping[str, int]:
        return self._retention_ms if retention is None else ages(retention)
