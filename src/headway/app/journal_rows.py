"""Reads a whole journal, piece by piece."""

from __future__ import annotations

from headway.model.journal import Row
from headway.store.ops import Op, Ops, Steps


def all_rows(ops: Ops, job_id: str, *, tenant_id: str | None = None) -> Op[list[Row]]:
    """Every row of a flow's journal, in order."""

    def steps() -> Steps[list[Row]]:
        found: list[Row] = []
        while True:
            after = {job_id: found[-1].seq} if found else None
            part = yield from ops.journal([job_id], tenant_id=tenant_id, after=after).steps()
            found += part.rows
            if not part.more:
                return found

    return Op(steps, writes=False)
