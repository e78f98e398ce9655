"""Prune: delete what is older than its retention, and count what would be deleted."""

from __future__ import annotations

from collections.abc import Mapping

from headway.model.stats import STAT_RETENTIONS
from headway.model.status import Status
from headway.store.ops import Op, Statement, Steps
from headway.store.postgres.engine.verbs import call, first

_OLD_JOBS = """
select coalesce(sum(o.n), 0)::bigint
  from headway.retentions($2, $1::bigint) r
  cross join lateral (
    select count(*) as n
      from headway.jobs j
     where j.status = $2
       and j.kind = r.kind
       and j.queue = r.queue
       and j.finished_at < headway.now() - r.kept_ms * interval '1 millisecond'
       and not exists (select from headway.edges e
                         join headway.jobs m on m.id = e.child_id
                        where e.parent_id = j.id and e.fence in (m.joining, -1) and m.finished_at is null
                          and (e.fence > 0 or headway.is_called(j.id)))) o
"""
_OLD_EVENTS = """
select count(*)
  from headway.events e
 where e.status = $2
   and e.handled_at < headway.now() - $1::bigint * interval '1 millisecond'
"""
_OLD_FIRES = """
select count(*)
  from headway.fires f
 where f.event_id is null
   and f.fired_at < headway.now() - $1::bigint * interval '1 millisecond'
"""
_OLD_AUDIT = """
select count(*)
  from headway.audit a
  left join headway.audit_seals s on s.n = a.seal
 where coalesce(s.newest_at, a.at) < headway.now() - $1::bigint * interval '1 millisecond'
"""
_OLD_STATS = """
select count(*)
  from headway.stats s
 where s.span = $2
   and s.at < headway.now() - $1::bigint * interval '1 millisecond'
"""
_OLD_ERRORS = """
select count(*)
  from headway.errors e
 where e.last_seen_at < headway.now() - $1::bigint * interval '1 millisecond'
"""


class PruneVerbs:
    def prune(self, status: Status, *, older_than_ms: int, limit: int) -> Op[int]:
        return call("select headway.prune($1, $2::bigint, $3::integer)", [status, older_than_ms, limit], first)

    def prunable(self, kept_ms: Mapping[str, int]) -> Op[dict[str, int]]:
        def steps() -> Steps[dict[str, int]]:
            found = {}
            for name, older_than_ms in kept_ms.items():
                found[name] = first((yield _older(name, older_than_ms)))
            return found

        return Op(steps, writes=False)


def _older(retention: str, older_than_ms: int) -> Statement:
    """Counts what the retention of this name would delete: of jobs, it is the name of a status."""
    match retention:
        case "events":
            return Statement(_OLD_EVENTS, [older_than_ms, "handled"])
        case "failed_events":
            return Statement(_OLD_EVENTS, [older_than_ms, "failed"])
        case "fires":
            return Statement(_OLD_FIRES, [older_than_ms])
        case "audit":
            return Statement(_OLD_AUDIT, [older_than_ms])
        case "errors":
            return Statement(_OLD_ERRORS, [older_than_ms])
        case "stats_minutes" | "stats_hours" | "stats_days":
            return Statement(_OLD_STATS, [older_than_ms, STAT_RETENTIONS[retention]])
        case status:
            return Statement(_OLD_JOBS, [older_than_ms, status])
