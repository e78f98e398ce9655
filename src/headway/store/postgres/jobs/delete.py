"""Delete: an operator removes finished jobs."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.deletion import Deletion
from headway.store.ops import Op
from headway.store.postgres.engine.verbs import call


class DeleteVerbs:
    def delete(
        self, ids: Sequence[str], *, tenant_id: str | None, reason: str | None, actor: str | None
    ) -> Op[dict[str, Deletion]]:
        return call(
            "select id, answer from headway.delete($1::uuid[], $2::uuid, $3, $4)",
            [list(ids), tenant_id, reason, actor],
            lambda rows: {str(job_id): answer for job_id, answer in rows},
            repeatable=False,
        )
