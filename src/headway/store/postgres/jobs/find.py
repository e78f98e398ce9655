"""Find: lists of jobs by their filters, in each order by the index that suits it."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Job
from headway.model.listing import Cursor, Filter, Order, several
from headway.model.status import STATUSES
from headway.store.ops import Op, Rows, Statement, Steps
from headway.store.paging import first_edge, in_pieces, reached, search_start
from headway.store.postgres.engine.decode import job
from headway.store.postgres.jobs.reads import JOB
from headway.store.postgres.stats.errors import not_added

# a line whose parameter is null is removed by the planner: reads are planned with their values
_FILTER = """
 where ($1::uuid is null or j.tenant_id = $1)
   and ($3::text[] is null or j.kind = any ($3))
   and ($4::text is null or j.queue = $4)
   and ($5::text[] is null or j.source = any ($5))
   and ($6::text is null or j.correlation_id = $6)
   and ($7::text is null or j.unique_key = $7)
   and ($8::uuid is null or j.retry_of = $8)
   and ($9::uuid[] is null or j.group_id = any ($9))
   and ($10::uuid is null or j.parent_id = $10)
   and ($11::timestamptz is null or j.created_at > $11)
   and ($12::timestamptz is null or j.created_at < $12)
   and ($13::text[] is null or j.tags @> $13)
   and ($14::text[] is null or j.tags && $14)
   and ($15::jsonb[] is null or j.meta::jsonb @> all ($15))
   and ($16::text[] is null or j.train = any ($16))
   and ($17::uuid is null or j.id >= $17)
   and ($18::uuid is null or j.id <= $18)
   and ($19::uuid[] is null or j.id = any ($19))
   and ($20::text is null
        or exists (
             select
               from headway.job_errors x
              where x.job_id = j.id and x.fingerprint = $20 and x.fence = j.fence - (j.status = 'running')::integer)
        or j.id::text || '/' || j.fence - (j.status = 'running')::integer = any ($21::text[]))
"""
_FIRST_ID, _LAST_ID = "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"
_OF_STATUS = "   and ($2::text is null or j.status = $2)"
_LIMIT = " limit $22::integer"
# what follows the cursor; $23 is its id, $24 its priority, $25 its position; in order of ids, $24 is the edge of the
# search
_AFTER: dict[Order, str] = {
    "newest": "   and ($23::uuid is null or j.id < $23) and ($24::uuid is null or j.id >= $24)",
    "oldest": "   and ($23::uuid is null or j.id > $23) and ($24::uuid is null or j.id <= $24)",
    "priority": "   and ($23::uuid is null or (j.priority, j.id) > ($24::smallint, $23))",
}
_SORTED: dict[Order, str] = {
    "newest": " order by j.id desc",
    "oldest": " order by j.id",
    "priority": " order by j.priority, j.id",
}
# as a range of (status, id), which only the index jobs_ended serves: behind a backlog of newer jobs the planner would
# walk back through all of it
_FINISHED: dict[Order, str] = {
    "newest": """
   and j.finished_at is not null
   and (j.status, j.id) >= ($2::text, coalesce($24::uuid, '00000000-0000-0000-0000-000000000000'::uuid))
   and (j.status, j.id) < ($2, coalesce($23::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))
 order by j.status desc, j.id desc
""",
    "oldest": """
   and j.finished_at is not null
   and (j.status, j.id) > ($2::text, coalesce($23::uuid, '00000000-0000-0000-0000-000000000000'::uuid))
   and (j.status, j.id) <= ($2, coalesce($24::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))
 order by j.status, j.id
""",
}
# by the edges and a flow's journal, and where a child was retried by a new job, by retry_of: an index of parent_id
# would cost every settle
_KIN = """
recursive kin (id) as (
  select e.parent_id from headway.edges e where e.child_id = $10::uuid and e.fence <> 0
  union
  select case when f.value ->> 'id' ~ '^[0-9a-f-]{36}$' then (f.value ->> 'id')::uuid end
    from headway.flow_journal f
   where f.job_id = $10 and (f.kind = 'called' or f.kind = 'done' and starts_with(f.place, 'enqueue:'))
  union
  select r.retry_of from kin k join headway.jobs r on r.id = k.id where r.retry_of is not null
),
"""
# the tag that is searched for: the first of those that a job must have, or each of which it must have one
_WANTED = "coalesce(($13::text[])[1:1], $14::text[])"

_JOBS_WITH_TAGS = f"""
headway.jobs j
  join (select distinct g.job_id from headway.job_tags g where g.tag = any ({_WANTED})) t on t.job_id = j.id
