"""The verbs of queues and workers."""

from __future__ import annotations

from headway.app.base import VerbBase
from headway.define.checks import name as checked_name
from headway.model.fleet import Queue, Worker
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

    # as ops

    def _pause(self, queue: str, actor: str | None) -> Op[None]:
        op = self._store.ops.pause(checked_name(queue, "queue"), actor=actor)
        return self._for_all_tenants("pause a queue", op)

    def _resume(self, queue: str, actor: str | None) -> Op[None]:
        op = self._store.ops.resume(checked_name(queue, "queue"), actor=actor)
        return self._for_all_tenants("resume a queue", op)
