"""Windows of unique keys: those that are over are deleted; enqueue_many opens them."""

from __future__ import annotations

from headway.store.ops import Op
from headway.store.postgres.engine.verbs import call, first


class WindowVerbs:
    def prune_windows(self, *, limit: int) -> Op[int]:
        return call("select headway.prune_windows($1::integer)", [limit], first)
