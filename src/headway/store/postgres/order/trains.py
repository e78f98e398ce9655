"""What orders and limits jobs, on PostgreSQL: trains, groups, limits and reservations, their verbs and reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from headway.model.fleet import Swept
from headway.model.group import Group, NewGroup
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Claim, Job
from headway.model.limit import Limit, Usage
from headway.model.reservation import Reservation
from headway.model.status import Status
from headway.model.train import Hold, Moved, Train
from headway.store.ops import Op, Row, Rows, Statement, Steps
from headway.store.postgres.jobs.reads import JOB, call, first, job, nothing, read, utc

T = TypeVar("T")

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
_GROUP = """
select g.id, g.tenant_id, coalesce(t.slug, g.tenant_id::text), g.mode, g.on_failure, g.callback_id, g.created_at,
       g.stopped_at,
       (select jsonb_object_agg(c.status, c.n)
          from (select j.status, count(*) as n
                  from headway.jobs j
                 where j.group_id = g.id
                   and not (j.status in ('failed', 'dead', 'canceled')
                            and exists (select from headway.jobs r where r.retry_of = j.id))
                 group by j.status) c)
  from headway.groups g
  left join headway.tenants t on t.id = g.tenant_id
 where g.id = $1::uuid
   and ($2::uuid is null or g.tenant_id = $2)
"""
_AWAITED = """
select e.parent_id, p.status
  from headway.edges e
  left join headway.jobs p on p.id = e.parent_id
 where e.child_id = $1::uuid
   and ($2::uuid is null or e.tenant_id = $2)
   and e.state = 'pending'
 order by e.parent_id
