"""Change: an operator gives a job that waits another queue, priority, time, budget or payload; audited."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headway.clock import from_micros, to_micros
from headway.errors import NotAllowed
from headway.model.job import Change
from headway.model.status import FINISHED, Status
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs
from headway.store.sqlite.jobs.audit import record
from headway.store.sqlite.jobs.positions import positions
from headway.store.sqlite.jobs.unique import covers, refuse_taken
from headway.store.sqlite.order.departures import Departure, ties
from headway.store.sqlite.order.follow import follow

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
            rows = yield Statement(_SQL["changing"], (job_id, tenant_id))
            if not rows:
                return None
            rowid, tenant, status, fence, position, key, scope, *current = rows[0]
            _check_changeable(job_id, status, fence, change)
            tied = yield from ties([rowid])
            timed = _timed(change, now)
            values = dict(zip(_CHANGEABLE, current, strict=True)) | _given(timed)
            to = _status_after(status, timed, values["scheduled_for"], now)
            if to != status and key is not None and not covers(scope, status) and covers(scope, to):
                yield from refuse_taken(job_id, rowid, key)
            if to == "queued" and position is None:
                position = (yield from positions(1))[0]
            queued_at = now if to == "queued" and timed.scheduled_for is not msgspec.UNSET else None
            yield Statement(_SQL["change"], (rowid, to, position, queued_at, *values.values()))
            yield Statement(_SQL["guard"], (rowid,))
            yield record(now, tenant, job_id, actor, "change", _detail(change))
            if status == "queued" and (to != status or values["queue"] != tied[rowid].queue):
                yield from follow([Departure(tied[rowid], to)], now=now)
            return to

        return SqliteOp(steps, writes=True)


def _check_changeable(job_id: str, status: Status, fence: int, change: Change) -> None:
    if status == "running" or status in FINISHED:
        hint = "retry it" if status in FINISHED else "cancel it, or wait until it is done"
        raise NotAllowed(f"job {job_id} is {status} and cannot be changed: {hint}")
    if change.payload is not msgspec.UNSET and fence > 0:
        raise NotAllowed(
            f"job {job_id} has run (fence {fence}), so its payload stays as it is: "
            "cancel it and enqueue a new one with the other payload"
        )


def _timed(change: Change, now: int) -> Change:
    """The change with its delay as a time by this store's clock."""
    if isinstance(change.delay_ms, msgspec.UnsetType):
        return change
    return msgspec.structs.replace(change, scheduled_for=from_micros(now + change.delay_ms * 1000))


def _given(change: Change) -> dict[str, Any]:
    """The values that the change sets, as they are stored."""
    given = {name: getattr(change, name) for name in _CHANGEABLE}
    return {
        name: to_micros(value) if isinstance(value, datetime) else value
        for name, value in given.items()
        if value is not msgspec.UNSET
    }


def _status_after(status: Status, change: Change, scheduled_for: int | None, now: int) -> Status:
    if change.scheduled_for is msgspec.UNSET or status not in ("queued", "scheduled"):
        return status
    return "scheduled" if scheduled_for is not None and scheduled_for > now else "queued"


def _detail(change: Change) -> str:
    """The change as JSON, with the payload as it was given."""
    given: dict[str, Any] = {name: getattr(change, name) for name in _CHANGEABLE}
    if isinstance(change.payload, str):
        given["payload"] = msgspec.Raw(change.payload.encode())
    return msgspec.json.encode({name: value for name, value in given.items() if value is not msgspec.UNSET}).decode()
