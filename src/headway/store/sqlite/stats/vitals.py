"""Vitals: how the file and its fleet are right now."""

from __future__ import annotations

from headway.model.vitals import MOST_COUNTED, Condition, Depth, Vitals
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs

_SQL = statements("stats/vitals")


class VitalVerbs(Verbs):
    def vitals(self) -> Op[Vitals]:
        def steps() -> Steps[Vitals]:
            now = self._clock.now()
            depths = yield Statement(_SQL["depths"], (MOST_COUNTED,))
            ((workers, heartbeat_at, due_at, emitted_at),) = yield Statement(_SQL["rest"], (now,))

            def age_ms(at: int | None) -> float | None:
                return None if at is None else max(0.0, (now - at) / 1_000)

            return Vitals(
                depths=[
                    Depth(tenant_id, queue, status, count, age_ms(at)) for tenant_id, queue, status, count, at in depths
                ],
                workers=workers,
                heartbeat_ms=age_ms(heartbeat_at),
                schedule_lag_ms=age_ms(due_at) or 0.0,
                event_lag_ms=age_ms(emitted_at) or 0.0,
            )

        return SqliteOp(steps, writes=False)

    def condition(self) -> Op[Condition]:
        def steps() -> Steps[Condition]:
            yield Statement(_SQL["answer"])
            return Condition()

        return SqliteOp(steps, writes=False)
