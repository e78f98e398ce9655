"""Groups: cancel or retry all members at once, and their counts."""

from __future__ import annotations

from headway.clock import from_micros
from headway.model.group import Group
from headway.model.status import Status
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs
from headway.store.sqlite.jobs.audit import record
from headway.store.sqlite.jobs.cancel import cancel_jobs
from headway.store.sqlite.jobs.retry import retry_jobs
from headway.store.sqlite.order import postponed

_SQL = statements("order/groups")


class GroupVerbs(Verbs):
    def cancel_group(
        self, group_id: str, *, tenant_id: str | None, reason: str | None, actor: str | None
    ) -> Op[dict[str, Status] | None]:
        before: dict[str, Status] | None = None

        def read_ahead() -> Steps[None]:
            nonlocal before
            before = dict((yield Statement(_SQL["unfinished"], (group_id, tenant_id))))

        def steps() -> Steps[dict[str, Status] | None]:
            now = self._clock.now()
            why = "canceled with its group" if reason is None else reason
            rows = yield Statement(_SQL["halt"], (group_id, tenant_id, now, why))
            if not rows:
                return None
            tenant, callback_id = rows[0]
            yield record(now, tenant, None, actor, "cancel group", group_id)
            ids: list[str] = []
            if callback_id is not None:
                ids += [job_id for (job_id,) in (yield Statement(_SQL["open_callback"], (callback_id,)))]
            ids += [job_id for (job_id,) in (yield Statement(_SQL["some_unfinished"], (group_id, postponed.PIECE + 1)))]
            if len(ids) <= postponed.PIECE:
                return (yield from cancel_jobs(ids, now, tenant_id=tenant, reason=why, actor=actor))
            if before is None:
                yield from read_ahead()
            statuses = before or {}
            yield from postponed.postpone("stopping", [group_id])
            some = ids[: postponed.PIECE]
            statuses.update((yield from cancel_jobs(some, now, tenant_id=tenant, reason=why, actor=actor)))
            return statuses

        return SqliteOp(steps, writes=True, read_ahead=read_ahead)

    def retry_group(self, group_id: str, *, tenant_id: str | None, actor: str | None) -> Op[list[str] | None]:
        def steps() -> Steps[list[str] | None]:
            now = self._clock.now()
            rows = yield Statement(_SQL["restart"], (group_id, tenant_id))
            if not rows:
                return None
            tenant, callback_id = rows[0]
            yield record(now, tenant, None, actor, "retry group", group_id)
            ended = [job_id for (job_id,) in (yield Statement(_SQL["ended"], (group_id,)))]
            if not ended:
                return []
            # the callback waits for them again, even if it has run
            everyone = ended if callback_id is None else [*ended, callback_id]
            runs = yield from retry_jobs(everyone, now, tenant_id=None, actor=actor)
            return [new for old, new in runs.items() if old != callback_id]

        return SqliteOp(steps, writes=True)

    def group(self, group_id: str, *, tenant_id: str | None) -> Op[Group | None]:
        def steps() -> Steps[Group | None]:
            rows = yield Statement(_SQL["group"], (group_id, tenant_id))
            return (yield from _counted(rows[0])) if rows else None

        return SqliteOp(steps, writes=False)

    def groups(self, *, tenant_id: str | None, limit: int, after: str | None) -> Op[list[Group]]:
        def steps() -> Steps[list[Group]]:
            found = []
            for row in (yield Statement(_SQL["groups"], (tenant_id, after, limit))):
                group = yield from _counted(row)
                found.append(group)
            return found

        return SqliteOp(steps, writes=False)


def _counted(row: Row) -> Steps[Group]:
    group_id, tenant, slug, mode, on_failure, callback_id, created_at, stopped_at = row
    counts = yield Statement(_SQL["counts"], (group_id,))
    return Group(
        id=group_id,
        tenant_id=tenant,
        tenant=slug,
        mode=mode,
        on_failure=on_failure,
        callback_id=callback_id,
        created_at=from_micros(created_at),
        stopped_at=None if stopped_at is None else from_micros(stopped_at),
        counts=dict(counts),
    )
