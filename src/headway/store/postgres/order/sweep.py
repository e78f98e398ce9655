"""Sweep: repair what SQL from outside broke."""

from __future__ import annotations

from headway.model.fleet import Swept
from headway.store.ops import Op, Rows
from headway.store.postgres.engine.verbs import call


class SweepVerbs:
    def sweep(self, *, limit: int) -> Op[Swept]:
        return call("select * from headway.sweep($1::integer)", [limit], _swept)


def _swept(rows: Rows) -> Swept:
    return Swept(*(tuple(found or ()) for found in rows[0])) if rows else Swept()
