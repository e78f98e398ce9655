"""Errors: executions that ended badly, grouped by fingerprint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.model.error_groups import MOST_READ, ErrorDelta, ErrorFilter, ErrorGroup, by_row_key, capped, groups_of
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.postgres.engine.decode import plain
from headway.store.postgres.engine.verbs import call, first, read

_TAKE = "select * from headway.take_error_deltas($1::integer)"
_KNOWN = """
select e.tenant_id, e.fingerprint, e.queue
  from headway.errors e
 where e.tenant_id = any ($1::uuid[])
"""
_ADD = """
select headway.add_errors(
  $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::bigint[],
  $10::timestamptz[], $11::timestamptz[], $12::uuid[], $13::integer[], $14::text[], $15::text[],
  $16::uuid[], $17::uuid[], $18::integer[], $19::text[])
"""
_COLUMNS = (
    *("tenant_id", "fingerprint", "queue", "kind", "status", "type", "place", "count", "dead"),
    *("first_seen_at", "last_seen_at", "job_id", "fence", "message"),
)
_DELTAS = """
select d.at, d.tenant_id, d.queue, d.kind, d.job_id, d.fence, d.status, d.dead, d.error
  from headway.error_deltas d
 where ($1::uuid is null or d.tenant_id = $1)
 order by d.seq
"""
_DELTAS_OF_JOB = """
select d.at, d.tenant_id, d.queue, d.kind, d.job_id, d.fence, d.status, d.dead, d.error
  from headway.error_deltas d
 where d.job_id = $1::uuid and ($2::uuid is null or d.tenant_id = $2)
 order by d.seq desc
"""
_OF_JOB = """
select e.fingerprint
  from headway.job_errors e
 where e.job_id = $1::uuid and ($2::uuid is null or e.tenant_id = $2)
"""
# both in one statement, so in one snapshot: what is folded meanwhile is in one of them
_ERRORS = f"""
(select {", ".join(f"e.{name}" for name in _COLUMNS)}, case when $2::text is null then '' else e.sample end
   from headway.errors e
  where ($1::uuid is null or e.tenant_id = $1)
    and ($2 is null or e.fingerprint = $2)
    and ($3::timestamptz is null or e.last_seen_at >= $3)
    and ($4::text[] is null or e.kind = any ($4))
    and ($5::text[] is null or e.queue = any ($5))
  order by e.last_seen_at desc
  limit {MOST_READ})
union all
select d.tenant_id, null, d.queue, d.kind, d.status, null, null, 1, d.dead::integer, d.at, d.at, d.job_id, d.fence, '',
       d.error
  from headway.error_deltas d
 where ($1 is null or d.tenant_id = $1)
   and ($4 is null or d.kind = any ($4))
   and ($5 is null or d.queue = any ($5))
"""  # noqa: S608 - texts of this file


class ErrorVerbs:
    def fold_errors(self, *, limit: int) -> Op[int]:
        def steps() -> Steps[int]:
            deltas = [_delta(row) for row in (yield Statement(_TAKE, [limit]))]
            if deltas:
                tenants = sorted({delta.tenant_id for delta in deltas})
                known = {(str(row[0]), row[1], row[2]) for row in (yield Statement(_KNOWN, [tenants]))}
                found = capped(groups_of(deltas), known)
                yield Statement(_ADD, [*_group_columns(by_row_key(found)), *_job_columns(found)])
            return len(deltas)

        return Op(steps, writes=True, repeatable=False, atomic=True)

    def errors(self, where: ErrorFilter) -> Op[list[ErrorGroup]]:
        kinds, queues = (None if names is None else list(names) for names in (where.kind, where.queue))

        params = [where.tenant_id, where.fingerprint, where.since, kinds, queues]
        return read(_ERRORS, params, lambda rows: [group for group in map(_group, rows) if where.has(group)])

    def error_of(self, job_id: str, *, tenant_id: str | None) -> Op[str | None]:
        def steps() -> Steps[str | None]:
            groups = groups_of(map(_delta, (yield Statement(_DELTAS_OF_JOB, [job_id, tenant_id]))))
            noted = yield Statement(_OF_JOB, [job_id, tenant_id])
            return next(
                (each for each in (*(group.fingerprint for group in groups), *(name for (name,) in noted))), None
            )

        return Op(steps, writes=False)

    def prune_errors(self, *, older_than_ms: int, limit: int) -> Op[int]:
        return call("select headway.prune_errors($1::bigint, $2::integer)", [older_than_ms, limit], first)


def not_added(tenant_id: str | None, fingerprint: str) -> Steps[list[str]]:
    """The executions that ended with this error a moment ago, as `id/fence`."""
    groups = groups_of(map(_delta, (yield Statement(_DELTAS, [tenant_id]))))
    return sorted({f"{group.job_id}/{group.fence}" for group in groups if group.fingerprint == fingerprint})


def _delta(row: Row) -> ErrorDelta:
    return ErrorDelta(*map(plain, row))


def _group(row: Row) -> ErrorGroup:
    values: dict[str, Any] = dict(zip((*_COLUMNS, "sample"), map(plain, row), strict=True))
    if values["fingerprint"] is not None:
        return ErrorGroup(**values)
    delta = {name: values[name] for name in ("tenant_id", "queue", "kind", "job_id", "fence", "status")}
    (group,) = groups_of(
        [ErrorDelta(at=values["last_seen_at"], dead=bool(values["dead"]), error=values["sample"], **delta)]
    )
    return group


def _group_columns(groups: Sequence[ErrorGroup]) -> list[list[Any]]:
    return [[getattr(group, name) for group in groups] for name in (*_COLUMNS, "sample")]


def _job_columns(groups: Sequence[ErrorGroup]) -> list[list[Any]]:
    """The last of each job, in order of the jobs."""
    last = {group.job_id: group for group in sorted(groups, key=lambda each: (each.job_id, each.fence))}
    names = ("job_id", "tenant_id", "fence", "fingerprint")
    return [[getattr(group, name) for group in last.values()] for name in names]
