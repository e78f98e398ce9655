"""Fold: adds deltas up to the numbers of minutes, hours and days, with a sample of what is queued once a minute."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.stats import Depth, Span
from headway.store.ops import Op, Statement, Steps
from headway.store.postgres.engine.verbs import call, first

_FOLD = "select headway.fold_stats($1::integer)"
_FOLD_WITH = "select headway.fold_stats($1::integer, $2::uuid[], $3::text[], $4::text[], $5::integer[], $6::bigint[])"
_SAMPLED = """
select 1
  from headway.stat_samples s
 where date_bin('1 minute', s.at, timestamptz '2000-01-01 00:00:00+00')
       = date_bin('1 minute', headway.now(), timestamptz '2000-01-01 00:00:00+00')
"""
_DEPTHS = "select d.tenant_id, d.queue, d.kind, d.depth, d.oldest_ms from headway.depths() d"
_PRUNE = "select headway.prune_stats($1, $2::bigint, $3::integer)"


class FoldVerbs:
    def fold_stats(self, *, limit: int, depths: Sequence[Depth] | None = None) -> Op[int]:
        if depths is None:
            return call(_FOLD, [limit], first, repeatable=False)
        columns = [[getattr(depth, name) for depth in depths] for name in Depth.__struct_fields__]
        return call(_FOLD_WITH, [limit, *columns], first, repeatable=False)

    def depths(self) -> Op[list[Depth] | None]:
        def steps() -> Steps[list[Depth] | None]:
            if (yield Statement(_SAMPLED)):
                return None
            return [Depth(str(row[0]), *row[1:]) for row in (yield Statement(_DEPTHS))]

        return Op(steps, writes=False)

    def prune_stats(self, span: Span, *, older_than_ms: int, limit: int) -> Op[int]:
        return call(_PRUNE, [span, older_than_ms, limit], first)
