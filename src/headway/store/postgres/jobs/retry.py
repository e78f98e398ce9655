"""Retry: finished jobs run again."""

from __future__ import annotations

from collections.abc import Sequence

from headway.store.ops import Op
from headway.store.postgres.engine.verbs import call


class RetryVerbs:
    def retry(
        self, ids: Sequence[str], *, tenant_id: str | None, actor: str | None, keep_place: bool = True
    ) -> Op[dict[str, str]]:
        return call(
            "select id, runs_as from headway.retry($1::uuid[], $2::uuid, $3, $4)",
            [list(ids), tenant_id, actor, keep_place],
            lambda rows: dict(rows),
            repeatable=False,
        )
