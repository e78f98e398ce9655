"""Artifacts: rows about bytes that are elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.artifact import Artifact, NewArtifact, NewPayload, TrashedBytes, WrittenPayload
from headway.store.ops import Op, Row
from headway.store.postgres.engine.decode import utc
from headway.store.postgres.engine.verbs import call, nothing, read

_SELECT = """
select a.id, a.tenant_id, a.job_id, a.fence, a.name, a.content_type, a.size, a.sha256, a.store, a.path, a.created_at
"""
_FROM = _SELECT + " from headway.artifacts a"
OF_A_JOB = _FROM + " where a.job_id = $1::uuid and ($2::uuid is null or a.tenant_id = $2) order by a.fence, a.id"
_ONE = _FROM + " where a.id = $1::uuid and ($2::uuid is null or a.tenant_id = $2)"
_PAGE = (
    _FROM
    + """
 where ($1::uuid is null or a.tenant_id = $1)
   and ($2::uuid is null or a.job_id = $2)
   and ($3::uuid is null or a.id < $3)
 order by a.id desc
 limit $4::integer
"""
)
_KEEP = _SELECT + " from headway.keep_artifact($1::uuid, $2::uuid, $3::integer, $4, $5, $6::bigint, $7, $8, $9) a"
_PAYLOAD = (
    _FROM
    + """
  join headway.jobs j on j.id = a.job_id
 where a.job_id = $1::uuid
   and a.fence = 0
   and ($2::uuid is null or a.tenant_id = $2)
   and j.payload::text = '{"$artifact":"' || a.id || '"}'
"""
)
# whether the result of job j is a reference to the artifact that has it, and not one that somebody returned
SPILLED = """ left(j.result::text, 14) = '{"$artifact":"' and exists (
  select from headway.artifacts a
   where a.job_id = j.id
     and a.fence = j.fence
     and starts_with(a.name, '.result')
     and j.result::text = '{"$artifact":"' || a.id || '"}')
"""


class ArtifactVerbs:
    def begin_artifact(self, new: NewArtifact) -> Op[None]:
        return call(
            "select headway.begin_artifact($1::uuid, $2::uuid, $3::integer, $4, $5, $6)",
            [new.id, new.job_id, new.fence, new.name, new.store, new.path],
            nothing,
        )

    def keep_artifact(self, new: NewArtifact, *, size: int, sha256: str) -> Op[Artifact]:
        values = [new.id, new.job_id, new.fence, new.name, new.content_type, size, sha256, new.store, new.path]
        return call(_KEEP, values, lambda rows: to_artifact(rows[0]))

    def begin_payloads(self, news: Sequence[NewPayload]) -> Op[None]:
        return call(
            "select headway.begin_payloads($1::uuid[], $2::uuid[], $3::uuid[], $4::text[])",
            [[getattr(new, name) for new in news] for name in ("id", "tenant_id", "job_id", "store")],
            nothing,
        )

    def keep_payloads(self, written: Sequence[WrittenPayload]) -> Op[None]:
        return call(
            "select headway.keep_payloads($1::uuid[], $2::uuid[], $3::bigint[], $4::text[])",
            [[getattr(each, name) for each in written] for name in WrittenPayload.__struct_fields__],
            nothing,
        )

    def payload_artifact(self, job_id: str, *, tenant_id: str | None) -> Op[Artifact | None]:
        op: Op[Artifact | None] = read(
            _PAYLOAD, [job_id, tenant_id], lambda rows: to_artifact(rows[0]) if rows else None
        )
        return op

    def artifact(self, artifact_id: str, *, tenant_id: str | None) -> Op[Artifact | None]:
        op: Op[Artifact | None] = read(
            _ONE, [artifact_id, tenant_id], lambda rows: to_artifact(rows[0]) if rows else None
        )
        return op

    def artifacts(
        self, *, tenant_id: str | None, job_id: str | None, limit: int, before: str | None
    ) -> Op[list[Artifact]]:
        return read(_PAGE, [tenant_id, job_id, before, limit], lambda rows: [to_artifact(row) for row in rows])

    def trash(self, stores: Sequence[str], *, limit: int) -> Op[list[TrashedBytes]]:
        return call(
            "select id, store, path from headway.trash($1::text[], $2::integer)",
            [list(stores), limit],
            lambda rows: [TrashedBytes(*row) for row in rows],
        )

    def empty_trash(self, ids: Sequence[str]) -> Op[None]:
        return call("select headway.empty_trash($1::uuid[])", [list(ids)], nothing)


def to_artifact(row: Row) -> Artifact:
    return Artifact(**dict(zip(Artifact.__struct_fields__, map(utc, row), strict=True)))
