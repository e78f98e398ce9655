"""Children of flows: read by their ids, and left."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.machine import Child
from headway.store.ops import Op
from headway.store.postgres.engine.verbs import call, nothing, read
from headway.store.postgres.machines.children import CHILD, to_child

_CHILDREN = f"""
with recursive heir (asked, id, n) as (
  select u.id, u.id, 1 from unnest($1::uuid[]) as u (id)
  union all
  select h.asked, r.id, h.n + 1 from heir h join headway.jobs r on r.retry_of = h.id
), last as (
  select distinct on (h.asked) h.asked, h.id
    from heir h
   where exists (select from headway.jobs j where j.id = h.id)
   order by h.asked, h.n desc
)
select l.asked, {CHILD}
  from last l
  join headway.jobs j on j.id = l.id
"""  # noqa: S608 - texts of this file


class FlowChildVerbs:
    def children_of_flow(self, ids: Sequence[str]) -> Op[dict[str, Child]]:
        return read(_CHILDREN, [list(ids)], lambda rows: {row[0]: to_child(row[1:], True) for row in rows})

    def leave(self, job_id: str, children: Sequence[str], *, fence: int | None = None) -> Op[None]:
        return call("select headway.leave($1::uuid, $2::uuid[], $3::integer)", [job_id, list(children), fence], nothing)
