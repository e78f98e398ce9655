"""Arrivals: what was left to be decided after somebody's commit."""

from __future__ import annotations

from headway.store.ops import Op
from headway.store.postgres.engine.verbs import call, first


class ArrivalVerbs:
    def process_arrivals(self, *, limit: int) -> Op[int]:
        return call("select headway.process_arrivals($1::integer)", [limit], first)
