"""Claims that can be repeated: for workers whose answers travel over a network."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.model import refusals
from headway.model.job import Claim
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, json_list
from headway.store.sqlite.jobs.claim import ClaimVerbs
from headway.store.sqlite.jobs.start import read_claims

_SQL = statements("jobs/claim_once")
_REMEMBERED_US = 600 * 1_000_000


class ClaimOnceVerbs(ClaimVerbs):
    def claim_once(
        self,
        worker_id: str,
        claim_id: str,
        queues: Sequence[str],
        limit: int,
        *,
        tenant_id: str | None,
        kinds: Sequence[str] | None = None,
    ) -> Op[list[Claim]]:
        def probe() -> Steps[list[Claim] | None]:
            lease_expires_at, lease_ms, repeated = yield from _worker(worker_id, claim_id)
            if repeated or _is_due(lease_expires_at, lease_ms, self._clock.now()):
                return None
            for queue in queues:
                if (yield from self.probe_claim(worker_id, queue, limit)) is None:
                    return None
            return []

        def steps() -> Steps[list[Claim]]:
            lease_expires_at, lease_ms, repeated = yield from _worker(worker_id, claim_id)
            if repeated:
                return (yield from _remembered(worker_id, claim_id, tenant_id))
            now = self._clock.now()
            if _is_due(lease_expires_at, lease_ms, now):
                # a worker that runs jobs renews its lease by naming them: else those that it forgot would
                # stay running
                ((idle,),) = yield Statement(_SQL["idle"], (worker_id,))
                if idle:
                    yield Statement(_SQL["renew"], (worker_id, now))
            claims: list[Claim] = []
            for queue in queues:
                if len(claims) < limit:
                    op = self.claim(
                        worker_id, queue, limit - len(claims), tenant_id=tenant_id, kinds=kinds, flows=False
                    )
                    claims += yield from op.steps()
            if claims:
                taken = json_list([(claim.id, claim.fence) for claim in claims])
                yield Statement(_SQL["remember"], (worker_id, claim_id, now, taken))
                yield Statement(_SQL["forget"], (now - _REMEMBERED_US,))
            return claims

        return SqliteOp(steps, writes=True, probe=probe)


def _worker(worker_id: str, claim_id: str) -> Steps[Row]:
    rows = yield Statement(_SQL["worker"], (worker_id, claim_id))
    if not rows:
        raise refusals.not_registered(worker_id)
    return rows[0]


def _is_due(lease_expires_at: int, lease_ms: int, now: int) -> bool:
    return lease_expires_at < now + lease_ms * 500


def _remembered(worker_id: str, claim_id: str, tenant_id: str | None) -> Steps[list[Claim]]:
    ((text,),) = yield Statement(_SQL["remembered"], (worker_id, claim_id))
    taken = msgspec.json.decode(text, type=list[tuple[str, int]])
    ids = json_list([job_id for job_id, _ in taken])
    rows = yield Statement(_SQL["still_running"], (worker_id, ids, tenant_id))
    found = {(claim.id, claim.fence): claim for claim in (yield from read_claims(rows))}
    return [found[key] for key in taken if key in found]
