"""Lists of jobs for bulk actions."""

from __future__ import annotations

import msgspec

from headway.model.job_list import KEPT_MS, JobListPart, NewJobList
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list

_SQL = statements("access/job_lists")


class JobListVerbs(Verbs):
    def keep_list(self, jobs: NewJobList) -> Op[None]:
        def steps() -> Steps[None]:
            row = (jobs.token, jobs.tenant_id, jobs.key_id, jobs.action, json_list(jobs.ids), self._clock.now())
            yield Statement(_SQL["keep"], row)

        return SqliteOp(steps, writes=True)

    def read_list(self, token: str, *, tenant_id: str | None, key_id: str, limit: int) -> Op[JobListPart | None]:
        def steps() -> Steps[JobListPart | None]:
            kept_since = self._clock.now() - KEPT_MS * 1_000
            rows = yield Statement(_SQL["read"], (token, tenant_id, key_id, kept_since))
            if not rows:
                return None
            action, text, position = rows[0]
            ids = msgspec.json.decode(text, type=tuple[str, ...])
            part = ids[position : position + limit]
            return JobListPart(action=action, total=len(ids), position=position, ids=part)

        return SqliteOp(steps, writes=False)

    def advance_list(self, token: str, *, tenant_id: str | None, key_id: str, position: int) -> Op[None]:
        def steps() -> Steps[None]:
            yield Statement(_SQL["advance"], (token, tenant_id, key_id, position))

        return SqliteOp(steps, writes=True)

    def prune_lists(self) -> Op[int]:
        def probe() -> Steps[int | None]:
            ((found,),) = yield Statement(_SQL["prune_probe"], (self._clock.now() - KEPT_MS * 1_000,))
            return None if found else 0

        def steps() -> Steps[int]:
            return len((yield Statement(_SQL["prune"], (self._clock.now() - KEPT_MS * 1_000,))))

        return SqliteOp(steps, writes=True, probe=probe)