"""  # noqa: S608 - texts of this file

_JOBS_WITH_ERROR = """
headway.jobs j
  join (select g.job_id from headway.job_errors g where g.fingerprint = $20
        union
        select split_part(n.execution, '/', 1)::uuid from unnest($21::text[]) as n (execution)) t on t.job_id = j.id
"""


def _every(order: Order) -> str:
    return JOB + _FILTER + _OF_STATUS + _AFTER[order] + _SORTED[order] + _LIMIT


def _finished(order: Order) -> str:
    return JOB + _FILTER + _FINISHED[order] + _LIMIT


def _gathered(order: Order, of: str = "headway.jobs j", first: str = "") -> str:
    """All ids that match first, then the page of them: for jobs that are few and anywhere, found by the partial index
    of their status, not by walking back through everything that is newer; and for orders that have no index."""
    return f"""
with {first} matching as materialized (
  select j.id, j.priority from {of} {_FILTER} {_OF_STATUS} {_AFTER[order]}
), page as (
  select j.id from matching j {_SORTED[order]} {_LIMIT}
)
{JOB}
  join page p on p.id = j.id
 {_SORTED[order]}
"""  # noqa: S608 - texts of this file


def _of_tenant(order: Order) -> str:
    """The page of each status, then the page of them. As a range of (status, id), which only the index jobs_tenant
    serves: the planner would walk through what other tenants have."""
    first, last = _FIRST_ID, _LAST_ID
    if order == "newest":
        behind, way = (
            f">= (s.status, coalesce($24::uuid, {first}::uuid))"
            f" and (j.status, j.id) < (s.status, coalesce($23::uuid, {last}::uuid))",
            "desc",
        )
    else:
        behind, way = (
            f"<= (s.status, coalesce($24::uuid, {last}::uuid))"
            f" and (j.status, j.id) > (s.status, coalesce($23::uuid, {first}::uuid))",
            "",
        )
    return f"""
with page as materialized (
  select t.id
    from unnest(case when $2::text is null then array{list(STATUSES)} else array[$2] end) as s (status)
    cross join lateral (
      select j.id
        from headway.jobs j
        {_FILTER}
         and (j.status, j.id) {behind}
       order by j.status {way}, j.id {way}
       {_LIMIT}
    ) t
   order by t.id {way}
   {_LIMIT}
)
{JOB}
  join page p on p.id = j.id
 {_SORTED[order]}
"""  # noqa: S608 - texts of this file


def _tagged(order: Order) -> str:
    """From the tags, each in order of the ids, as far as the page needs."""
    if order == "priority":
        return _gathered(order, _JOBS_WITH_TAGS)
    ahead, within, way = ("<", ">=", "desc") if order == "newest" else (">", "<=", "")
    return f"""
with page as materialized (
  select distinct t.id
    from unnest({_WANTED}) as w (tag)
    cross join lateral (
      select g.job_id as id
        from headway.job_tags g
        -- a limit of its own: the planner may not turn to the jobs first
        cross join lateral (select from headway.jobs j {_FILTER} {_OF_STATUS} and j.id = g.job_id limit 1) j
       where g.tag = w.tag
         and ($23::uuid is null or g.job_id {ahead} $23)
         and ($24::uuid is null or g.job_id {within} $24)
         and ($1::uuid is null or g.tenant_id = $1)
       order by g.job_id {way}
       {_LIMIT}
    ) t
   order by t.id {way}
   {_LIMIT}
)
{JOB}
  join page p on p.id = j.id
 {_SORTED[order]}
