"""Steps: how many machines stand at each."""

from __future__ import annotations

from headway.model.machine import StepCount, counted_steps
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs

_SQL = statements("machines/steps")


class StepVerbs(Verbs):
    def unfinished_steps(self, *, tenant_id: str | None, most: int) -> Op[list[StepCount]]:
        def steps() -> Steps[list[StepCount]]:
            return counted_steps((yield Statement(_SQL["unfinished"], (tenant_id, most))), most)

        return SqliteOp(steps, writes=False)
