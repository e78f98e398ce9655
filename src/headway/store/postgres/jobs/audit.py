"""The audit: what people and programs did."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.model.audit import AccessNote, read_entry
from headway.model.job import AuditEntry
from headway.store.ops import Op, Rows
from headway.store.postgres.engine.decode import utc
from headway.store.postgres.engine.verbs import call, nothing, read

_AUDIT = (
    "select a.at, a.actor, a.action, a.detail, a.id, a.job_id::text, a.tenant_id::text, a.request_id, a.address,"
    " a.actor_name, a.changes, a.seal, encode(a.hash, 'hex'), a.erased_at from headway.audit a"
)


class AuditVerbs:
    def audit(self, job_id: str, *, tenant_id: str | None) -> Op[list[AuditEntry]]:
        return read(
            f"{_AUDIT} where a.job_id = $1::uuid and ($2::uuid is null or a.tenant_id = $2) order by a.id",
            [job_id, tenant_id],
            _entries,
        )

    def note_access(self, notes: Sequence[AccessNote]) -> Op[None]:
        return call(_NOTE, [msgspec.json.encode(notes).decode()], nothing)

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
        order = "desc" if after is None else "asc"
        return read(
            f"{_AUDIT} where ($1::uuid is null or a.tenant_id = $1) and ($2::text is null or a.actor = $2)"
            " and ($3::text is null or a.action = $3) and ($4::bigint is null or a.id < $4)"
            f" and a.id > $5::bigint order by a.id {order} limit $6::integer",
            [tenant_id, actor, action, before, -1 if after is None else after, limit],
            _entries,
        )


_NOTE = """
insert into headway.audit (at, tenant_id, actor, actor_name, action, detail, request_id, address)
select n.at, n.tenant_id, n.actor, n.actor_name, n.action, n.detail, n.request_id, n.address
  from json_to_recordset($1::json)
    as n (at timestamptz, tenant_id uuid, actor text, actor_name text, action text, detail text, request_id text,
          address text)
"""


def _entries(rows: Rows) -> list[AuditEntry]:
    return [read_entry(row, utc) for row in rows]
