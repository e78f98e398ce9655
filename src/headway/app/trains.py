"""The verbs of trains: look at them, hold, resume and clear them, skip and move their cars."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from headway.app.base import VerbBase, missing, page_size, then
from headway.define import keys
from headway.errors import InvalidJob
from headway.model.codec import check_text
from headway.model.ids import as_id
from headway.model.job import Job
from headway.model.status import Status
from headway.model.train import Moved, Train
from headway.store.ops import Op


class TrainVerbs(VerbBase):
    """Name a train by its name, in the tenant that this app acts for, and a car by its job's id."""

    def trains(
        self,
        *,
        blocked: bool | None = None,
        tenant: str | UUID | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> list[Train]:
        """The trains that have unfinished cars or are on hold, by name; `blocked` picks those on hold, or the others.

        For the next page give the last one's name as `after`.
        """
        return self._run(self._trains(blocked, tenant, limit, after))

    def train(self, train: str, *, limit: int = 1_000, raw: bool = False) -> list[Job]:
        """The unfinished cars of a train in their order, the locomotive first; empty if there is no such train."""
        return self._read(self._cars(train, limit, raw), raw=raw)

    def hold_train(self, train: str, *, reason: str | None = None, actor: str | None = None, conn: Any = None) -> None:
        """Start no further car of the train until it is resumed; the running one goes on to its end."""
        self._run(self._hold_train(train, reason, actor), conn)

    def resume_train(self, train: str, *, actor: str | None = None, conn: Any = None) -> bool:
        """End a train's hold, so that its next car may start; False if it was not on hold."""
        resumed = self._run(self._resume_train(train, actor), conn)
        self._wake_up(None, conn)
        return resumed

    def clear_train(self, train: str, *, actor: str | None = None, conn: Any = None) -> list[str]:
        """Cancel all cars of a train but the running one, and end its hold; returns the ids of the canceled."""
        ids = self._run(self._clear_train(train, actor), conn)
        self._wake_up(None, conn)  # what waited for them may run now
        return ids

    def skip(self, job_id: str | UUID, *, actor: str | None = None, conn: Any = None) -> Status:
        """Take a car out of its train, which then goes on: a waiting car is canceled; a finished one that put its train
        on hold stays as it is. Returns its status. Raises `NotFound`, `NotAllowed` (it runs, or is not a car).
        """
        status = self._run(self._skip(job_id, actor), conn)
        self._wake_up(None, conn)
        return status

    def move(
        self,
        job_id: str | UUID,
        *,
        before: str | UUID | None = None,
        after: str | UUID | None = None,
        first: bool = False,
        last: bool = False,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> Moved:
        """Move a waiting job: `before` or `after` another one, or `first` or `last`; returns its new place.

        A car moves among the waiting cars of its train; any other job among the queued jobs of its queue, where it
        takes its new neighbor's priority. Raises `NotFound`, `NotAllowed` (it does not wait, or not beside that one).
        """
        op = self._move(job_id, before, after, first, last, actor)
        return self._run(self._if_matching(job_id, if_match, op), conn)

    # as ops

    def _trains(
        self, blocked: bool | None, tenant: str | UUID | None, limit: int, after: str | None
    ) -> Op[list[Train]]:
        return self._store.ops.trains(
            tenant_id=self._tenant_to_read(tenant),
            train=None,
            blocked=blocked,
            limit=page_size(limit),
            after=None if after is None else _name(after),
        )

    def _cars(self, train: str, limit: int, raw: bool) -> Op[list[Job]]:
        tenant_id = self._id_of(self._own_tenant)
        return self._store.ops.cars(_name(train), tenant_id=tenant_id, limit=page_size(limit), raw=raw)

    def _hold_train(self, train: str, reason: str | None, actor: str | None) -> Op[None]:
        if reason is not None:
            check_text(reason, "reason")
        return self._store.ops.hold_train(
            _name(train), tenant_id=self._id_for(self._own_tenant), reason=reason, actor=actor
        )

    def _resume_train(self, train: str, actor: str | None) -> Op[bool]:
        return self._store.ops.resume_train(_name(train), tenant_id=self._id_of(self._own_tenant), actor=actor)

    def _clear_train(self, train: str, actor: str | None) -> Op[list[str]]:
        return self._store.ops.clear_train(_name(train), tenant_id=self._id_of(self._own_tenant), actor=actor)

    def _skip(self, job_id: str | UUID, actor: str | None) -> Op[Status]:
        key = as_id(job_id)
        return then(
            self._store.ops.skip(key, tenant_id=self._visible_tenant, actor=actor),
            lambda status: status or missing(key),
        )

    def _move(
        self,
        job_id: str | UUID,
        before: str | UUID | None,
        after: str | UUID | None,
        first: bool,
        last: bool,
        actor: str | None,
    ) -> Op[Moved]:
        key = as_id(job_id)
        if (before is not None) + (after is not None) + bool(first) + bool(last) != 1:
            raise InvalidJob("where to move it? Give one of before=, after=, first=True and last=True")
        neighbour = before if before is not None else after
        if neighbour is not None and as_id(neighbour) == key:
            raise InvalidJob(f"job {key} cannot be moved beside itself: name another job")
        op = self._store.ops.move(
            key,
            before=None if before is None else as_id(before),
            after=None if after is None else as_id(after),
            first=bool(first),
            last=bool(last),
            tenant_id=self._visible_tenant,
            actor=actor,
        )
        return then(op, lambda moved: moved or missing(key))


def _name(train: str) -> str:
    name = keys.literal(train, "train")
    if name is None:
        raise InvalidJob("which train? Give its name, as train= had it")
    return name
