"""Delete: an operator removes finished jobs, with all that prune removes with them; audited."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model import audit
from headway.model.deletion import Deletion
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.jobs.audit import record
from headway.store.sqlite.jobs.prune import delete_belongings

_SQL = statements("jobs/delete")


class DeleteVerbs(Verbs):
    def delete(
        self, ids: Sequence[str], *, tenant_id: str | None, reason: str | None, actor: str | None
    ) -> Op[dict[str, Deletion]]:
        def steps() -> Steps[dict[str, Deletion]]:
            known = yield Statement(_SQL["known"], (json_list(ids), tenant_id))
            found: dict[str, Deletion] = {job_id: deletion for job_id, deletion, _, _, _ in known}
            gone: dict[str, list[tuple[str, str, str]]] = {}
            for job_id, deletion, tenant, kind, status in known:
                if deletion == "deleted":
                    gone.setdefault(tenant, []).append((job_id, kind, status))
            if not gone:
                return found
            rows = yield Statement(_SQL["delete"], (json_list([job[0] for jobs in gone.values() for job in jobs]),))
            now = self._clock.now()
            yield from delete_belongings(rows, now)
            for tenant, jobs in gone.items():
                only = jobs[0][0] if len(jobs) == 1 else None
                detail = audit.jobs_deleted([job[1:] for job in jobs], reason)
                yield record(now, tenant, only, actor, "delete", detail)
            return found

        return SqliteOp(steps, writes=True, repeatable=False)
