"""Ends that are decided by the policy of the job's own row, for workers in any language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.model.reported import Completion, Ended, Failure
from headway.store.ops import Op, Rows
from headway.store.postgres.engine.arrays import column
from headway.store.postgres.engine.verbs import call

_COMPLETE = "select * from headway.complete_many($1::uuid, $2::uuid[], $3::integer[], $4::json[], $5::uuid)"
_FAIL = (
    "select * from headway.fail_many($1::uuid, $2::uuid[], $3::integer[], $4::text[], $5::boolean[], $6::bigint[],"
    " $7::integer[], $8::text[], $9::text[], $10::text[], $11::uuid)"
)


class PolicyVerbs:
    def complete(self, worker_id: str, completions: Sequence[Completion], *, tenant_id: str | None = None) -> Op[Ended]:
        results = column(completions, "result", None)
        return call(_COMPLETE, [worker_id, *_claims(completions), results, tenant_id], _ended)

    def fail(self, worker_id: str, failures: Sequence[Failure], *, tenant_id: str | None = None) -> Op[Ended]:
        values = [
            column(failures, "retry", True),
            column(failures, "delay_ms", None),
            column(failures, "exit_code", None),
            column(failures, "stdout_tail", None),
            column(failures, "stderr_tail", None),
            column(failures, "status", "failed"),
            tenant_id,
        ]
        return call(_FAIL, [worker_id, *_claims(failures), [each.error for each in failures], *values], _ended)


def _claims(ends: Sequence[Completion] | Sequence[Failure]) -> list[list[Any]]:
    return [[each.id for each in ends], [each.fence for each in ends]]


def _ended(rows: Rows) -> Ended:
    return Ended(
        {job_id: verdict for job_id, _, verdict in rows if verdict not in ("lost", "machine")},
        [(job_id, fence) for job_id, fence, verdict in rows if verdict == "lost"],
        [(job_id, fence) for job_id, fence, verdict in rows if verdict == "machine"],
    )
