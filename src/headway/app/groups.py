"""The verbs of groups: jobs that are enqueued, watched, canceled and retried together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from headway.app.base import VerbBase, then
from headway.define.checks import group_id as as_group_id
from headway.define.groups import grouped
from headway.errors import InvalidJob, NotFound
from headway.model.codec import check_text
from headway.model.duration import Duration, to_ms
from headway.model.group import Group, GroupFailure, Mode, NewGroup
from headway.model.job import Enqueued, NewJob
from headway.model.status import FINISHED, Status
from headway.store.ops import Op, Steps

_FIRST_S = 0.01
_SLOWEST_S = 0.25


class GroupVerbs(VerbBase):
    """A group is meant by its id, or by what `group` gave."""

    def group(
        self,
        jobs: Iterable[NewJob],
        *,
        mode: Mode = "parallel",
        on_failure: GroupFailure = "stop",
        callback: NewJob | None = None,
        conn: Any = None,
    ) -> GroupHandle:
        """Enqueue jobs that `kind.build(…)` made as one group, all or none.

            group = app.group([resize.build(7), resize.build(8)], callback=publish.build(album=3))

        `sequential` jobs run one after another, in this order. `callback` runs once all are over. on_failure, when one
        ends without having succeeded: `stop` cancels the others and the callback; `continue` lets the others go on and
        runs the callback all the same; `skip` lets them go on, and cancels the callback. Raises `InvalidJob`.
        """
        group, batch = self._grouped(jobs, mode, on_failure, callback)
        return GroupHandle(self, group, self._put(batch, group, conn))

    async def agroup(
        self,
        jobs: Iterable[NewJob],
        *,
        mode: Mode = "parallel",
        on_failure: GroupFailure = "stop",
        callback: NewJob | None = None,
        conn: Any = None,
    ) -> GroupHandle:
        group, batch = self._grouped(jobs, mode, on_failure, callback)
        return GroupHandle(self, group, await self._aput(batch, group, conn))

    def get_group(self, group: str | UUID | Group | GroupHandle) -> Group:
        """A group with how far its members are; raises `NotFound`."""
        return self._run(self._get_group(group))

    async def aget_group(self, group: str | UUID | Group | GroupHandle) -> Group:
        return await self._arun(self._get_group(group))

    def cancel_group(
        self, group: str | UUID | Group | GroupHandle, *, reason: str | None = None, actor: str | None = None
    ) -> dict[str, Status]:
        """Cancel all members that are not over, and the callback (running ones are asked); gives their status now."""
        statuses = self._run(self._cancel_group(group, reason, actor))
        self._wake.poke(None)  # what waited for them may run now
        return statuses

    async def acancel_group(
        self, group: str | UUID | Group | GroupHandle, *, reason: str | None = None, actor: str | None = None
    ) -> dict[str, Status]:
        statuses = await self._arun(self._cancel_group(group, reason, actor))
        self._wake.poke(None)
        return statuses

    def retry_group(self, group: str | UUID | Group | GroupHandle, *, actor: str | None = None) -> list[str]:
        """Run the members again that ended without having succeeded; the callback waits for them again.

        Gives the ids that will run. Raises `NotFound`.
        """
        ids = self._run(self._retry_group(group, actor))
        self._wake.poke(None)
        return ids

    async def aretry_group(self, group: str | UUID | Group | GroupHandle, *, actor: str | None = None) -> list[str]:
        ids = await self._arun(self._retry_group(group, actor))
        self._wake.poke(None)
        return ids

    # as ops

    def _grouped(
        self, jobs: Iterable[NewJob], mode: Mode, on_failure: GroupFailure, callback: NewJob | None
    ) -> tuple[NewGroup, list[NewJob]]:
        if isinstance(jobs, NewJob):
            raise InvalidJob("a group is made of a list of jobs: give [job, …]")
        members = [self._mine(job) for job in jobs]
        last = None if callback is None else self._mine(callback)
        return grouped(members, mode=mode, on_failure=on_failure, callback=last)

    def _get_group(self, group: Any) -> Op[Group]:
        key = as_group_id(group)
        return then(self._store.ops.group(key, tenant_id=self._seen), lambda found: found or _missing(key))

    def _cancel_group(self, group: Any, reason: str | None, actor: str | None) -> Op[dict[str, Status]]:
        key = as_group_id(group)
        if reason is not None:
            check_text(reason, "reason")
        op = self._store.ops.cancel_group(key, tenant_id=self._seen, reason=reason, actor=actor)
        return then(op, lambda found: _missing(key) if found is None else found)

    def _retry_group(self, group: Any, actor: str | None) -> Op[list[str]]:
        key = as_group_id(group)
        op = self._store.ops.retry_group(key, tenant_id=self._seen, actor=actor)
        return then(op, lambda found: _missing(key) if found is None else found)

    def _looked_at(self, key: str) -> Op[tuple[Group, bool]]:
        """A group, and whether it and its callback are over."""

        def steps() -> Steps[tuple[Group, bool]]:
            group = yield from self._get_group(key).steps()
            over = group.done == group.total
            if over and group.callback_id is not None:
                found = yield from self._store.ops.results([group.callback_id], tenant_id=self._seen).steps()
                over = group.callback_id not in found or found[group.callback_id].status in FINISHED
            return group, over

        return Op(steps, writes=False)


class GroupHandle:
    """What `app.group` gives: the group's id, its jobs as they were enqueued, and its verbs."""

    __slots__ = ("_verbs", "callback", "id", "jobs")

    id: str
    jobs: list[Enqueued]
    callback: Enqueued | None

    def __init__(self, verbs: GroupVerbs, group: NewGroup, enqueued: list[Enqueued]) -> None:
        self._verbs = verbs
        self.id = group.id
        self.jobs = enqueued if group.callback_id is None else enqueued[:-1]
        self.callback = None if group.callback_id is None else enqueued[-1]

    def __repr__(self) -> str:
        return f"<GroupHandle {self.id} of {len(self.jobs)} jobs>"

    def get(self) -> Group:
        """The group as it is now, with how far its members are; raises `NotFound`."""
        return self._verbs.get_group(self.id)

    async def aget(self) -> Group:
        return await self._verbs.aget_group(self.id)

    @property
    def progress(self) -> float:
        """Which part of its members is over, from 0 to 1, asked of the database each time."""
        return self.get().progress

    async def aprogress(self) -> float:
        return (await self.aget()).progress

    def cancel(self, *, reason: str | None = None, actor: str | None = None) -> dict[str, Status]:
        """As `app.cancel_group`."""
        return self._verbs.cancel_group(self.id, reason=reason, actor=actor)

    async def acancel(self, *, reason: str | None = None, actor: str | None = None) -> dict[str, Status]:
        return await self._verbs.acancel_group(self.id, reason=reason, actor=actor)

    def retry(self, *, actor: str | None = None) -> list[str]:
        """As `app.retry_group`."""
        return self._verbs.retry_group(self.id, actor=actor)

    async def aretry(self, *, actor: str | None = None) -> list[str]:
        return await self._verbs.aretry_group(self.id, actor=actor)

    def wait(self, timeout: Duration | None = None) -> Group:
        """Wait until all members and the callback are over; when the timeout passes first, gives it as it is then."""
        for pause_s in _pauses(timeout):
            group, over = self._verbs._run(self._verbs._looked_at(self.id))
            if over or pause_s is None:
                break
            time.sleep(pause_s)
        return group

    async def await_(self, timeout: Duration | None = None) -> Group:
        for pause_s in _pauses(timeout):
            group, over = await self._verbs._arun(self._verbs._looked_at(self.id))
            if over or pause_s is None:
                break
            await asyncio.sleep(pause_s)
        return group


def _pauses(timeout: Duration | None) -> Iterator[float | None]:
    """How long to wait before the next look; None when the time is over, after which there is none."""
    until = None if timeout is None else time.monotonic() + to_ms(timeout, "timeout") / 1_000
    pause_s = _FIRST_S
    while until is None or (left_s := until - time.monotonic()) > 0:
        yield pause_s if until is None else min(pause_s, left_s)
        pause_s = min(pause_s * 1.25, _SLOWEST_S)
    yield None


def _missing(group_id: str) -> Any:
    raise NotFound(f"there is no group {group_id} (or it is another tenant's, or it was pruned)")
