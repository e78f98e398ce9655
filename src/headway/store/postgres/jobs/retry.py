"""Retry: finished jobs run again."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.job import Change
from headway.store.ops import Op
from headway.store.postgres.engine.verbs import call
from headway.store.postgres.jobs.change import change_json


class RetryVerbs:
    def retry(
        self,
        ids: Sequence[str],
        *,
        tenant_id: str | None,
        actor: str | None,
        keep_place: bool = True,
        change: Change | None = None,
        matching: str | None = None,
    ) -> Op[dict[str, str]]:
        return call(
            "select id, runs_as from headway.retry($1::uuid[], $2::uuid, $3, $4, $5::json, $6)",
            [list(ids), tenant_id, actor, keep_place, None if change is None else change_json(change), matching],
            lambda rows: dict(rows),
            repeatable=False,
        )
