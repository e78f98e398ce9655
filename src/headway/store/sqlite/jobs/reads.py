"""The reads: they run on connections of their own, never behind a writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from headway.clock import from_micros, to_micros
from headway.model.fleet import Queue, Worker
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Attempt, AuditEntry, Filter, Job, Outcome
from headway.model.status import FINISHED, Status
from headway.store.ops import Op, Rows, Statement, Steps
from headway.store.paging import in_pieces
from headway.store.sqlite.engine.decode import show_json, to_attempt, to_audit, to_job, to_worker
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list

_SQL = statements("jobs/reads")
_AFTER_EVERY_ID = "g"
_BY_TIE = ("page_of_group", "page_of_children", "page_of_retries")


class ReadVerbs(Verbs):
    def prunable(self, kept_ms: Mapping[str, int]) -> Op[dict[str, int]]:
        def steps() -> Steps[dict[str, int]]:
            found = {}
            now = self._clock.now()
            for name, older_than_ms in kept_ms.items():
                before = now - older_than_ms * 1_000
                match name:
                    case "events" | "failed_events":
                        status = "handled" if name == "events" else "failed"
                        rows = yield Statement(_SQL["prunable_events"], (status, before))
                    case "fires":
                        rows = yield Statement(_SQL["prunable_fires"], (before,))
                    case "audit":
                        rows = yield Statement(_SQL["prunable_audit"], (before,))
                    case _:
                        rows = yield Statement(_SQL["prunable_jobs"], (name, before))
                found[name] = int(rows[0][0])
            return found

        return SqliteOp(steps, writes=False)

    def get(self, ids: Sequence[str], *, tenant_id: str | None) -> Op[list[Job]]:
        def steps() -> Steps[list[Job]]:
            rows = yield Statement(_SQL["jobs"], (json_list(ids), tenant_id))
            return [to_job(row) for row in rows]

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
            rows = yield Statement(_SQL[scan], params if scan in _BY_TIE else params[:-2])
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

    def queues(self, *, tenant_id: str | None) -> Op[list[Queue]]:
        def steps() -> Steps[list[Queue]]:
            now = self._clock.now()
            settings = {row[0]: row[1:] for row in (yield Statement(_SQL["queues"], (now,)))}
            kinds: dict[str, list[tuple[str, ...]]] = {}
            for queue, known in (yield Statement(_SQL["queue_workers"], (now,))):
                kinds.setdefault(queue, []).append(show_json(known))
            counts: dict[str, dict[Status, int]] = {}
            limited: dict[str, int] = {}
            oldest: dict[str, int] = {}
            for queue, status, count, queued_at in (yield Statement(_SQL["queue_counts"], (tenant_id,))):
                of_queue = counts.setdefault(queue, {})
                if status == "limited":
                    limited[queue] = count
                    status = "queued"
                of_queue[status] = of_queue.get(status, 0) + count
                if queued_at is not None:
                    oldest[queue] = min(queued_at, oldest.get(queue, queued_at))
            found = []
            for name in sorted(settings.keys() | kinds.keys() | counts.keys()):
                paused_at, paused_by, fair, most, holder, until = settings.get(name, (None,) * 6)
                if tenant_id is not None:
                    paused_by, holder = None, holder and "somebody"
                found.append(
                    Queue(
                        name=name,
                        paused=paused_at is not None,
                        paused_at=_moment(paused_at),
                        paused_by=paused_by,
                        counts=counts.get(name, {}),
                        oldest_queued_at=_moment(oldest.get(name)),
                        workers=len(kinds.get(name, ())),
                        kinds=tuple(sorted({kind for known in kinds.get(name, ()) for kind in known})),
                        fair=bool(fair),
                        max_running=most,
                        limited=limited.get(name, 0),
                        reserved_by=holder,
                        reserved_until=_moment(until),
                    )
                )
            return found

        return SqliteOp(steps, writes=False)

    def now(self) -> Op[datetime]:
        def steps() -> Steps[datetime]:
            return from_micros(self._clock.now())
            yield Statement("")  # no statement is needed, but steps are a generator

        return SqliteOp(steps, writes=False)

    def workers(self) -> Op[list[Worker]]:
        def steps() -> Steps[list[Worker]]:
            rows = yield Statement(_SQL["workers"])
            return [to_worker(row) for row in rows]

        return SqliteOp(steps, writes=False)

    def ahead(self, job_id: str, *, tenant_id: str | None = None) -> Op[int]:
        def steps() -> Steps[int]:
            ((count,),) = yield Statement(_SQL["ahead"], (job_id, tenant_id))
            return int(count)

        return SqliteOp(steps, writes=False)

    def audit(self, job_id: str, *, tenant_id: str | None) -> Op[list[AuditEntry]]:
        def steps() -> Steps[list[AuditEntry]]:
            rows = yield Statement(_SQL["audit"], (job_id, tenant_id))
            return [to_audit(row) for row in rows]

        return SqliteOp(steps, writes=False)

    def audit_log(
        self, *, tenant_id: str | None, actor: str | None, action: str | None, limit: int, before: int | None
    ) -> Op[list[AuditEntry]]:
        def steps() -> Steps[list[AuditEntry]]:
            last = 2**63 - 1 if before is None else before
            rows = yield Statement(_SQL["audit_log"], (tenant_id, actor, action, last, limit))
            return [to_audit(row) for row in rows]

        return SqliteOp(steps, writes=False)

    def version(self) -> Op[int]:
        return SqliteOp(read_version, writes=False, absent=0)


def read_version() -> Steps[int]:
    """The schema's version; 0 where there is none."""
    ((tables,),) = yield Statement(_SQL["schema_tables"])
    if not tables:
        return 0
    ((version,),) = yield Statement(_SQL["version"])
    return int(version)


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


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)
