"""What operators do to jobs: cancel, retry and change, each audited."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from headway.clock import from_micros, to_micros
from headway.errors import Duplicate, NotAllowed
from headway.model.job import Change
from headway.model.status import FINISHED, Status
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.sqlite.ending import holder_of_key, write_fresh_copy
from headway.store.sqlite.op import SqliteOp, Verbs, json_list, positions
from headway.store.sqlite.sql import statements

_SQL = statements("operate")
_CANCEL = statements("cancel")
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


class OperateVerbs(Verbs):
    def cancel(
        self, ids: Sequence[str], *, tenant_id: str | None, reason: str | None, actor: str | None
    ) -> Op[dict[str, Status]]:
        def steps() -> Steps[dict[str, Status]]:
            now = self._clock.now()
            statuses: dict[str, Status] = {}
            rows = yield Statement(_CANCEL["look"], (json_list(ids), tenant_id))
            for rowid, job_id, status, tenant in rows:
                statuses[job_id] = status
                if status in FINISHED:
                    continue
                if status == "running":
                    yield Statement(_CANCEL["ask"], (rowid, now, reason))
                else:
                    yield Statement(_CANCEL["cancel"], (rowid, now, reason or "canceled"))
                    statuses[job_id] = "canceled"
                yield Statement(_SQL["audit"], (now, tenant, job_id, actor, "cancel", reason))
            return statuses

        return SqliteOp(steps, writes=True)

    def retry(self, ids: Sequence[str], *, tenant_id: str | None, actor: str | None) -> Op[dict[str, str]]:
        def steps() -> Steps[dict[str, str]]:
            now = self._clock.now()
            runs: dict[str, str] = {}
            rows = yield Statement(_SQL["finished"], (json_list(ids), tenant_id))
            for row in rows:
                job_id, tenant = row[1], row[2]
                runs[job_id] = yield from _retry(row, now)
                yield Statement(_SQL["audit"], (now, tenant, job_id, actor, "retry", runs[job_id]))
            return runs

        return SqliteOp(steps, writes=True)

    def change(self, job_id: str, change: Change, *, tenant_id: str | None, actor: str | None) -> Op[Status | None]:
        def steps() -> Steps[Status | None]:
            now = self._clock.now()
            rows = yield Statement(_SQL["changing"], (job_id, tenant_id))
            if not rows:
                return None
            rowid, tenant, status, fence, position, key, scope, *current = rows[0]
            _check_changeable(job_id, status, fence, change)
            timed = _timed(change, now)
            values = dict(zip(_CHANGEABLE, current, strict=True)) | _given(timed)
            to = _status_after(status, timed, values["scheduled_for"], now)
            if to != status and key is not None and f'"{status}"' not in scope and f'"{to}"' in scope:
                yield from _refuse_taken(job_id, rowid, key)
            if to == "queued" and position is None:
                position = (yield from positions(1))[0]
            queued_at = now if to == "queued" and timed.scheduled_for is not msgspec.UNSET else None
            yield Statement(_SQL["change"], (rowid, to, position, queued_at, *values.values()))
            yield Statement(_SQL["audit"], (now, tenant, job_id, actor, "change", _detail(change)))
            return to

        return SqliteOp(steps, writes=True)


def _retry(row: Row, now: int) -> Steps[str]:
    """Queue a finished job again, or make the job that retries it; gives the id that will run."""
    rowid, job_id, _, kind, delivery, fence, position, key, scope, status = row
    anew = delivery == "at_most_once" and fence > 0
    if anew:
        rows = yield Statement(_SQL["retried_by"], (job_id,))
        if rows:
            raise Duplicate(
                f"job {job_id} ({kind}) was retried already, by job {rows[0][0]}: retry that one",
                rows[0][0],
            )
    if key is not None and '"queued"' in scope:
        yield from _refuse_taken(job_id, rowid, key)
        if anew and f'"{status}"' in scope:
            yield Statement(_SQL["drop_key"], (rowid,))
    if anew:
        return (yield from write_fresh_copy(rowid, now, key))
    if position is None:
        position = (yield from positions(1))[0]
    yield Statement(_SQL["retry"], (rowid, now, position))
    return str(job_id)


def _refuse_taken(job_id: str, rowid: int, key: str) -> Steps[None]:
    holder = yield from holder_of_key(rowid)
    if holder is not None:
        raise Duplicate(
            f'job {job_id} cannot be queued: its unique key "{key}" is taken by job {holder}; '
            "nothing was changed. Cancel that job, or let it finish first",
            holder,
        )


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
