"""Heartbeats that name the claims which a worker still has."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.heartbeat_claims import ClaimsReply, Forgotten
from headway.store.ops import Op, Rows
from headway.store.postgres.engine.verbs import call

_BEAT = """
select (extract(epoch from lease_expires_at) * 1000000)::bigint, canceling_ids, canceling_fences, lost_ids, lost_fences,
       forgotten_ids, forgotten_fences, forgotten_deliveries
  from headway.heartbeat_claims($1::uuid, $2::uuid[], $3::integer[], $4::boolean, $5::uuid)
"""


class HeartbeatClaimsVerbs:
    def heartbeat_claims(
        self, worker_id: str, claims: Sequence[tuple[str, int]], *, complete: bool, tenant_id: str | None = None
    ) -> Op[ClaimsReply | None]:
        params = [worker_id, [job_id for job_id, _ in claims], [fence for _, fence in claims], complete, tenant_id]
        return call(_BEAT, params, _reply, urgent=True)


def _reply(rows: Rows) -> ClaimsReply | None:
    if not rows:
        return None
    lease, stopping, stopping_fences, lost, lost_fences, gone, gone_fences, deliveries = rows[0]
    return ClaimsReply(
        lease,
        list(zip(stopping or (), stopping_fences or (), strict=True)),
        list(zip(lost or (), lost_fences or (), strict=True)),
        [Forgotten(*each) for each in zip(gone or (), gone_fences or (), deliveries or (), strict=True)],
    )
