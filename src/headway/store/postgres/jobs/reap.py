"""Reap: end the executions of workers that are gone."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.fleet import Reaped
from headway.store.ops import Op
from headway.store.postgres.engine.verbs import call


class ReapVerbs:
    def reap(self, gone: Sequence[str], *, limit: int, by: str | None = None) -> Op[list[Reaped]]:
        return call(
            "select * from headway.reap($1::uuid[], $2::integer, $3::uuid)",
            [list(gone), limit, by],
            lambda rows: [Reaped(*row) for row in rows],
        )

    def declare_dead(self, worker_id: str, *, actor: str | None) -> Op[list[Reaped]]:
        return call(
            "select * from headway.declare_dead($1::uuid, $2)",
            [worker_id, actor],
            lambda rows: [Reaped(*row) for row in rows],
            repeatable=False,
        )
