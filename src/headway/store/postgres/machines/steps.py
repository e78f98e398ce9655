"""Steps: how many machines stand at each."""

from __future__ import annotations

from headway.model.machine import StepCount, counted_steps
from headway.store.ops import Op
from headway.store.postgres.engine.verbs import read

_UNFINISHED = """
select u.status, u.kind, u.step, $1::uuid is null or u.tenant_id = $1, count(*)
  from (
    (select j.status, j.kind, j.step, j.tenant_id from headway.jobs j
      where j.status = 'waiting'
      limit $2::integer)
   union all
    (select j.status, j.kind, j.step, j.tenant_id from headway.jobs j
      where j.status = 'held'
      limit $2::integer)
   union all
    (select j.status, j.kind, j.step, j.tenant_id from headway.jobs j
      where j.status = 'scheduled'
      limit $2::integer)
   union all
    (select j.status, j.kind, j.step, j.tenant_id from headway.jobs j
      where j.status = 'running'
      limit $2::integer)
   union all
    (select j.status, j.kind, j.step, j.tenant_id from headway.jobs j
      where j.status = 'queued' and j.limited_by is null
      limit $2::integer)
  ) u
 group by 1, 2, 3, 4
"""


class StepVerbs:
    def unfinished_steps(self, *, tenant_id: str | None, most: int) -> Op[list[StepCount]]:
        return read(_UNFINISHED, [tenant_id, most], lambda rows: counted_steps(rows, most))
