"""What `app.group` returns: a group's id, its jobs, and its verbs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headway.model.duration import Duration, to_ms
from headway.model.group import Group, NewGroup
from headway.model.job import Enqueued
from headway.model.status import Status

if TYPE_CHECKING:
    from headway.app.aio.groups import AsyncGroupVerbs

_FIRST_S = 0.01
_SLOWEST_S = 0.25


class BlockingGroupHandle:
    """What `app.group` returns: the group's id, its jobs as they were enqueued, and its verbs."""

    __slots__ = ("_verbs", "callback", "id", "jobs")

    id: str
    jobs: list[Enqueued]
    callback: Enqueued | None

    def __init__(self, verbs: AsyncGroupVerbs, group: NewGroup, enqueued: list[Enqueued]) -> None:
        self._verbs = verbs
        self.id = group.id
        self.jobs = enqueued if group.callback_id is None else enqueued[:-1]
        self.callback = None if group.callback_id is None else enqueued[-1]

    def __repr__(self) -> str:
        return f"<GroupHandle {self.id} of {len(self.jobs)} jobs>"

    def get(self) -> Group:
        """The group as it is now, with its members' progress; raises `NotFound`."""
        return self._verbs.get_group(self.id)

    @property
    def progress(self) -> float:
        """The share of its members that have ended, from 0 to 1; asks the database each time."""
        return self.get().progress

    def cancel(self, *, reason: str | None = None, actor: str | None = None, conn: Any = None) -> dict[str, Status]:
        """As `app.cancel_group`."""
        return self._verbs.cancel_group(self.id, reason=reason, actor=actor, conn=conn)

    def retry(self, *, actor: str | None = None, conn: Any = None) -> list[str]:
        """As `app.retry_group`."""
        return self._verbs.retry_group(self.id, actor=actor, conn=conn)

    def wait(self, timeout: Duration | None = None) -> Group:
        """Wait until all members and the callback have ended, or the time is up; returns the group as it is then."""
        for pause_s in pauses(timeout):
            group, over = self._verbs._run(self._verbs._looked_at(self.id))
            if over or pause_s is None:
                break
            time.sleep(pause_s)
        return group


def pauses(timeout: Duration | None) -> Iterator[float | None]:
    """How long to pause before each look; None, as the last one, once the time is up."""
    until = None if timeout is None else time.monotonic() + to_ms(timeout, "timeout") / 1_000
    pause_s = _FIRST_S
    while until is None or (left_s := until - time.monotonic()) > 0:
        yield pause_s if until is None else min(pause_s, left_s)
        pause_s = min(pause_s * 1.25, _SLOWEST_S)
    yield None
