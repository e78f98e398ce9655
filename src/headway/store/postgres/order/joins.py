"""Joins: jobs that wait for other jobs (`after`)."""

from __future__ import annotations

from headway.model.status import Status
from headway.store.ops import Op
from headway.store.postgres.engine.verbs import read

_AWAITED = """
select e.parent_id, p.status
  from headway.edges e
  left join headway.jobs p on p.id = e.parent_id
 where e.child_id = $1::uuid
   and ($2::uuid is null or e.tenant_id = $2)
   and e.state = 'pending'
 order by e.parent_id
"""


class JoinVerbs:
    def awaited(self, job_id: str, *, tenant_id: str | None) -> Op[list[tuple[str, Status | None]]]:
        return read(_AWAITED, [job_id, tenant_id], lambda rows: [(parent, status) for parent, status in rows])
