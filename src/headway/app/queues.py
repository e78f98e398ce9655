"""The verbs of queues and workers."""

from __future__ import annotations

from headway.app.base import VerbBase
from headway.define.checks import name as checked_name
from headway.model.fleet import Queue, Worker
from headway.model.retention import Retention, ages_of
from headway.store.ops import Op


class QueueVerbs(VerbBase):
    """Queues and workers serve all tenants."""

    def queues(self) -> list[Queue]:
        """The queues, with the number of their unfinished jobs per status."""
        return self._run(self._store.ops.queues(tenant_id=self._visible_tenant))

    def workers(self) -> list[Worker]:
        """The registered workers."""
        return self._run(self._store.ops.workers())

    def pause(self, queue: str, *, actor: str | None = None) -> None:
        """Stop claims from a queue, on all hosts; none happens once this has returned. Running jobs go on."""
        self._run(self._pause(queue, actor))

    def resume(self, queue: str, *, actor: str | None = None) -> None:
        """Allow claims from a paused queue again."""
        self._run(self._resume(queue, actor))
        self._wake.poke(queue)

    def set_retention(self, queue: str, retention: Retention | None, *, actor: str | None = None) -> None:
        """How long finished jobs of a queue are kept, unless their kind says otherwise: `"30d"`, `"forever"`, or
        `{"succeeded": "1d", "dead": "forever"}`. None: as long as the app's retention says. Raises `InvalidJob`."""
        self._run(self._set_retention(queue, retention, actor))

    # as ops

    def _set_retention(self, queue: str, retention: Retention | None, actor: str | None) -> Op[None]:
        ages = None if retention is None else ages_of(retention)
        op = self._store.ops.set_retention(checked_name(queue, "queue"), ages, actor=actor)
        return self._for_all_tenants("set the retention of a queue", op)

    def _pause(self, queue: str, actor: str | None) -> Op[None]:
        op = self._store.ops.pause(checked_name(queue, "queue"), actor=actor)
        return self._for_all_tenants("pause a queue", op)

    def _resume(self, queue: str, actor: str | None) -> Op[None]:
        op = self._store.ops.resume(checked_name(queue, "queue"), actor=actor)
        return self._for_all_tenants("resume a queue", op)
