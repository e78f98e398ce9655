"""Heartbeats that name the claims which a worker still has."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.heartbeat_claims import ClaimsReply, Forgotten
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs

_SQL = statements("fleet/heartbeat_claims")


class HeartbeatClaimsVerbs(Verbs):
    def heartbeat_claims(
        self, worker_id: str, claims: Sequence[tuple[str, int]], *, complete: bool, tenant_id: str | None = None
    ) -> Op[ClaimsReply | None]:
        def steps() -> Steps[ClaimsReply | None]:
            rows = yield Statement(_SQL["worker"], (worker_id,))
            if not rows:
                return None
            before, lease = rows[0]
            running = yield Statement(_SQL["running"], (worker_id, tenant_id))
            mine = {(job_id, fence) for job_id, fence, *_ in running}
            named = mine.intersection(claims)
            if complete or len(named) == len(mine):
                ((lease,),) = yield Statement(_SQL["renew"], (worker_id, self._clock.now(), len(named)))
            forgotten = [
                Forgotten(job_id, fence, delivery)
                for job_id, fence, _, started_at, delivery, committed in running
                if complete and (job_id, fence) not in named and (started_at or 0) < before and not committed
            ]
            return ClaimsReply(
                lease,
                [(job_id, fence) for job_id, fence, canceling, *_ in running if canceling],
                [claim for claim in claims if claim not in named],
                forgotten,
            )

        return SqliteOp(steps, writes=True)