"""  # noqa: S608 - texts of this file


def _erred(order: Order) -> str:
    """From the jobs that had this error last, in order of their ids, and from those that are not noted yet."""
    if order == "priority":
        return _gathered(order, _JOBS_WITH_ERROR)
    ahead, within, way = ("<", ">=", "desc") if order == "newest" else (">", "<=", "")
    return f"""
with page as materialized (
  select t.id
    from (
      (select g.job_id as id
         from headway.job_errors g
         -- a limit of its own: the planner may not turn to the jobs first
         cross join lateral (select from headway.jobs j {_FILTER} {_OF_STATUS} and j.id = g.job_id limit 1) j
        where g.fingerprint = $20
          and ($23::uuid is null or g.job_id {ahead} $23)
          and ($24::uuid is null or g.job_id {within} $24)
        order by g.job_id {way}
        {_LIMIT})
      union
      select j.id
        from unnest($21::text[]) as n (execution)
        cross join lateral (
          select j.id
            from headway.jobs j
            {_FILTER} {_OF_STATUS} {_AFTER[order]} and j.id = split_part(n.execution, '/', 1)::uuid
           limit 1) j
    ) t
   order by t.id {way}
   {_LIMIT}
)
{JOB}
  join page p on p.id = j.id
 {_SORTED[order]}
"""  # noqa: S608 - texts of this file


def _line(aside: str) -> str:
    return f"""
  (select j.id, j.priority, j.position
    from headway.jobs j
    {_FILTER}
     and j.status = 'queued'
     and j.limited_by is {aside}
     and (j.priority, j.position, j.id) > ($24::smallint, $25::bigint, $23::uuid)
   order by j.queue, j.priority, j.position, j.id
   {_LIMIT})
"""  # noqa: S608 - texts of this file


# a queue's line as claims walk it, with the jobs that a limit keeps out of their sight at their positions
_RUN = f"""
with line as materialized ({_line("null")} union all {_line("not null")})
{JOB}
  join (select l.id from line l order by l.priority, l.position, l.id {_LIMIT}) p on p.id = j.id
 where $2::text is null or $2 = 'queued'
 order by j.priority, j.position, j.id
"""  # noqa: S608 - texts of this file


def _edge(scan: str, order: Order) -> str:
    """The id at which a search has walked over $2 + 1 rows of the index that this scan walks, without its filter. $1 is
    the cursor, $3 the statuses, tags or error to walk, $4 the tenant."""
    ahead, way = ("<", "desc") if order == "newest" else (">", "")
    from_, to = ("$1::uuid", _FIRST_ID) if order == "newest" else (_LAST_ID, "$1::uuid")
    of_status = f"""
    (j.status, j.id) < (n.name, {from_})
       and (j.status, j.id) > (n.name, {to})
     order by j.status {way}, j.id {way}
"""
    of_job = f"j.job_id {ahead} $1::uuid order by j.job_id {way}"
    id_, walk = {
        "every": ("id", f"headway.jobs j where j.id {ahead} $1::uuid order by j.id {way}"),
        "finished": ("id", f"headway.jobs j where j.finished_at is not null and {of_status}"),
        "tenant": ("id", f"headway.jobs j where j.tenant_id = $4::uuid and {of_status}"),
        "tagged": (
            "job_id",
            f"headway.job_tags j where ($4::uuid is null or j.tenant_id = $4) and j.tag = n.name and {of_job}",
        ),
        "erred": ("job_id", f"headway.job_errors j where j.fingerprint = n.name and {of_job}"),
    }[scan]
    return f"""
select t.id
  from unnest($3::text[]) as n (name)
  cross join lateral (
    select j.{id_} as id
      from {walk}
     limit 1
    offset $2::integer
  ) t
