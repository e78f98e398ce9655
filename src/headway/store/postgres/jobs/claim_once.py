"""Claims that can be repeated: for workers whose answers travel over a network."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.job import Claim
from headway.store.ops import Op, Statement, Steps
from headway.store.postgres.jobs.claim import read_claims

_CLAIM_ONCE = "select * from headway.claim_once($1::uuid, $2, $3::text[], $4::integer, $5::uuid, $6::text[])"


class ClaimOnceVerbs:
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
        asked = [worker_id, claim_id, list(queues), limit, tenant_id, None if kinds is None else list(kinds)]

        def steps() -> Steps[list[Claim]]:
            return read_claims((yield Statement(_CLAIM_ONCE, asked)))

        return Op(steps, writes=True)
