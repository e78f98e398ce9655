"""Promote: queue what is due, and end what expired."""

from __future__ import annotations

from headway.model.fleet import Promoted
from headway.store.ops import Op
from headway.store.postgres.engine.verbs import call


class PromoteVerbs:
    def promote(self, *, limit: int) -> Op[Promoted]:
        return call("select * from headway.promote($1::integer)", [limit], lambda rows: Promoted(*rows[0]))
