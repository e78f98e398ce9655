"""Reads of jobs; they run on read connections, never behind the writer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.clock import from_micros, to_micros
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Attempt, Filter, Job, Outcome
from headway.model.status import FINISHED, Status
from headway.store.ops import Op, Rows, Statement, Steps
from headway.store.paging import in_pieces
from headway.store.sqlite.engine.decode import show_json, to_attempt, to_job
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list

_SQL = statements("jobs/reads")
_AFTER_EVERY_ID = "g"


class ReadVerbs(Verbs):
    def get(self, ids: Sequence[str], *, tenant_id: str | None) -> Op[list[Job]]:
        def steps() -> Steps[list[Job]]:
            return (yield from read_jobs(ids, tenant_id))

        return SqliteOp(steps, writes=False)

    def ids_from(self, first: str, last: str, *, limit: int) -> Op[list[str]]:
        def steps() -> Steps[list[str]]:
            return [job_id for (job_id,) in (yield Statement(_SQL["ids_from"], (first, last, limit)))]

        return SqliteOp(steps, writes=False)

    def find(self, where: Filter, *, limit: int, before_id: str | None) -> Op[list[Job]]:
        scan = _scan(where)

        def page(count: int, before: str | None) -> Steps[Rows]:
            params = (
                where.tenant_id,
                where.status,
                where.kind,
                where.queue,
                where.source,
                where.correlation_id,
                where.unique_key,
                where.retry_of,
                _micros(where.created_after),
                _micros(where.created_before),
                count,
                before or _AFTER_EVERY_ID,
                where.group_id,
                where.parent_id,
            )
            rows = yield Statement(_SQL[scan], params)
            return (yield Statement(_SQL["jobs"], (json_list([row[0] for row in rows]), where.tenant_id)))

        return SqliteOp(lambda: in_pieces(limit, before_id, page, to_job), writes=False)

    def attempts(self, job_id: str, *, tenant_id: str | None) -> Op[list[Attempt]]:
        def steps() -> Steps[list[Attempt]]:
            ended = yield Statement(_SQL["attempts"], (job_id, tenant_id))
            running = yield Statement(_SQL["open_attempt"], (job_id, tenant_id))
            return [to_attempt(row) for row in ended + running]

        return SqliteOp(steps, writes=False)

    def results(self, ids: Sequence[str], *, tenant_id: str | None) -> Op[dict[str, Outcome]]:
        def steps() -> Steps[dict[str, Outcome]]:
            rows = yield Statement(_SQL["results"], (json_list(ids), tenant_id))
            return {
                job_id: Outcome(status, show_json(result, "result"), error) if status in FINISHED else Outcome(status)
                for job_id, status, result, error in rows
            }

        return SqliteOp(steps, writes=False)

    def counts(self, *, tenant_id: str | None) -> Op[dict[Status, int]]:
        def steps() -> Steps[dict[Status, int]]:
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


def read_jobs(ids: Sequence[str], tenant_id: str | None = None) -> Steps[list[Job]]:
    """Those of these jobs that exist, newest first."""
    rows = yield Statement(_SQL["jobs"], (json_list(ids), tenant_id))
    return [to_job(row) for row in rows]


def _scan(where: Filter) -> str:
    """The statement whose index holds the fewest rows for this filter."""
    if where.retry_of is not None:
        return "page_of_retries"
    if where.parent_id is not None:
        return "page_of_children"
    if where.group_id is not None:
        return "page_of_group"
    if where.status == "running":
        return "page_of_running"
    if where.status is not None and where.status != "queued":
        return "page_of_status"
    if where.tenant_id is not None and where.tenant_id != DEFAULT_TENANT_ID:
        return "page_of_tenant"
    return "page"


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)
