"""Children of flows: read by their ids, and left."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.machine import Child
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.decode import to_child
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.machines.children import stop_more
from headway.store.sqlite.order.follow import follow

_SQL = statements("flows/children")


class FlowChildVerbs(Verbs):
    def children_of_flow(self, ids: Sequence[str]) -> Op[dict[str, Child]]:
        def steps() -> Steps[dict[str, Child]]:
            rows = yield Statement(_SQL["children"], (json_list(ids),))
            # in order: the last of those that retry one another stays
            return {row[0]: to_child(row[1:], True) for row in rows}

        return SqliteOp(steps, writes=False)

    def leave(self, job_id: str, children: Sequence[str], *, fence: int | None = None) -> Op[None]:
        def steps() -> Steps[None]:
            if (yield Statement(_SQL["leave"], (job_id, json_list(children), fence))):
                now = self._clock.now()
                ended = yield from stop_more(job_id, now)
                yield from follow(ended, now=now)

        return SqliteOp(steps, writes=True)
