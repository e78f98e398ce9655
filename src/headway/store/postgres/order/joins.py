"""Joins: jobs that wait for other jobs (`after`)."""

from __future__ import annotations

from headway.model.job import Waiter
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
_WAITERS = """
(select w.id, w.kind, w.status, case when e.fence <> 0 then 'children' else 'after' end
   from headway.edges e
   join headway.jobs w on w.id = e.child_id
  where e.parent_id = $1::uuid
    and ($2::uuid is null or e.tenant_id = $2)
    and e.state = 'pending'
  order by w.id
  limit $3::integer)
union all
(select w.id, w.kind, w.status, 'train'
   from headway.jobs me
   join headway.jobs w on w.tenant_id = me.tenant_id and w.train = me.train and w.status = 'held'
  where me.id = $1
    and ($2 is null or me.tenant_id = $2)
    and me.finished_at is null
    and w.id <> me.id
    and (me.status <> 'held' or (w.position, w.id) > (me.position, me.id))
  order by w.position, w.id
  limit $3)
limit $3
"""


class JoinVerbs:
    def waiters(self, job_id: str, *, tenant_id: str | None, limit: int) -> Op[list[Waiter]]:
        return read(_WAITERS, [job_id, tenant_id, limit], lambda rows: [Waiter(str(row[0]), *row[1:]) for row in rows])

    def awaited(self, job_id: str, *, tenant_id: str | None) -> Op[list[tuple[str, Status | None]]]:
        return read(_AWAITED, [job_id, tenant_id], lambda rows: [(parent, status) for parent, status in rows])
