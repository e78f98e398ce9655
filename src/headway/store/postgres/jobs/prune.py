"""Prune: delete what is older than its retention, and count what would be deleted."""

from __future__ import annotations

from collections.abc import Mapping

from headway.model.status import Status
from headway.store.ops import Op, Statement, Steps
from headway.store.postgres.engine.verbs import call, first

_PRUNABLE_JOBS = """
select count(*)
  from headway.jobs j
 where j.status = $2
   and j.finished_at < headway.now() - $1::bigint * interval '1 millisecond'
   and not exists (select from headway.edges e
                     join headway.jobs m on m.id = e.child_id
                    where e.parent_id = j.id and e.fence = m.joining and m.finished_at is null)
"""
_PRUNABLE_EVENTS = """
select count(*)
  from headway.events e
 where e.status = 'handled'
   and e.handled_at < headway.now() - $1::bigint * interval '1 millisecond'
"""
_PRUNABLE = {
    "events": _PRUNABLE_EVENTS,
    "failed_events": _PRUNABLE_EVENTS.replace("'handled'", "'failed'"),
    "fires": """
select count(*)
  from headway.fires f
 where f.event_id is null
   and f.fired_at < headway.now() - $1::bigint * interval '1 millisecond'
""",
    "audit": "select count(*) from headway.audit a where a.at < headway.now() - $1::bigint * interval '1 millisecond'",
}


class PruneVerbs:
    def prune(self, status: Status, *, older_than_ms: int, limit: int) -> Op[int]:
        return call("select headway.prune($1, $2::bigint, $3::integer)", [status, older_than_ms, limit], first)

    def prune_audit(self, *, older_than_ms: int, limit: int) -> Op[int]:
        return call("select headway.prune_audit($1::bigint, $2::integer)", [older_than_ms, limit], first)

    def prunable(self, kept_ms: Mapping[str, int]) -> Op[dict[str, int]]:
        def steps() -> Steps[dict[str, int]]:
            found = {}
            for name, older_than_ms in kept_ms.items():
                sql = _PRUNABLE.get(name, _PRUNABLE_JOBS)
                rows = yield Statement(sql, [older_than_ms] if name in _PRUNABLE else [older_than_ms, name])
                found[name] = rows[0][0]
            return found

        return Op(steps, writes=False)
