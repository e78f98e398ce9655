"""Queues: paused or not, and what is in them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headway.model.fleet import MOST_QUEUED, Queue
from headway.store.ops import Op, Row
from headway.store.postgres.engine.decode import utc
from headway.store.postgres.engine.verbs import call, nothing, read

_LIVE = """
live as (
  select j.queue as name, j.status, count(*) as n, min(j.queued_at) filter (where j.status = 'queued') as oldest,
         count(j.limited_by) as limited
    from headway.jobs j
   where j.status in ('queued', 'scheduled', 'held', 'running', 'waiting')
     and ($1::uuid is null or j.tenant_id = $1)
   group by j.queue, j.status
)
"""
# a skip scan over the names, and of each the first in its line
_QUEUED = f"""
recursive names (name) as (
  (select j.queue from headway.jobs j where j.status = 'queued' and j.limited_by is null order by j.queue limit 1)
  union all
  select (select j.queue
            from headway.jobs j
           where j.status = 'queued' and j.limited_by is null and j.queue > n.name
           order by j.queue
           limit 1)
    from names n
   where n.name is not null
), waiting as (
  select f.*
    from names n
    cross join lateral (
      select j.tenant_id, j.queue, j.queued_at, false as aside
        from headway.jobs j
       where j.queue = n.name and j.status = 'queued' and j.limited_by is null
       order by j.queue, j.priority, j.position, j.id
       limit {MOST_QUEUED}) f
   where n.name is not null
  union all
  (select j.tenant_id, j.queue, j.queued_at, true
     from headway.jobs j
    where j.limited_by is not null and j.status = 'queued'
    limit {MOST_QUEUED})
), live as (
  select w.queue as name, 'queued' as status, count(*) as n, min(w.queued_at) as oldest,
         count(*) filter (where w.aside) as limited
    from waiting w
   where $1::uuid is null or w.tenant_id = $1
   group by w.queue
)
"""  # noqa: S608 - texts of this file


def _queues(live: str) -> str:
    return f"""
with {live}, per_queue as (
  select l.name, jsonb_object_agg(l.status, l.n) as counts, min(l.oldest) as oldest, sum(l.limited) as limited
    from live l
   group by l.name
)
select name, q.paused_at is not null, q.paused_at, q.paused_by, p.counts, p.oldest, coalesce(w.workers, 0), w.kinds,
       coalesce(q.fair, false), q.max_running, coalesce(p.limited, 0)::integer, q.reserved_by, q.reserved_until,
       q.retention
  from per_queue p
  full join headway.queue_settings($1) q using (name)
  full join (select l.queue as name, l.workers, l.kinds from headway.listening($1) l) w using (name)
 order by name
"""  # noqa: S608 - texts of this file


_EVERY, _ONLY_QUEUED = _queues(_LIVE), _queues(_QUEUED)


class QueueVerbs:
    def pause(self, queue: str, *, actor: str | None) -> Op[None]:
        return call("select headway.pause($1, $2)", [queue, actor], nothing)

    def resume(self, queue: str, *, actor: str | None) -> Op[None]:
        return call("select headway.resume($1, $2)", [queue, actor], nothing)

    def set_retention(self, queue: str, retention: Mapping[str, int] | None, *, actor: str | None) -> Op[None]:
        text = None if retention is None else msgspec.json.encode(retention).decode()
        return call("select headway.set_retention($1, $2::jsonb, $3)", [queue, text, actor], nothing)

    def queues(self, *, tenant_id: str | None, queued_only: bool = False) -> Op[list[Queue]]:
        sql = _ONLY_QUEUED if queued_only else _EVERY
        return read(sql, [tenant_id], lambda rows: [_queue(row) for row in rows])


def _queue(row: Row) -> Queue:
    name, paused, paused_at, paused_by, counts, oldest, workers, kinds, *order = map(utc, row)
    fair, max_running, limited, reserved_by, reserved_until, retention = order
    return Queue(
        name=name,
        paused=bool(paused),
        paused_at=paused_at,
        paused_by=paused_by,
        counts=msgspec.json.decode(counts) if counts else {},
        oldest_queued_at=oldest,
        workers=workers,
        kinds=tuple(kinds or ()),
        fair=fair,
        max_running=max_running,
        limited=limited,
        reserved_by=reserved_by,
        reserved_until=reserved_until,
        retention=msgspec.json.decode(retention) if retention else None,
    )
