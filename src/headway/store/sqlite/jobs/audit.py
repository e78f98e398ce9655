"""The audit: who did what to which job or setting. An entry is written in the transaction of what it records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from headway.clock import to_micros
from headway.model.actor import origin
from headway.model.audit import AccessNote, jobs_matching
from headway.model.job import AuditEntry
from headway.store.ops import Batch, Op, Row, Statement, Steps
from headway.store.sqlite.engine.decode import to_audit
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs

_SQL = statements("jobs/audit")


class AuditVerbs(Verbs):
    def audit(self, job_id: str, *, tenant_id: str | None) -> Op[list[AuditEntry]]:
        def steps() -> Steps[list[AuditEntry]]:
            rows = yield Statement(_SQL["of_job"], (job_id, tenant_id))
            return [to_audit(row) for row in rows]

        return SqliteOp(steps, writes=False)

    def note_access(self, notes: Sequence[AccessNote]) -> Op[None]:
        def steps() -> Steps[None]:
            yield Batch(
                _SQL["record"],
                [
                    (
                        to_micros(n.at),
                        n.tenant_id,
                        None,
                        n.actor,
                        n.action,
                        n.detail,
                        n.request_id,
                        n.address,
                        n.actor_name,
                    )
                    for n in notes
                ],
            )

        return SqliteOp(steps, writes=True)

    def audit_log(
        self,
        *,
        tenant_id: str | None,
        actor: str | None,
        action: str | None,
        limit: int,
        before: int | None,
        after: int | None = None,
    ) -> Op[list[AuditEntry]]:
        def steps() -> Steps[list[AuditEntry]]:
            last = 2**63 - 1 if before is None else before
            name, first = ("log", -1) if after is None else ("log_after", after)
            rows = yield Statement(_SQL[name], (tenant_id, actor, action, last, limit, first))
            return [to_audit(row) for row in rows]

        return SqliteOp(steps, writes=False)


def record(
    now: int, tenant_id: str | None, job_id: str | None, actor: str | None, action: str, detail: str | None
) -> Statement:
    """An entry about a job, or something else of a tenant."""
    return Statement(_SQL["record"], (now, tenant_id, job_id, actor, action, detail, *origin(actor)))


def record_change(
    now: int,
    tenant_id: str | None,
    job_id: str | None,
    actor: str | None,
    action: str,
    detail: str | None,
    changes: str | None,
) -> Statement:
    """The same with the old and the new values."""
    return Statement(_SQL["record_change"], (now, tenant_id, job_id, actor, action, detail, changes, *origin(actor)))


def record_all(entries: Sequence[Row]) -> Batch:
    """Entries, each with the arguments of `record`."""
    return Batch(_SQL["record"], [(*entry, *origin(entry[3])) for entry in entries])


def record_matching(
    now: int, tenants: Sequence[str], actor: str | None, action: str, matching: str, reason: str | None = None
) -> Batch:
    """One entry for each tenant of these jobs, of which there are several."""
    counts = sorted(Counter(tenants).items())
    return record_all(
        [(now, tenant, None, actor, action, jobs_matching(count, matching, reason)) for tenant, count in counts]
    )


def record_setting(now: int, detail: str, actor: str | None, action: str) -> Statement:
    """An entry about a setting of a queue or limit."""
    return Statement(_SQL["record_setting"], (now, detail, actor, action, *origin(actor)))


def record_if_changed(now: int, detail: str, actor: str | None, action: str) -> Statement:
    """The same, unless the statement before it changed nothing."""
    return Statement(_SQL["record_if_changed"], (now, detail, actor, action, *origin(actor)))
