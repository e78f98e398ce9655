"""Reads of jobs; they run on read connections, never behind the writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

from headway.clock import from_micros
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Attempt, Brief, Counted, Job, Outcome, Watched, with_artifacts
from headway.model.spill import stored_result
from headway.model.status import FINISHED, STATUSES, Status
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.decode import to_attempt, to_brief, to_job, to_watched
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.jobs.artifacts import artifacts_of

_SQL = statements("jobs/reads")


class ReadVerbs(Verbs):
    def get(self, ids: Sequence[str], *, tenant_id: str | None, raw: bool = False) -> Op[list[Job]]:
        def steps() -> Steps[list[Job]]:
            return (yield from read_jobs(ids, tenant_id, raw))

        return SqliteOp(steps, writes=False)

    def ids_from(self, first: str, last: str, *, limit: int) -> Op[list[str]]:
        def steps() -> Steps[list[str]]:
            return [job_id for (job_id,) in (yield Statement(_SQL["ids_from"], (first, last, limit)))]

        return SqliteOp(steps, writes=False)

    def attempts(self, job_id: str, *, tenant_id: str | None, raw: bool = False) -> Op[list[Attempt]]:
        def steps() -> Steps[list[Attempt]]:
            ended = yield Statement(_SQL["attempts"], (job_id, tenant_id))
            running = yield Statement(_SQL["open_attempt"], (job_id, tenant_id))
            stored = yield from artifacts_of(job_id, tenant_id)
            return with_artifacts([to_attempt(row, raw) for row in ended + running], stored)

        return SqliteOp(steps, writes=False)

    def results(self, ids: Sequence[str], *, tenant_id: str | None, raw: bool = False) -> Op[dict[str, Outcome]]:
        read = partial(stored_result, raw=raw)

        def steps() -> Steps[dict[str, Outcome]]:
            rows = yield Statement(_SQL["results"], (json_list(ids), tenant_id))
            return {
                job_id: Outcome(status, read(result, spilled), error) if status in FINISHED else Outcome(status)
                for job_id, status, result, error, spilled in rows
            }

        return SqliteOp(steps, writes=False)

    def counts(self, *, tenant_id: str | None, most: int | None = None) -> Op[dict[Status, int]]:
        def steps() -> Steps[dict[Status, int]]:
            if most is not None:
                return (yield from _some_counts(tenant_id, most))
            if tenant_id is not None and tenant_id != DEFAULT_TENANT_ID:
                rows = yield Statement(_SQL["counts_of_tenant"], (tenant_id,))
                return dict(rows)
            rows = yield Statement(_SQL["counts"])
            counts: dict[Status, int] = dict(rows)
            if tenant_id is not None:
                for status, count in (yield Statement(_SQL["counts_of_others"])):
                    counts[status] -= count
            return {status: count for status, count in counts.items() if count}

        return SqliteOp(steps, writes=False)

    def brief(self, ids: Sequence[str]) -> Op[list[Brief]]:
        def steps() -> Steps[list[Brief]]:
            return [to_brief(row) for row in (yield Statement(_SQL["brief"], (json_list(ids),)))]

        return SqliteOp(steps, writes=False)

    def watched(self, log_ends: Mapping[str, int | None], *, tenant_id: str | None) -> Op[list[Watched]]:
        def steps() -> Steps[list[Watched]]:
            rows = yield Statement(_SQL["watched"], (json_list(list(log_ends.items())), tenant_id))
            return [to_watched(row) for row in rows]

        return SqliteOp(steps, writes=False)

    def counts_by_kind(self, *, tenant_id: str | None) -> Op[list[Counted]]:
        def steps() -> Steps[list[Counted]]:
            return [Counted(*row) for row in (yield Statement(_SQL["counts_by_kind"], (tenant_id,)))]

        return SqliteOp(steps, writes=False)

    def now(self) -> Op[datetime]:
        def steps() -> Steps[datetime]:
            return from_micros(self._clock.now())
            yield Statement("")  # never reached: it makes this a generator, as steps must be

        return SqliteOp(steps, writes=False)

    def ahead(self, job_id: str, *, tenant_id: str | None = None) -> Op[int]:
        def steps() -> Steps[int]:
            ((count,),) = yield Statement(_SQL["ahead"], (job_id, tenant_id))
            return int(count)

        return SqliteOp(steps, writes=False)


def _some_counts(tenant_id: str | None, most: int) -> Steps[dict[Status, int]]:
    name = "some_of_tenant"
    if tenant_id is None:
        name = "some_of_status"
    elif tenant_id == DEFAULT_TENANT_ID:
        ((others,),) = yield Statement(_SQL["any_of_others"])
        name = "some_of_default" if others else "some_of_status"
    params = (json_list(STATUSES), most)
    rows = yield Statement(_SQL[name], params if name == "some_of_status" else (*params, tenant_id))
    return {status: min(count, most) for status, count in rows if count}


def read_jobs(ids: Sequence[str], tenant_id: str | None = None, raw: bool = False) -> Steps[list[Job]]:
    """Those of these jobs that exist, newest first."""
    rows = yield Statement(_SQL["jobs"], (json_list(ids), tenant_id))
    return [to_job(row, raw) for row in rows]