"""


class OrderOps:
    """The verbs of `Ops` for trains, groups, limits and reservations."""

    # trains

    def move(
        self,
        job_id: str,
        *,
        before: str | None = None,
        after: str | None = None,
        first: bool = False,
        last: bool = False,
        tenant_id: str | None,
        actor: str | None,
    ) -> Op[Moved | None]:
        return call(
            "select * from headway.move($1::uuid, $2::uuid, $3::uuid, $4::boolean, $5::boolean, $6::uuid, $7)",
            [job_id, before, after, first, last, tenant_id, actor],
            lambda rows: Moved(*rows[0]) if rows else None,
        )

    def hold_train(self, train: str, *, tenant_id: str | None, reason: str | None, actor: str | None) -> Op[None]:
        return call("select headway.hold_train($1, $2::uuid, $3, $4)", [train, tenant_id, reason, actor], nothing)

    def resume_train(self, train: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        return call("select headway.resume_train($1, $2::uuid, $3)", [train, tenant_id, actor], first)

    def skip(self, job_id: str, *, tenant_id: str | None, actor: str | None) -> Op[Status | None]:
        return call("select headway.skip($1::uuid, $2::uuid, $3)", [job_id, tenant_id, actor], first)

    def clear_train(self, train: str, *, tenant_id: str | None, actor: str | None) -> Op[list[str]]:
        return call("select * from headway.clear_train($1, $2::uuid, $3)", [train, tenant_id, actor], _ids)

    def couple(self, *, limit: int) -> Op[int]:
        return call("select headway.couple($1::integer)", [limit], first)

    def sweep(self, *, limit: int) -> Op[Swept]:
        return call("select * from headway.sweep($1::integer)", [limit], _swept)

    def trains(
        self, *, tenant_id: str | None, train: str | None, blocked: bool | None, limit: int, after: str | None
    ) -> Op[list[Train]]:
        return read(_TRAINS, [tenant_id, train, after, blocked, limit], lambda rows: [_train(row) for row in rows])

    def cars(self, train: str, *, tenant_id: str | None, limit: int) -> Op[list[Job]]:
        return read(_CARS, [tenant_id or DEFAULT_TENANT_ID, train, limit], lambda rows: [job(row) for row in rows])

    def train_place(self, job_id: str) -> Op[tuple[int, str | None]]:
        return read(_TRAIN_PLACE, [job_id], lambda rows: tuple(rows[0]) if rows else (0, None))

    # groups

    def cancel_group(
        self, group_id: str, *, tenant_id: str | None, reason: str | None, actor: str | None
    ) -> Op[dict[str, Status] | None]:
        return self._of_group(
            "select id, status from headway.cancel_group($1::uuid, $2::uuid, $3, $4)",
            [group_id, tenant_id, reason, actor],
            lambda rows: dict(rows),
        )

    def retry_group(self, group_id: str, *, tenant_id: str | None, actor: str | None) -> Op[list[str] | None]:
        return self._of_group(
            "select * from headway.retry_group($1::uuid, $2::uuid, $3)", [group_id, tenant_id, actor], _ids
        )

    def _of_group(self, sql: str, params: Sequence[Any], shape: Callable[[Rows], T]) -> Op[T | None]:
        def steps() -> Steps[T | None]:
            group = yield from self.group(params[0], tenant_id=params[1]).steps()
            return None if group is None else shape((yield Statement(sql, params)))

        return Op(steps, writes=True)

    def group(self, group_id: str, *, tenant_id: str | None) -> Op[Group | None]:
        return read(_GROUP, [group_id, tenant_id], lambda rows: _group(rows[0]) if rows else None)

    def awaited(self, job_id: str, *, tenant_id: str | None) -> Op[list[tuple[str, Status | None]]]:
        return read(_AWAITED, [job_id, tenant_id], lambda rows: [(parent, status) for parent, status in rows])

    # limits

    def set_limit(self, limit: Limit, *, actor: str | None) -> Op[None]:
        return call(
            "select headway.set_limit($1, $2, $3::integer, $4::integer, $5::bigint, $6::integer, $7::integer, $8,"
            " $9::bigint, $10::integer, $11::integer, $12::integer, $13::integer)",
            [
                limit.scope,
                limit.name,
                limit.max_running,
                limit.rate_count,
                limit.rate_period_ms,
                limit.rate_burst,
                limit.max_pending,
                actor,
                limit.max_bytes,
                limit.max_events,
                limit.max_schedules,
                limit.max_group,
                limit.max_fan_out,
            ],
            nothing,
        )

    def set_fair(self, queue: str, fair: bool, *, actor: str | None) -> Op[None]:
        return call("select headway.set_fair($1, $2::boolean, $3)", [queue, fair, actor], nothing)

    def limits(self) -> Op[list[Limit]]:
        return read(
            "select l.scope, l.name, l.max_running, l.rate_count, l.rate_period_ms, l.rate_burst, l.max_pending,"
            " l.max_bytes, l.max_events, l.max_schedules, l.max_group, l.max_fan_out"
            " from headway.limits l order by l.scope, l.name",
            [],
            lambda rows: [Limit(**dict(zip(Limit.__struct_fields__, row, strict=True))) for row in rows],
        )

    def usage(self, key: str, *, tenant_id: str | None = None) -> Op[Usage]:
        return read(
            "select running, waiting from headway.usage($1, $2::uuid)",
            [key, tenant_id],
            lambda rows: Usage(key, *rows[0]),
        )

    # reservations

    def reserve(self, queue: str, reservation_id: str, *, holder: str, expires_ms: int) -> Op[Reservation]:
        return call(
            "select * from headway.reserve($1, $2::uuid, $3, $4::bigint)",
            [queue, reservation_id, holder, expires_ms],
            lambda rows: _reservation(rows[0]),
        )

    def unreserve(self, queue: str, reservation_id: str) -> Op[bool]:
        return call("select headway.unreserve($1, $2::uuid)", [queue, reservation_id], first)

    def take(self, worker_id: str, job_id: str, *, reservation_id: str | None) -> Op[Claim | None]:
        return call(
            "select * from headway.take($1::uuid, $2::uuid, $3::uuid)",
            [worker_id, job_id, reservation_id],
            lambda rows: Claim(*rows[0]) if rows else None,
            repeatable=False,
        )

    def reservations(self) -> Op[list[Reservation]]:
        return read(
            "select r.queue, r.id, r.holder, r.since, r.expires_at from headway.reservations r"
            " where r.expires_at > headway.now() order by r.queue",
            [],
            lambda rows: [_reservation(row) for row in rows],
        )

    def running_in(self, queue: str) -> Op[int]:
        return read(
            "select count(*) from headway.jobs j where j.status = 'running' and j.queue = $1",
            [queue],
            first,
        )


def new_group(group: NewGroup) -> Statement:
    """The group's own row; its members come with an enqueue of their own, in the same transaction."""
    return Statement(
        "select headway.new_group($1::uuid, $2, $3, $4::uuid, $5::uuid, $6)",
        [group.id, group.mode, group.on_failure, group.callback_id, group.tenant_id, group.tenant],
    )


def _ids(rows: Rows) -> list[str]:
    return [row[0] for row in rows]


def _swept(rows: Rows) -> Swept:
    return Swept(*(tuple(found or ()) for found in rows[0])) if rows else Swept()


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


def _group(row: Row) -> Group:
    fields = dict(zip(Group.__struct_fields__, map(utc, row), strict=True))
    fields["counts"] = msgspec.json.decode(fields["counts"]) if fields["counts"] else {}
    return Group(**fields)


def _reservation(row: Row) -> Reservation:
    return Reservation(*map(utc, row))
