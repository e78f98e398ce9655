"""Children: the jobs that a machine spawns and waits for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.model.job import NewJob, Settlement
from headway.model.machine import Began, Child
from headway.model.spill import stored_result
from headway.store.ops import Op, Row, Rows, Statement, Steps
from headway.store.postgres.engine.verbs import read
from headway.store.postgres.jobs.enqueue import enqueue_all

CHILD = """
j.id, j.kind, j.status, j.result::text, case when j.finished_at is not null then j.error end,
       -- as SPILLED of jobs/artifacts.py
       left(j.result::text, 14) = '{"$artifact":"' and exists (
         select from headway.artifacts a
          where a.job_id = j.id
            and a.fence = j.fence
            and starts_with(a.name, '.result')
            and j.result::text = '{"$artifact":"' || a.id || '"}')
"""
"""The columns of a child, a job j, as `to_child` reads them."""

# a fork that has spawned nothing yet sees the children of its origin, or of that one's origin
_CHILDREN = """
with recursive line (id, forked_from, began, fence, n) as (
  select m.id, m.forked_from, m.began, coalesce($2::integer, m.joining), 1
    from headway.jobs m
   where m.id = $1::uuid
     and ($3::uuid is null or m.tenant_id = $3)
  union all
  select o.id, o.forked_from, o.began, l.fence, l.n + 1
    from line l
    join headway.jobs o
      on o.id = coalesce(
           case when (l.began ->> 'joining')::integer = l.fence then (l.began ->> 'joined')::uuid end, l.forked_from)
   where l.n < 1000
     and not exists (select from headway.edges e where e.child_id = l.id and e.fence = l.fence)
), spawner as (
  select l.id, l.fence from line l order by l.n desc limit 1
)
select {child}
  from spawner s
  join headway.edges e on e.child_id = s.id and e.fence = s.fence
  join headway.jobs j on j.id = e.parent_id
 order by e.place, j.id
""".replace("{child}", CHILD)
_SPAWNED = """
select e.fence, e.parent_id
  from headway.edges e
  join headway.jobs c on c.id = e.parent_id
 where e.child_id = $1::uuid
   and e.fence > 0
   and ($2::uuid is null or e.tenant_id = $2)
 order by e.fence, e.place, e.parent_id
"""
_ADD_CHILDREN = (
    "select headway.add_children($1::uuid[], $2::integer[], $3::uuid[], $4::integer[], $5::text[], $6::uuid[],"
    " $7::integer[])"
)


class ChildVerbs:
    def children(self, job_id: str, *, fence: int | None, tenant_id: str | None, raw: bool = False) -> Op[list[Child]]:
        return read(_CHILDREN, [job_id, fence, tenant_id], lambda rows: [to_child(row, raw) for row in rows])

    def began(self, job_id: str, *, tenant_id: str | None) -> Op[Began]:
        sql = "select j.began from headway.jobs j where j.id = $1::uuid and ($2::uuid is null or j.tenant_id = $2)"
        return read(sql, [job_id, tenant_id], _began)

    def spawned(self, job_id: str, *, tenant_id: str | None) -> Op[list[tuple[int, str]]]:
        return read(_SPAWNED, [job_id, tenant_id], lambda rows: [(fence, child) for fence, child in rows])


def spawn(settlements: Sequence[Settlement]) -> Steps[None]:
    """Enqueue the children of machines that this transaction parked, and make the machines wait for them."""
    turns = [(s, s.turn) for s in settlements if s.turn is not None]
    children: list[NewJob] = [child for _, turn in turns for child in turn.children]
    machines = [s.id for s, turn in turns for _ in turn.children]
    ids = [child.id for child in children]
    met: list[str] = []
    for ordinal, job_id, _, created, _ in (yield enqueue_all(children, alone=False, parents=machines)):
        if not created:
            ids[ordinal - 1] = str(job_id)
            met.append(str(job_id))
    yield Statement(
        _ADD_CHILDREN,
        [
            machines,
            [s.fence for s, turn in turns for _ in turn.children],
            ids,
            [index for _, turn in turns for index in range(len(turn.children))],
            [turn.on_failure for _, turn in turns for _ in turn.children],
            met or None,
            [turn.needed for _, turn in turns for _ in turn.children],
        ],
    )


def _began(rows: Rows) -> Began:
    text = rows[0][0] if rows else None
    return Began() if text is None else msgspec.json.decode(text, type=Began)


def to_child(row: Row, raw: bool) -> Child:
    child_id, kind, status, result, error, spilled = row
    return Child(id=child_id, kind=kind, status=status, result=stored_result(result, spilled, raw=raw), error=error)
