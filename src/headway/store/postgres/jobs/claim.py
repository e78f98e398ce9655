"""Claim: jobs start, show their progress, and are given back unstarted."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.job import Claim, Logged, Report
from headway.store.ops import Op, Rows, Statement, Steps
from headway.store.postgres.engine.verbs import call, first, read

CLAIM = "select * from headway.claim($1::uuid, $2, $3::integer, p_flows => true)"

_FIRST = "select * from headway.first_in_line($1::text[], $2::text[], $3::uuid[])"
_LOGGED = """
select j.id, j.fence, j.log_tail, j.log_end, j.log_said
  from headway.jobs j
 where j.id = any ($1::uuid[])
   and j.status = 'running'
"""

_CLAIM_OF_TENANT = "select * from headway.claim($1::uuid, $2, $3::integer, $4::uuid, p_flows => true)"


class ClaimVerbs:
    def claim(self, worker_id: str, queue: str, limit: int, *, tenant_id: str | None = None) -> Op[list[Claim]]:
        request = Statement(CLAIM, [worker_id, queue, limit])
        if tenant_id is not None:
            request = Statement(_CLAIM_OF_TENANT, [worker_id, queue, limit, tenant_id])

        def steps() -> Steps[list[Claim]]:
            return read_claims((yield request))

        return Op(steps, writes=True, repeatable=False)

    def claimable(self, queues: Sequence[str]) -> Op[list[str]]:
        def steps() -> Steps[list[str]]:
            rows = yield Statement("select headway.claimable($1::text[])", [list(queues)])
            return [name for (name,) in rows]

        return Op(steps, writes=True)

    def first_in_line(
        self, queues: Sequence[str], tenants: Sequence[tuple[str, str]]
    ) -> Op[list[tuple[str, str, str]]]:
        of, ids = [queue for queue, _ in tenants], [tenant_id for _, tenant_id in tenants]

        def steps() -> Steps[list[tuple[str, str, str]]]:
            rows = yield Statement(_FIRST, [list(queues), of, ids])
            return [(queue, tenant_id, kind) for queue, tenant_id, kind in rows]

        return Op(steps, writes=True)

    def take(self, worker_id: str, job_id: str, *, reservation_id: str | None) -> Op[Claim | None]:
        return call(
            "select * from headway.take($1::uuid, $2::uuid, $3::uuid)",
            [worker_id, job_id, reservation_id],
            lambda rows: Claim(*rows[0]) if rows else None,
            repeatable=False,
        )

    def running(self, worker_id: str, *, tenant_id: str | None = None) -> Op[list[tuple[str, int]]]:
        return call("select * from headway.running($1::uuid, $2::uuid)", [worker_id, tenant_id], _pairs)

    def release(self, claims: Sequence[tuple[str, int]], *, delay_ms: int) -> Op[int]:
        return call(
            "select headway.release($1::uuid[], $2::integer[], $3::bigint)",
            [[job_id for job_id, _ in claims], [fence for _, fence in claims], delay_ms],
            first,
        )

    def logged(self, ids: Sequence[str]) -> Op[list[Logged]]:
        return read(_LOGGED, [list(ids)], lambda rows: [Logged(*row) for row in rows])

    def report(self, worker_id: str, reports: Sequence[Report]) -> Op[list[tuple[str, int]]]:
        return call(
            "select * from headway.report($1::uuid, $2::uuid[], $3::integer[], $4::real[], $5::text[], $6::text[],"
            " $7::bigint[], $8::bigint[])",
            [
                worker_id,
                [r.id for r in reports],
                [r.fence for r in reports],
                [r.progress for r in reports],
                [r.note for r in reports],
                [r.tail for r in reports],
                [r.tail_end for r in reports],
                [r.said for r in reports],
            ],
            _pairs,
        )


def read_claims(rows: Rows) -> list[Claim]:
    return [Claim(*row) for row in rows]


def _pairs(rows: Rows) -> list[tuple[str, int]]:
    return [(job_id, fence) for job_id, fence in rows]
