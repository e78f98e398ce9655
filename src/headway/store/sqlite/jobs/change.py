"""Change: an operator gives a job that waits another queue, priority, time, budget or payload; audited."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headway.clock import to_micros
from headway.model import audit
from headway.model.change import check_changeable, only_labels, status_after, timed
from headway.model.departure import Departure
from headway.model.job import Change
from headway.model.status import Status, enters
from headway.store.ops import Op, Statement, Steps
from headway.store.ops.jobs import LockedNoun
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs
from headway.store.sqlite.jobs.audit import record_change
from headway.store.sqlite.jobs.insert import names_text, renew_tags
from headway.store.sqlite.jobs.positions import positions
from headway.store.sqlite.jobs.unique import refuse_taken
from headway.store.sqlite.order.follow import follow
from headway.store.sqlite.order.leaving_jobs import leaving_jobs
from headway.store.sqlite.order.limit_waiters import guard_queues_of

_SQL = statements("jobs/change")
_CHANGEABLE = (
    "priority",
    "queue",
    "max_attempts",
    "max_losses",
    "timeout_ms",
    "scheduled_for",
    "expires_at",
    "payload",
)


class ChangeVerbs(Verbs):
    def change(self, job_id: str, change: Change, *, tenant_id: str | None, actor: str | None) -> Op[Status | None]:
        def steps() -> Steps[Status | None]:
            now = self._clock.now()
            return (yield from change_job(job_id, change, now, tenant_id=tenant_id, actor=actor))

        return SqliteOp(steps, writes=True)

    def lock_row(self, noun: LockedNoun, ref: str, *, tenant_id: str | None) -> Op[None]:
        del noun, ref, tenant_id

        def steps() -> Steps[None]:
            # nothing to lock: a transaction that writes has the file to itself
            yield from ()

        return SqliteOp(steps, writes=True)


def change_job(
    job_id: str, change: Change, now: int, *, tenant_id: str | None, actor: str | None, retried: bool = False
) -> Steps[Status | None]:
    """Change one job; gives its status afterwards, or None if there is no such job. `retried`: by the retry that puts
    it back, which may give it another payload. Raises `NotAllowed`, `Duplicate`."""
    rows = yield Statement(_SQL["changing"], (job_id, tenant_id))
    if not rows:
        return None
    rowid, tenant, status, fence, position, key, scope, tags, machine, meta, *current = rows[0]
    check_changeable(job_id, status, fence, change, retried=retried, machine=bool(machine))
    before = dict(zip(_CHANGEABLE, current, strict=True)) | {"meta": meta, "tags": tags}
    labels = yield from _label(rowid, job_id, tags, change)
    if only_labels(change):
        yield _recorded(now, tenant, job_id, actor, change, before, labels)
        return status  # type: ignore[no-any-return]
    leaving = yield from leaving_jobs([rowid])
    moved = timed(change, now)
    values = dict(zip(_CHANGEABLE, current, strict=True)) | _given(moved)
    to = status_after(status, moved, now)
    if key is not None and enters(scope, status, to):
        yield from refuse_taken(job_id, rowid, key)
    if to == "queued" and position is None:
        position = (yield from positions(1))[0]
    queued_at = now if to == "queued" and moved.scheduled_for is not msgspec.UNSET else None
    yield Statement(_SQL["change"], (rowid, to, position, queued_at, *values.values()))
    yield guard_queues_of([rowid])
    yield _recorded(now, tenant, job_id, actor, change, before, values | labels)
    if status == "queued" and (to != status or values["queue"] != leaving[rowid].queue):
        yield from follow([Departure(leaving[rowid], to)], now=now)
    return to


def _label(rowid: int, job_id: str, tags: str | None, change: Change) -> Steps[dict[str, Any]]:
    """Set its meta and tags; gives those that were set, as stored."""
    labels: dict[str, Any] = {}
    if change.meta is not msgspec.UNSET:
        labels["meta"] = change.meta
        yield Statement(_SQL["meta"], (rowid, change.meta))
    if not isinstance(change.tags, msgspec.UnsetType):
        labels["tags"] = names_text(change.tags)
        yield Statement(_SQL["tags"], (rowid, labels["tags"]))
        yield from renew_tags(job_id, tags)
    return labels


def _recorded(
    now: int,
    tenant: str,
    job_id: str,
    actor: str | None,
    change: Change,
    before: dict[str, Any],
    after: dict[str, Any],
) -> Statement:
    values = audit.values_changed(before, after)
    return record_change(now, tenant, job_id, actor, "change", audit.job_changed(change), values)


def _given(change: Change) -> dict[str, Any]:
    """The values that the change sets, as stored."""
    given = {name: getattr(change, name) for name in _CHANGEABLE}
    return {
        name: to_micros(value) if isinstance(value, datetime) else value
        for name, value in given.items()
        if value is not msgspec.UNSET
    }
