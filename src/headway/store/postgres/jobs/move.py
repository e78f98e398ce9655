"""Move a job to another position in its line."""

from __future__ import annotations

from headway.model.train import Moved
from headway.store.ops import Op
from headway.store.postgres.engine.verbs import call


class MoveVerbs:
    def move(
        self,
        job_id: str,
        *,
        before: str | None = None,
        after: str | None = None,
        first: bool = False,
        last: bool = False,
        tenant_id: str | None,
        actor: str | None,
    ) -> Op[Moved | None]:
        return call(
            "select * from headway.move($1::uuid, $2::uuid, $3::uuid, $4::boolean, $5::boolean, $6::uuid, $7)",
            [job_id, before, after, first, last, tenant_id, actor],
            lambda rows: Moved(*rows[0]) if rows else None,
        )
