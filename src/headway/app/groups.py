"""The verbs of groups: jobs that are enqueued, watched, canceled and retried together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from headway.app.aio.group_handle import GroupHandle
from headway.app.base import page_size, then
from headway.app.enqueue import EnqueueVerbs
from headway.define.checks import group_id as as_group_id
from headway.define.groups import grouped
from headway.errors import InvalidJob, NotFound
from headway.model.codec import check_text
from headway.model.group import Group, GroupFailure, Mode, NewGroup
from headway.model.job import NewJob
from headway.model.request import Request
from headway.model.status import FINISHED, Status
from headway.store.ops import Op, Steps


class GroupVerbs(EnqueueVerbs):
    """Name a group by its id, or by what `group` returned."""

    def group(
        self,
        jobs: Iterable[NewJob],
        *,
        mode: Mode = "parallel",
        on_failure: GroupFailure = "stop",
        callback: NewJob | None = None,
        conn: Any = None,
        request: Request | None = None,
    ) -> GroupHandle:
        """Enqueue jobs that `kind.build(…)` made as one group, all or none.

            group = app.group([resize.build(7), resize.build(8)], callback=publish.build(album=3))

        `sequential` jobs run one after another, in this order. `callback` runs once all have ended. If one ends without
        success, on_failure decides: `stop` cancels the others and the callback; `continue` runs them and the callback
        anyway; `skip` runs them, but cancels the callback. Raises `InvalidJob`; a `request` that was done before raises
        `Replayed`.
        """
        group, batch = self._grouped(jobs, mode, on_failure, callback)
        return GroupHandle(self, group, self._store_jobs(batch, group, conn, request))  # type: ignore[arg-type]  # it has both colours

    def get_group(self, group: str | UUID | Group | GroupHandle) -> Group:
        """A group, with its members' progress; raises `NotFound`."""
        return self._run(self._get_group(group))

    def groups(
        self, *, tenant: str | UUID | None = None, limit: int = 50, after: str | UUID | Group | None = None
    ) -> list[Group]:
        """Groups with their members' progress, the newest first; for the next page give the last one as `after`."""
        return self._run(self._groups(tenant, limit, after))

    def cancel_group(
        self,
        group: str | UUID | Group | GroupHandle,
        *,
        reason: str | None = None,
        actor: str | None = None,
        conn: Any = None,
    ) -> dict[str, Status]:
        """Cancel the callback and all unfinished members (running ones are asked to stop); returns their status now."""
        statuses = self._run(self._cancel_group(group, reason, actor), conn)
        self._wake_up(None, conn)  # what waited for them may run now
        return _missing(as_group_id(group)) if statuses is None else statuses

    def retry_group(
        self,
        group: str | UUID | Group | GroupHandle,
        *,
        actor: str | None = None,
        conn: Any = None,
        request: Request | None = None,
    ) -> list[str]:
        """Run again the members that ended without success; the callback waits for them again.

        Returns the ids that will run. Raises `NotFound`; a `request` that was done before raises `Replayed`.
        """
        ids = self._run(self._once(request, self._retry_group(group, actor)), conn)
        self._wake_up(None, conn)
        return ids

    # as ops

    def _grouped(
        self, jobs: Iterable[NewJob], mode: Mode, on_failure: GroupFailure, callback: NewJob | None
    ) -> tuple[NewGroup, list[NewJob]]:
        if isinstance(jobs, NewJob):
            raise InvalidJob("a group is made of a list of jobs: give [job, …]")
        members = [self._for_own_tenant(job) for job in jobs]
        last = None if callback is None else self._for_own_tenant(callback)
        return grouped(members, mode=mode, on_failure=on_failure, callback=last)

    def _get_group(self, group: Any) -> Op[Group]:
        key = as_group_id(group)
        return then(self._store.ops.group(key, tenant_id=self._visible_tenant), lambda found: found or _missing(key))

    def _groups(self, tenant: str | UUID | None, limit: int, after: Any) -> Op[list[Group]]:
        return self._store.ops.groups(
            tenant_id=self._tenant_to_read(tenant),
            limit=page_size(limit),
            after=None if after is None else as_group_id(after, "after"),
        )

    def _cancel_group(self, group: Any, reason: str | None, actor: str | None) -> Op[dict[str, Status] | None]:
        # as the store made it: wrapped in another op, it would read its whole answer in one transaction
        key = as_group_id(group)
        if reason is not None:
            check_text(reason, "reason")
        return self._store.ops.cancel_group(key, tenant_id=self._visible_tenant, reason=reason, actor=actor)

    def _retry_group(self, group: Any, actor: str | None) -> Op[list[str]]:
        key = as_group_id(group)
        op = self._store.ops.retry_group(key, tenant_id=self._visible_tenant, actor=actor)
        return then(op, lambda found: _missing(key) if found is None else found)

    def _looked_at(self, key: str) -> Op[tuple[Group, bool]]:
        """A group, and whether it and its callback have ended."""

        def steps() -> Steps[tuple[Group, bool]]:
            group = yield from self._get_group(key).steps()
            over = group.done == group.total
            if over and group.callback_id is not None:
                found = yield from self._store.ops.results([group.callback_id], tenant_id=self._visible_tenant).steps()
                over = group.callback_id not in found or found[group.callback_id].status in FINISHED
            return group, over

        return Op(steps, writes=False)


def _missing(group_id: str) -> Any:
    raise NotFound(f"there is no group {group_id} (or it is another tenant's, or it was pruned)")
