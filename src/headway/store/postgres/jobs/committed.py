"""Outcomes that handlers commit with their own rows: written under the fence, read, and settled."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.committed import committed_text, not_applied, read_committed
from headway.model.job import Settlement
from headway.store.ops import Op, Rows, Statement, Steps
from headway.store.postgres.engine.verbs import read
from headway.store.postgres.jobs.settle import settle_steps

_COMMIT = "select headway.commit_outcome($1::uuid, $2::integer, $3::json)"
_TAKE = "select worker_id, outcome from headway.take_committed($1::uuid[], $2::integer[])"
_COMMITTED = """
select j.committed::text
  from headway.jobs j
 where j.id = $1::uuid and j.fence = $2::integer and (j.status = 'running') is true and j.committed is not null
"""


class CommittedVerbs:
    def commit_outcome(self, settlement: Settlement) -> Op[None]:
        def steps() -> Steps[None]:
            yield Statement(_COMMIT, [settlement.id, settlement.fence, committed_text(settlement)])

        # not refusable: without a savepoint a refusal aborts the caller's transaction, as it should
        return Op(steps, writes=True, joins=True)

    def committed(self, job_id: str, fence: int) -> Op[Settlement | None]:
        def shape(rows: Rows) -> Settlement | None:
            return read_committed(rows[0][0]) if rows else None

        return read(_COMMITTED, [job_id, fence], shape)

    def settle_committed(
        self, claims: Sequence[tuple[str, int]], *, refused: str | None = None
    ) -> Op[list[Settlement]]:
        def steps() -> Steps[list[Settlement]]:
            rows = yield Statement(_TAKE, [[job_id for job_id, _ in claims], [fence for _, fence in claims]])
            taken = [read_committed(text) for _, text in rows]
            if refused is not None:
                taken = [not_applied(settlement, refused) for settlement in taken]
            if taken:
                yield from settle_steps(rows[0][0], taken)
            return taken

        # not repeatable: a repeat would find nothing to take, and not say what was settled
        return Op(steps, writes=True, repeatable=False, atomic=True)
