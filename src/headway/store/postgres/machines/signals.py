"""What machines need beside jobs, on PostgreSQL: signals, forks, and what they spawned."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec

from headway.model import codec
from headway.model.job import Enqueued, NewJob
from headway.model.machine import Began, Child
from headway.model.signal import NewSignal, Sent, Signal
from headway.store.ops import Op, Row, Rows, Statement, Steps
from headway.store.postgres.jobs.enqueue import enqueue_one
from headway.store.postgres.jobs.reads import read, utc

_SIGNAL = (
    "select id, job_id, queue, created from headway.signal_many($1::uuid[], $2::text[], $3::json[], $4::uuid[],"
    " $5::text[], $6::text[], $7::uuid[], $8::text[], p_checked => true) order by place"
)
_SIGNALS = """
select s.id, s.job_id, s.name, s.payload, s.dedup_key, s.sent_at,
       case when s.fence is not null then 'consumed'
            when j.finished_at is not null then 'undelivered'
            else 'pending' end,
       s.consumed_at, s.fence
  from headway.signals s
  join headway.jobs j on j.id = s.job_id
 where s.job_id = $1::uuid
   and ($2::uuid is null or s.tenant_id = $2)
 order by s.seq
"""
# a fork has none of its own until it spawns: then its origin's, or that one's origin's
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
select c.id, c.kind, c.status, c.result, case when c.finished_at is not null then c.error end
  from spawner s
  join headway.edges e on e.child_id = s.id and e.fence = s.fence
  join headway.jobs c on c.id = e.parent_id
 order by e.place, c.id
"""
_SPAWNED = """
select e.fence, e.parent_id
  from headway.edges e
  join headway.jobs c on c.id = e.parent_id
 where e.child_id = $1::uuid
   and e.fence > 0
   and ($2::uuid is null or e.tenant_id = $2)
 order by e.fence, e.place, e.parent_id
"""


class MachineOps:
    """The verbs of `Ops` for machines."""

    def signal(self, signals: Sequence[NewSignal]) -> Op[list[Sent]]:
        def steps() -> Steps[list[Sent]]:
            return _sent((yield _signal(signals))) if signals else []

        return Op(steps, writes=True, refusable=True)

    def fork(self, job: NewJob, signals: Sequence[NewSignal], *, actor: str | None) -> Op[Enqueued]:
        def steps() -> Steps[Enqueued]:
            ((job_id, status, created),) = yield enqueue_one(job, alone=False)
            if created:
                if signals:
                    yield _signal([msgspec.structs.replace(signal, job_id=job_id) for signal in signals])
                joined = None if job.place is None else job.place.joined
                yield Statement("select headway.forked($1::uuid, $2, $3::uuid)", [job_id, actor, joined])
            return Enqueued(str(job_id), status, created)

        return Op(steps, writes=True, refusable=True, atomic=True)

    def signals(self, job_id: str, *, tenant_id: str | None) -> Op[list[Signal]]:
        return read(_SIGNALS, [job_id, tenant_id], lambda rows: [_stored(row) for row in rows])

    def children(self, job_id: str, *, fence: int | None, tenant_id: str | None) -> Op[list[Child]]:
        return read(_CHILDREN, [job_id, fence, tenant_id], lambda rows: [_child(row) for row in rows])

    def began(self, job_id: str, *, tenant_id: str | None) -> Op[Began]:
        sql = "select j.began from headway.jobs j where j.id = $1::uuid and ($2::uuid is null or j.tenant_id = $2)"
        return read(sql, [job_id, tenant_id], _began)

    def spawned(self, job_id: str, *, tenant_id: str | None) -> Op[list[tuple[int, str]]]:
        return read(_SPAWNED, [job_id, tenant_id], lambda rows: [(fence, child) for fence, child in rows])


def _signal(signals: Sequence[NewSignal]) -> Statement:
    columns: list[list[Any]] = [
        list(map(attrgetter(name), signals))
        for name in ("id", "name", "payload", "job_id", "kind", "unique_key", "tenant_id", "dedup_key")
    ]
    return Statement(_SIGNAL, [None if values.count(None) == len(values) else values for values in columns])


def _sent(rows: Rows) -> list[Sent]:
    return [Sent(str(signal_id), str(job_id), queue, created) for signal_id, job_id, queue, created in rows]


def _stored(row: Row) -> Signal:
    fields = dict(zip(Signal.__struct_fields__, map(utc, row), strict=True))
    fields["payload"] = codec.shown(fields["payload"], what="payload")
    return Signal(**fields)


def _began(rows: Rows) -> Began:
    text = rows[0][0] if rows else None
    return Began() if text is None else msgspec.json.decode(text, type=Began)


def _child(row: Row) -> Child:
    child_id, kind, status, result, error = row
    return Child(id=child_id, kind=kind, status=status, result=codec.shown(result, what="result"), error=error)
