"""The audit: what people and programs did."""

from __future__ import annotations

from headway.model.job import AuditEntry
from headway.store.ops import Op, Rows
from headway.store.postgres.engine.decode import utc
from headway.store.postgres.engine.verbs import read

_AUDIT = (
    "select a.at, a.actor, a.action, a.detail, a.id, a.job_id, a.tenant_id, a.request_id, a.address"
    " from headway.audit a"
)


class AuditVerbs:
    def audit(self, job_id: str, *, tenant_id: str | None) -> Op[list[AuditEntry]]:
        return read(
            f"{_AUDIT} where a.job_id = $1::uuid and ($2::uuid is null or a.tenant_id = $2) order by a.id",
            [job_id, tenant_id],
            _entries,
        )

    def audit_log(
        self, *, tenant_id: str | None, actor: str | None, action: str | None, limit: int, before: int | None
    ) -> Op[list[AuditEntry]]:
        return read(
            f"{_AUDIT} where ($1::uuid is null or a.tenant_id = $1) and ($2::text is null or a.actor = $2)"
            " and ($3::text is null or a.action = $3) and ($4::bigint is null or a.id < $4)"
            " order by a.id desc limit $5::integer",
            [tenant_id, actor, action, before, limit],
            _entries,
        )


def _entries(rows: Rows) -> list[AuditEntry]:
    return [
        AuditEntry(
            utc(at), actor, action, detail, number, job_id and str(job_id), tenant_id and str(tenant_id), *origin
        )
        for at, actor, action, detail, number, job_id, tenant_id, *origin in rows
    ]
