"""Ends that are decided by the policy of the job's own row, for workers in any language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import msgspec

from headway.model.job import Delivery, Settlement
from headway.model.reported import BadEnd, Completion, Ended, Failure
from headway.model.retry import canceled, dead, failed, succeeded
from headway.model.status import AttemptStatus
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, json_list
from headway.store.sqlite.jobs.settle import SettleVerbs

_SQL = statements("jobs/policy")


class _Running(msgspec.Struct, frozen=True, array_like=True):
    """A job that this worker runs, with its policy."""

    id: str
    fence: int
    tries: int
    losses: int
    max_attempts: int
    backoff_base_ms: int
    backoff_cap_ms: int
    delivery: Delivery
    machine: int
    followed: bool = False


class PolicyVerbs(SettleVerbs):
    def complete(self, worker_id: str, completions: Sequence[Completion], *, tenant_id: str | None = None) -> Op[Ended]:
        def steps() -> Steps[Ended]:
            running = yield from _read_running(worker_id, completions, tenant_id)
            own = [(running.get((each.id, each.fence)), each) for each in completions]
            machines = [(each.id, each.fence) for job, each in own if job is not None and job.machine]
            plain = [succeeded(job, each.result) for job, each in own if job is not None and not job.machine]
            ended = yield from self._end(worker_id, completions, plain, ("succeeded",), tenant_id)
            lost = [claim for claim in ended.lost if claim not in machines]
            return Ended(ended.statuses, lost, machines)

        return SqliteOp(steps, writes=True)

    def fail(self, worker_id: str, failures: Sequence[Failure], *, tenant_id: str | None = None) -> Op[Ended]:
        def steps() -> Steps[Ended]:
            running = yield from _read_running(worker_id, failures, tenant_id)
            own = [(running.get((each.id, each.fence)), each) for each in failures]
            settlements = [_settlement(job, each) for job, each in own if job is not None]
            return (yield from self._end(worker_id, failures, settlements, get_args(BadEnd), tenant_id))

        return SqliteOp(steps, writes=True)

    def _end(
        self,
        worker_id: str,
        ends: Sequence[Completion] | Sequence[Failure],
        settlements: Sequence[Settlement],
        statuses: Sequence[AttemptStatus],
        tenant_id: str | None,
    ) -> Steps[Ended]:
        if settlements:
            yield from self.settle(worker_id, settlements).steps()
        parameters = (json_list([each.id for each in ends]), worker_id, json_list(statuses), tenant_id)
        rows = yield Statement(_SQL["verdicts"], parameters)
        found = {(job_id, fence): status for job_id, fence, status in rows}
        claims = [(each.id, each.fence) for each in ends]
        return Ended(
            {claim[0]: found[claim] for claim in claims if claim in found},
            [claim for claim in claims if claim not in found],
        )


def _read_running(
    worker_id: str, ends: Sequence[Completion] | Sequence[Failure], tenant_id: str | None
) -> Steps[dict[tuple[str, int], _Running]]:
    rows = yield Statement(_SQL["running"], (json_list([each.id for each in ends]), worker_id, tenant_id))
    return {(row[0], row[1]): _Running(*row) for row in rows}


def _settlement(job: _Running, failure: Failure) -> Settlement:
    error = failure.error or ""
    if failure.status == "canceled":
        decided = canceled(job, failure.error)
    elif failure.retry:
        delay = None if failure.delay_ms is None else failure.delay_ms / 1_000
        decided = failed(job, error, status=failure.status, delay=delay)
    else:
        decided = dead(job, error, status=failure.status)
    return msgspec.structs.replace(
        decided, exit_code=failure.exit_code, stdout_tail=failure.stdout_tail, stderr_tail=failure.stderr_tail
    )
