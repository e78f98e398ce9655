"""Outcomes that handlers commit with their own rows: written under the fence, read, and settled."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model import refusals
from headway.model.committed import committed_text, not_applied, read_committed
from headway.model.job import Settlement
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, json_list
from headway.store.sqlite.jobs.settle import SettleVerbs

_SQL = statements("jobs/committed")


class CommittedVerbs(SettleVerbs):
    def commit_outcome(self, settlement: Settlement) -> Op[None]:
        def steps() -> Steps[None]:
            job_id, fence = settlement.id, settlement.fence
            if (yield Statement(_SQL["commit"], (job_id, fence, committed_text(settlement)))):
                return
            rows = yield Statement(_SQL["given"], (job_id, fence))
            if not rows:
                raise refusals.not_in_this_database(job_id)
            raise refusals.outcome_given(job_id) if rows[0][0] else refusals.claim_lost(job_id, fence)

        return SqliteOp(steps, writes=True, joins=True)

    def committed(self, job_id: str, fence: int) -> Op[Settlement | None]:
        def steps() -> Steps[Settlement | None]:
            rows = yield from _read([(job_id, fence)])
            return read_committed(rows[0][3]) if rows else None

        return SqliteOp(steps, writes=False)

    def settle_committed(
        self, claims: Sequence[tuple[str, int]], *, refused: str | None = None
    ) -> Op[list[Settlement]]:
        def steps() -> Steps[list[Settlement]]:
            rows = yield from _read(claims)
            if not rows:
                return []
            taken = [read_committed(row[3]) for row in rows]
            if refused is not None:
                taken = [not_applied(settlement, refused) for settlement in taken]
            yield Statement(_SQL["take"], (json_list([row[0] for row in rows]),))
            yield from self.settle(rows[0][2], taken).steps()
            return taken

        return SqliteOp(steps, writes=True, repeatable=False)


def _read(claims: Sequence[tuple[str, int]]) -> Steps[list[Row]]:
    """The committed outcomes of these claims: id, fence, worker and text."""
    rows = yield Statement(_SQL["committed"], (json_list([job_id for job_id, _ in claims]),))
    return [row for row in rows if (row[0], row[1]) in claims]
