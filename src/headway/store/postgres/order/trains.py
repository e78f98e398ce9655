"""Trains: jobs one after another."""

from __future__ import annotations

from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Job
from headway.model.status import Status
from headway.model.train import Hold, Train
from headway.store.ops import Op, Row
from headway.store.postgres.engine.decode import job, utc
from headway.store.postgres.engine.verbs import call, first, id_list, nothing, read
from headway.store.postgres.jobs.reads import JOB

_TRAINS = """
with name as (
  select h.tenant_id, h.train
    from headway.jobs h
   where h.train is not null and h.status = 'held'
     and ($1::uuid is null or h.tenant_id = $1) and ($2::text is null or h.train = $2)
     and ($3::text is null or h.train > $3)
  union
  select a.tenant_id, a.train
    from headway.jobs a
   where a.train is not null and a.status in ('queued', 'running', 'scheduled', 'waiting')
     and ($1::uuid is null or a.tenant_id = $1) and ($2::text is null or a.train = $2)
     and ($3::text is null or a.train > $3)
  union
  select o.tenant_id, o.train
    from headway.holds o
   where ($1::uuid is null or o.tenant_id = $1) and ($2::text is null or o.train = $2)
     and ($3::text is null or o.train > $3)
), page as (
  select n.tenant_id, n.train, o.since, o.job_id, o.reason, o.actor
    from name n
    left join headway.holds o on o.tenant_id = n.tenant_id and o.train = n.train
   where $4::boolean is null or (o.since is not null) = $4
   order by n.train
   fetch first $5 rows with ties
)
select p.train, p.tenant_id, coalesce(t.slug, p.tenant_id::text),
       (select count(*)
          from headway.jobs j
         where j.tenant_id = p.tenant_id and j.train = p.train and j.train is not null and j.status = 'held')
       + (a.id is not null)::integer,
       coalesce(a.id, h.id), coalesce(a.kind, h.kind), coalesce(a.status, h.status),
       coalesce(a.created_at, h.created_at), a.id is null and coalesce(h.pending, false),
       p.since, p.job_id, p.reason, p.actor
  from page p
  left join headway.tenants t on t.id = p.tenant_id
  left join lateral (
    select j.id, j.kind, j.status, j.created_at
      from headway.jobs j
     where j.tenant_id = p.tenant_id and j.train = p.train and j.train is not null
       and j.status in ('queued', 'running', 'scheduled', 'waiting')
     limit 1
  ) a on true
  left join lateral (
    select j.id, j.kind, j.status, j.created_at, j.pending
      from headway.jobs j
     where j.tenant_id = p.tenant_id and j.train = p.train and j.train is not null and j.status = 'held'
     order by j.position, j.id
     limit 1
  ) h on a.id is null
 order by p.train, p.tenant_id
"""
_CARS = f"""
{JOB}
  join (
    (select a.id, 0 as half, a.position
       from headway.jobs a
      where a.tenant_id = $1::uuid and a.train = $2 and a.train is not null
        and a.status in ('queued', 'running', 'scheduled', 'waiting'))
    union all
    (select h.id, 1, h.position
       from headway.jobs h
      where h.tenant_id = $1::uuid and h.train = $2 and h.train is not null and h.status = 'held'
      order by h.position, h.id
      limit $3::integer)
  ) c on c.id = j.id
 order by c.half, c.position, j.id
 limit $3::integer
"""  # noqa: S608 - texts of these files
_TRAIN_PLACE = """
select (select count(*)
          from (select
                  from headway.jobs j
                 where j.tenant_id = me.tenant_id and j.train = me.train and j.train is not null and j.status = 'held'
                   and (j.position, j.id) < (me.position, me.id)
                 limit 10000) before)
       + (a.id is not null)::integer,
       a.id
  from headway.jobs me
  left join headway.jobs a
    on a.tenant_id = me.tenant_id and a.train = me.train and a.train is not null
   and a.status in ('queued', 'running', 'scheduled', 'waiting')
 where me.id = $1::uuid
   and me.train is not null
"""


class TrainVerbs:
    def hold_train(self, train: str, *, tenant_id: str | None, reason: str | None, actor: str | None) -> Op[None]:
        return call("select headway.hold_train($1, $2::uuid, $3, $4)", [train, tenant_id, reason, actor], nothing)

    def resume_train(self, train: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        return call("select headway.resume_train($1, $2::uuid, $3)", [train, tenant_id, actor], first)

    def skip(self, job_id: str, *, tenant_id: str | None, actor: str | None) -> Op[Status | None]:
        return call("select headway.skip($1::uuid, $2::uuid, $3)", [job_id, tenant_id, actor], first)

    def clear_train(self, train: str, *, tenant_id: str | None, actor: str | None) -> Op[list[str]]:
        return call("select * from headway.clear_train($1, $2::uuid, $3)", [train, tenant_id, actor], id_list)

    def trains(
        self, *, tenant_id: str | None, train: str | None, blocked: bool | None, limit: int, after: str | None
    ) -> Op[list[Train]]:
        return read(_TRAINS, [tenant_id, train, after, blocked, limit], lambda rows: [_train(row) for row in rows])

    def cars(self, train: str, *, tenant_id: str | None, limit: int, raw: bool = False) -> Op[list[Job]]:
        return read(_CARS, [tenant_id or DEFAULT_TENANT_ID, train, limit], lambda rows: [job(row, raw) for row in rows])

    def train_place(self, job_id: str) -> Op[tuple[int, str | None]]:
        return read(_TRAIN_PLACE, [job_id], lambda rows: tuple(rows[0]) if rows else (0, None))


def _train(row: Row) -> Train:
    train, tenant_id, tenant, length, head_id, kind, status, since, pending, *hold = map(utc, row)
    return Train(
        train=train,
        tenant_id=tenant_id,
        tenant=tenant,
        length=length,
        head_id=head_id,
        head_kind=kind,
        head_status=status,
        head_since=since,
        head_pending=pending,
        hold=None if hold[0] is None else Hold(*hold),
    )
