"""Queues: operators pause and resume them; and the read of what is in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from headway.clock import from_micros
from headway.model import audit
from headway.model.fleet import Queue
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.status import Status
from headway.store.ops import Op, Rows, Statement, Steps
from headway.store.sqlite.engine.decode import show_json
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.jobs.audit import record_change, record_if_changed

_SQL = statements("fleet/queues")


class QueueVerbs(Verbs):
    def pause(self, queue: str, *, actor: str | None) -> Op[None]:
        def steps() -> Steps[None]:
            now = self._clock.now()
            yield Statement(_SQL["pause"], (queue, now, actor))
            yield record_if_changed(now, queue, actor, "pause")

        return SqliteOp(steps, writes=True)

    def resume(self, queue: str, *, actor: str | None) -> Op[None]:
        def steps() -> Steps[None]:
            yield Statement(_SQL["resume"], (queue,))
            yield record_if_changed(self._clock.now(), queue, actor, "resume")

        return SqliteOp(steps, writes=True)

    def set_retention(self, queue: str, retention: Mapping[str, int] | None, *, actor: str | None) -> Op[None]:
        def steps() -> Steps[None]:
            text = None if retention is None else msgspec.json.encode(retention).decode()
            rows = yield Statement(_SQL["retention"], (queue,))
            yield Statement(_SQL["set_retention"], (queue, text))
            values = audit.values_changed({"retention": rows[0][0] if rows else None}, {"retention": text})
            detail = audit.retention_set(queue, retention)
            yield record_change(self._clock.now(), None, None, actor, "retention", detail, values)

        return SqliteOp(steps, writes=True)

    def queues(
        self, *, tenant_id: str | None, most: int | None = None, names: Sequence[str] | None = None
    ) -> Op[list[Queue]]:
        def steps() -> Steps[list[Queue]]:
            now = self._clock.now()
            settings = {row[0]: row[1:] for row in (yield Statement(_SQL["queues"], (now,)))}
            kinds: dict[str, list[tuple[str, ...]]] = {}
            for queue, knows in (yield Statement(_SQL["workers"], (now, tenant_id))):
                kinds.setdefault(queue, []).append(show_json(knows))
            counts: dict[str, dict[Status, int]] = {}
            limited: dict[str, int] = {}
            oldest: dict[str, int] = {}
            for queue, status, count, queued_at in (yield from _counts(tenant_id, most, names)):
                of_queue = counts.setdefault(queue, {})
                if status == "limited":
                    limited[queue] = count
                    status = "queued"
                whole = of_queue.get(status, 0) + count
                of_queue[status] = whole if most is None else min(whole, most)
                if queued_at is not None:
                    oldest[queue] = min(queued_at, oldest.get(queue, queued_at))
            found = []
            known = settings.keys() | kinds.keys() | counts.keys()
            for name in sorted(known if names is None else known & {*names}):
                paused_at, paused_by, unfair, max_running, holder, until, kept = settings.get(name, (None,) * 7)
                if tenant_id is not None:
                    paused_by, holder = None, holder and "somebody"
                found.append(
                    Queue(
                        name=name,
                        paused=paused_at is not None,
                        paused_at=_moment(paused_at),
                        paused_by=paused_by,
                        counts=counts.get(name, {}),
                        oldest_queued_at=_moment(oldest.get(name)),
                        workers=len(kinds.get(name, ())),
                        kinds=tuple(sorted({kind for known in kinds.get(name, ()) for kind in known})),
                        fair=not unfair,
                        max_running=max_running,
                        limited=limited.get(name, 0),
                        reserved_by=holder,
                        reserved_until=_moment(until),
                        retention=None if kept is None else msgspec.json.decode(kept),
                    )
                )
            return found

        return SqliteOp(steps, writes=False)


def _counts(tenant_id: str | None, most: int | None, names: Sequence[str] | None) -> Steps[Rows]:
    if most is None:
        return (yield Statement(_SQL["counts"], (tenant_id,)))
    if tenant_id is not None and tenant_id != DEFAULT_TENANT_ID:
        return (yield Statement(_SQL["some_of_tenant"], (tenant_id, most)))
    if names is None:
        lines = yield Statement(_SQL["some_queued"], (most, tenant_id))
    else:
        lines = yield Statement(_SQL["some_queued_in"], (most, tenant_id, json_list(names)))
    return lines + (yield Statement(_SQL["some_others"], (tenant_id, most)))


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)
