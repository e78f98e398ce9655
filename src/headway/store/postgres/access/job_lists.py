"""Lists of jobs for bulk actions."""

from __future__ import annotations

from headway.model.job_list import KEPT_MS, JobListPart, NewJobList
from headway.store.ops import Op, Rows
from headway.store.postgres.engine.verbs import call, first, nothing, read


class JobListVerbs:
    def keep_list(self, jobs: NewJobList) -> Op[None]:
        return call(
            "select headway.keep_list($1::uuid, $2::uuid, $3, $4::json, $5::uuid[])",
            [jobs.token, jobs.tenant_id, jobs.key_id, jobs.action, list(jobs.ids)],
            nothing,
        )

    def read_list(self, token: str, *, tenant_id: str | None, key_id: str, limit: int) -> Op[JobListPart | None]:
        op: Op[JobListPart | None] = read(
            "select action, total, position, ids from"
            " headway.read_list($1::uuid, $2::uuid, $3, $4::bigint, $5::integer)",
            [token, tenant_id, key_id, KEPT_MS, limit],
            _part,
        )
        return op

    def advance_list(self, token: str, *, tenant_id: str | None, key_id: str, position: int) -> Op[None]:
        return call(
            "select headway.advance_list($1::uuid, $2::uuid, $3, $4::integer)",
            [token, tenant_id, key_id, position],
            nothing,
        )

    def prune_lists(self) -> Op[int]:
        return call("select headway.prune_lists($1::bigint)", [KEPT_MS], first)


def _part(rows: Rows) -> JobListPart | None:
    if not rows:
        return None
    action, total, position, ids = rows[0]
    return JobListPart(action=action, total=total, position=position, ids=tuple(map(str, ids)))
