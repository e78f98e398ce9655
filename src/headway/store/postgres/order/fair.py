"""Fair queues: tenants take turns."""

from __future__ import annotations

from headway.store.ops import Op
from headway.store.postgres.engine.verbs import call, nothing


class FairVerbs:
    def set_fair(self, queue: str, fair: bool, *, actor: str | None) -> Op[None]:
        return call("select headway.set_fair($1, $2::boolean, $3)", [queue, fair, actor], nothing)
