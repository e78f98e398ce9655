"""The engine's own events: that jobs ended, told in the same transaction where somebody listens to that."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.model.ids import new_id
from headway.store.ops import Batch, Row, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list

_SQL = statements("triggers/events")
_encode = msgspec.json.Encoder().encode


class _Ended(msgspec.Struct, frozen=True):
    """The payload of such an event."""

    job_id: str
    kind: str
    queue: str
    status: str
    error: str | None
    tries: int
    losses: int
    correlation_id: str | None
    source: str
    trigger_id: str | None


def announce(ids: Sequence[str], now: int) -> Steps[None]:
    """Emit an event for each of these jobs that a trigger of its tenant listens to; one look where nobody does."""
    listeners = yield Statement(_SQL["listeners"])
    if not listeners:
        return
    heard = {(tenant_id, event) for tenant_id, event in listeners}
    rows = yield Statement(_SQL["ended"], (json_list(ids),))
    events = [event for row in rows if (event := _event(row, now))[1:3] in heard]
    if events:
        yield Batch(_SQL["announce"], events)


def _event(row: Row, now: int) -> Row:
    job_id, tenant_id, kind, queue, status, error, tries, losses, correlation_id, source, trigger_id = row
    payload = _Ended(
        job_id=job_id,
        kind=kind,
        queue=queue,
        status=status,
        error=_first_line(error),
        tries=tries,
        losses=losses,
        correlation_id=correlation_id,
        source=source,
        trigger_id=trigger_id,
    )
    name = f"headway.job.{status}"
    return (new_id(), tenant_id, name, _encode(payload).decode(), correlation_id, job_id, now)


def _first_line(error: str | None) -> str | None:
    return None if error is None else error.partition("\n")[0]
