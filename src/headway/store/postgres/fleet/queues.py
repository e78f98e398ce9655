"""Queues: paused or not, and what is in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headway.model.fleet import Queue
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.status import UNFINISHED
from headway.store.ops import Op, Row, Rows
from headway.store.postgres.engine.decode import utc
from headway.store.postgres.engine.verbs import call, nothing, read
from headway.store.postgres.jobs.reads import FIRST_OF, FIRST_OF_TENANT

_LIVE = """
  select j.queue as name, j.status, count(*) as n, min(j.queued_at) filter (where j.status = 'queued') as oldest,
         count(j.limited_by) as limited
    from {jobs} j
   where j.status in ('queued', 'scheduled', 'held', 'running', 'waiting')
     and ($1::uuid is null or j.tenant_id = $1)
   group by j.queue, j.status
"""
_REST = """
, per_queue as (
  select l.name, jsonb_object_agg(l.status, l.n) as counts, min(l.oldest) as oldest, sum(l.limited) as limited
    from live l
   group by l.name
)
select name, q.paused_at is not null, q.paused_at, q.paused_by, p.counts, p.oldest, coalesce(w.workers, 0), w.kinds,
       coalesce(q.fair, true), q.max_running, coalesce(p.limited, 0)::integer, q.reserved_by, q.reserved_until,
       q.retention
  from per_queue p
  full join headway.queue_settings($1) q using (name)
  full join (select l.queue as name, l.workers, l.kinds from headway.listening($1) l) w using (name)
"""
_NAMED = " where $3::text[] is null or name = any ($3)"
_ALL = f"with live as ({_LIVE.format(jobs='headway.jobs')}) {_REST} where $2::text[] is null or name = any ($2)"
# of each other status the first $2, but at least 1,000 that limits have set aside: that a queue has some is reported
# however few are counted
_OTHERS = " union all ".join(
    "(select j.queue, j.status, j.queued_at, j.limited_by, j.tenant_id from headway.jobs j"  # noqa: S608
    f" where {FIRST_OF[status]} limit {'greatest($2::integer, 1000)' if status == 'limited' else '$2::integer'})"
    for status in ("limited", "scheduled", "held", "running", "waiting")
)
_EVERY_LINE = """
  (select j.queue, j.priority
     from headway.jobs j
    where j.status = 'queued' and j.limited_by is null
    order by j.queue, j.priority
    limit 1)
  union all
  select n.queue, n.priority
    from lines l
    cross join lateral (
      select j.queue, j.priority
        from headway.jobs j
       where j.status = 'queued' and j.limited_by is null and (j.queue, j.priority) > (l.queue, l.priority)
       order by j.queue, j.priority
       limit 1) n
"""
_LINES_OF_NAMES = """
  select n.name, (select min(j.priority)
                    from headway.jobs j
                   where j.status = 'queued' and j.limited_by is null and j.queue = n.name)
    from unnest($3::text[]) as n (name)
  union all
  select l.queue, (select min(j.priority)
                     from headway.jobs j
                    where j.status = 'queued' and j.limited_by is null and j.queue = l.queue
                      and j.priority > l.priority)
    from lines l
   where l.priority is not null
"""
# of each queue and priority the first $2 in the order of claims, and when the first of them was queued
_SOME = """
with recursive lines (queue, priority) as (
  {lines}
), queued as (
  select l.queue as name, 'queued' as status, c.n, f.queued_at as oldest, 0 as limited
    from (select * from lines where priority is not null limit 10000) l
    cross join lateral (
      select count(*) as n
        from (select {tenant}
                from headway.jobs j
               where j.status = 'queued' and j.limited_by is null and j.queue = l.queue and j.priority = l.priority
               limit $2::integer) j
       where {is_wanted}) c
    left join lateral (
      select j.queued_at
        from headway.jobs j
       where j.status = 'queued' and j.limited_by is null and j.queue = l.queue and j.priority = l.priority
         and {is_wanted}
       order by j.queue, j.priority, j.position, j.id
       limit 1) f on true
   where c.n > 0
), live as (
  select q.name, q.status, least(sum(q.n), $2::integer) as n, min(q.oldest) as oldest, sum(q.limited) as limited
    from (select * from queued union all ({others})) q
   group by q.name, q.status
)
"""
_OTHER_LIVE = _LIVE.format(jobs=f"({_OTHERS})")


def _some(lines: str, of_default: bool) -> str:
    # without the tenant it is read from the index alone
    tenant, is_wanted = ("j.tenant_id", "j.tenant_id = $1") if of_default else ("", "true")
    return _SOME.format(lines=lines, tenant=tenant, is_wanted=is_wanted, others=_OTHER_LIVE) + _REST + _NAMED


_SOME_OF_ALL = {named: _some(_LINES_OF_NAMES if named else _EVERY_LINE, False) for named in (False, True)}
_SOME_OF_DEFAULT = {named: _some(_LINES_OF_NAMES if named else _EVERY_LINE, True) for named in (False, True)}
_OF_STATUS = " union all ".join(
    "(select j.queue, j.status, j.queued_at, j.limited_by, j.tenant_id from headway.jobs j"  # noqa: S608
    f" where {FIRST_OF_TENANT[status]} limit $2::integer)"
    for status in UNFINISHED
)
_SOME_OF_TENANT = f"with live as ({_LIVE.format(jobs=f'({_OF_STATUS})')}) {_REST} {_NAMED}"


class QueueVerbs:
    def pause(self, queue: str, *, actor: str | None) -> Op[None]:
        return call("select headway.pause($1, $2)", [queue, actor], nothing)

    def resume(self, queue: str, *, actor: str | None) -> Op[None]:
        return call("select headway.resume($1, $2)", [queue, actor], nothing)

    def set_retention(self, queue: str, retention: Mapping[str, int] | None, *, actor: str | None) -> Op[None]:
        text = None if retention is None else msgspec.json.encode(retention).decode()
        return call("select headway.set_retention($1, $2::jsonb, $3)", [queue, text, actor], nothing)

    def queues(
        self, *, tenant_id: str | None, most: int | None = None, names: Sequence[str] | None = None
    ) -> Op[list[Queue]]:
        wanted = None if names is None else list(names)
        if most is None:
            return read(_ALL, [tenant_id, wanted], _queues)
        if tenant_id is None or tenant_id == DEFAULT_TENANT_ID:
            sql = (_SOME_OF_ALL if tenant_id is None else _SOME_OF_DEFAULT)[names is not None]
        else:
            sql = _SOME_OF_TENANT
        return read(sql, [tenant_id, most, wanted], _queues)


def _queues(rows: Rows) -> list[Queue]:
    return sorted(map(_queue, rows), key=lambda queue: queue.name)


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
        kinds=tuple(sorted(kinds or ())),
        fair=fair,
        max_running=max_running,
        limited=limited,
        reserved_by=reserved_by,
        reserved_until=reserved_until,
        retention=msgspec.json.decode(retention) if retention else None,
    )