"""  # noqa: S608 - texts of this file


_BY_ID: tuple[Order, ...] = ("newest", "oldest")
_SQL: dict[tuple[str, Order], str] = {
    **{("every", order): _every(order) for order in _BY_ID},
    **{("finished", order): _finished(order) for order in _BY_ID},
    **{("gathered", order): _gathered(order) for order in _AFTER},
    **{("spawned", order): _gathered(order, "kin k join headway.jobs j on j.id = k.id", _KIN) for order in _AFTER},
    **{("tagged", order): _tagged(order) for order in _AFTER},
    **{("erred", order): _erred(order) for order in _AFTER},
    **{("tenant", order): _of_tenant(order) for order in _BY_ID},
    ("line", "run"): _RUN,
}
_EDGES = {
    (scan, order): _edge(scan, order) for scan in ("every", "finished", "tenant", "tagged", "erred") for order in _BY_ID
}
_ENDS: dict[Order, str] = {"newest": _LAST_ID.strip("'"), "oldest": _FIRST_ID.strip("'")}
_LEAST = Cursor("00000000-0000-0000-0000-000000000000", -32_768, -(2**63))


class FindVerbs:
    def find(
        self,
        where: Filter,
        *,
        limit: int,
        order: Order = "newest",
        after: Cursor | None = None,
        raw: bool = False,
        search_limit: int | None = None,
    ) -> Op[list[Job]]:
        scan = _scan(where, order)
        sql = _SQL[scan, order]
        params = _params(where)
        fresh: list[str] | None = None  # executions that are not noted as its yet
        edge: str | None = None  # the last id of the search

        def page(count: int, last: Cursor | None) -> Steps[Rows]:
            match order:
                case "run":
                    last = last or _LEAST
                    keys = [last.id, last.priority, last.position]
                case "priority":
                    keys = [None, None] if last is None else [last.id, last.priority]
                case _:
                    keys = [None if last is None else last.id, edge]
            return (yield Statement(sql, [*params, fresh, count, *keys]))

        def steps() -> Steps[list[Job]]:
            nonlocal fresh, edge
            if where.error is not None:
                fresh = yield from not_added(where.tenant_id, where.error)
            if search_limit is not None and where.is_a_search and (scan, order) in _EDGES:
                rows = yield Statement(_EDGES[scan, order], _walk(scan, where, order, after, search_limit))
                edge = first_edge([str(row[0]) for row in rows], where, order)
            return reached((yield from in_pieces(limit, after, page, partial(job, raw=raw))), limit, edge)

        return Op(steps, writes=False)


def _walk(scan: str, where: Filter, order: Order, after: Cursor | None, most: int) -> list[Any]:
    """The parameters of an edge."""
    start = search_start(where, order, after, _ENDS[order])
    names: dict[str, list[str]] = {
        "every": [""],
        "finished": [str(where.status)],
        "tenant": list(STATUSES) if where.status is None else [where.status],
        "tagged": list(where.tags[:1] if where.tags else where.any_tags or ()),
        "erred": [str(where.error)],
    }
    of_tenant = [where.tenant_id] if scan in ("tenant", "tagged") else []
    return [start, most - 1, names[scan], *of_tenant]


def _scan(where: Filter, order: Order) -> str:
    if order == "run":
        return "line"
    if where.parent_id is not None:
        return "spawned"
    if (where.tags or where.any_tags) and where.group_id is None and where.retry_of is None:
        return "tagged"
    if where.error is not None and where.group_id is None and where.retry_of is None:
        return "erred"
    if order == "priority":
        return "gathered"
    if where.tenant_id not in (None, DEFAULT_TENANT_ID) and not _has_own_index(where):
        return "tenant"
    match where.status:
        case "running" | "scheduled" | "held" | "waiting":
            return "gathered"
        case "succeeded" | "dead" | "failed" | "canceled":
            return "finished"
    return "every"


def _has_own_index(where: Filter) -> bool:
    return not (where.ids is None and where.id_from is None and where.group_id is None and where.retry_of is None)


def _params(where: Filter) -> list[Any]:
    return [
        where.tenant_id,
        where.status,
        several(where.kind),
        where.queue,
        several(where.source),
        where.correlation_id,
        where.unique_key,
        where.retry_of,
        several(where.group_id),
        where.parent_id,
        where.created_after,
        where.created_before,
        several(where.tags),
        several(where.any_tags),
        None if where.meta is None else [_nested(path, value) for path, value in where.meta],
        several(where.train),
        where.id_from,
        where.id_to,
        several(where.ids),
        where.error,
    ]


def _nested(path: str, value: Any) -> str:
    """The smallest meta that has this scalar there: in JSON, only an object with the same scalar there contains it."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return msgspec.json.encode(value).decode()
