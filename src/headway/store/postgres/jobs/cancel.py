"""Cancel: end jobs before their time."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.status import Status
from headway.store.ops import Op
from headway.store.postgres.engine.verbs import call


class CancelVerbs:
    def cancel(
        self,
        ids: Sequence[str],
        *,
        tenant_id: str | None,
        reason: str | None,
        actor: str | None,
        matching: str | None = None,
        at_once: bool = False,
    ) -> Op[dict[str, Status]]:
        return call(
            "select id, status from headway.cancel($1::uuid[], $2::uuid, $3, $4, $5, $6::boolean)",
            [list(ids), tenant_id, reason, actor, matching, at_once],
            lambda rows: dict(rows),
        )
