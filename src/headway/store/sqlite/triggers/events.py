"""Events: applications emit them, operators retry failed ones, and the engine emits its own when jobs end."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.model import refusals
from headway.model.checks import check_events
from headway.model.event import ALL_ENDS, Event, EventStatus, JobEnded, NewEvent, engine_event
from headway.model.ids import new_id
from headway.model.trace import trace_id
from headway.store.ops import Batch, Op, Row, Statement, Steps
from headway.store.sqlite.engine.decode import to_event
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.fleet.tenants import name_tenants
from headway.store.sqlite.jobs.audit import record
from headway.store.sqlite.jobs.quotas import check_event_quotas

_SQL = statements("triggers/events")
_AFTER_EVERY_ID = "g"
_encode = msgspec.json.Encoder().encode


class EventVerbs(Verbs):
    def emit(self, events: Sequence[NewEvent]) -> Op[list[str]]:
        def steps() -> Steps[list[str]]:
            if not events:
                return []
            check_events(events)
            now = self._clock.now()
            yield from name_tenants(events, now)
            new = yield Batch(
                _SQL["put"],
                [
                    (
                        *(each.id, each.tenant_id, each.name, each.payload),
                        *(each.correlation_id, each.trace_id, each.created_by, now),
                    )
                    for each in events
                ],
            )
            taken = yield Statement(_SQL["taken"], (json_list([(each.id, each.tenant_id) for each in events]),))
            for (event_id,) in taken:
                raise refusals.id_taken("event", event_id)
            if new:
                yield from check_event_quotas([tenant_id for (tenant_id,) in new])
            return [each.id for each in events]

        return SqliteOp(steps, writes=True)

    def retry_events(self, ids: Sequence[str], *, tenant_id: str | None, actor: str | None) -> Op[list[str]]:
        def steps() -> Steps[list[str]]:
            now = self._clock.now()
            rows = yield Statement(_SQL["failed"], (json_list(ids), tenant_id))
            failed = {event_id: (tenant, name) for event_id, tenant, name in rows}
            retried = [event_id for event_id in dict.fromkeys(ids) if event_id in failed]
            for event_id in retried:
                tenant, name = failed[event_id]
                yield Statement(_SQL["forget"], (event_id,))
                yield Statement(_SQL["retry"], (event_id,))
                yield record(now, tenant, None, actor, "event.retried", f"{name} {event_id}")
            return retried

        return SqliteOp(steps, writes=True)

    def events(
        self,
        ids: Sequence[str] | None,
        *,
        tenant_id: str | None,
        names: Sequence[str] | None,
        statuses: Sequence[EventStatus] | None,
        limit: int,
        before: str | None,
        raw: bool = False,
    ) -> Op[list[Event]]:
        def steps() -> Steps[list[Event]]:
            wanted = (None if each is None else json_list(each) for each in (names, statuses))
            page = (before or _AFTER_EVERY_ID, tenant_id, *wanted, limit)
            if ids is not None:
                rows = yield Statement(_SQL["page_of_ids"], (*page, json_list(ids)))
            else:
                rows = yield Statement(_SQL["page_of_pending" if [*(statuses or ())] == ["pending"] else "page"], page)
            found = yield from read_events([event_id for (event_id,) in rows], raw)
            return [event for event, _ in found.values()]

        return SqliteOp(steps, writes=False)


def read_events(ids: Sequence[str], raw: bool = False) -> Steps[dict[str, tuple[Event, str | None]]]:
    """Those of these events that exist, newest first, each with why its payload cannot be read, if so."""
    if not ids:
        return {}
    rows = yield Statement(_SQL["read"], (json_list(ids),))
    return {row[0]: to_event(row, raw) for row in rows}


def announce(ids: Sequence[str], now: int) -> Steps[None]:
    """Emit an event for each of these jobs whose end a trigger of its tenant listens to; one query if none does."""
    listeners = yield Statement(_SQL["listeners"])
    if not listeners:
        return
    listened_to = {(tenant_id, event) for tenant_id, event in listeners}
    rows = yield Statement(_SQL["ended"], (json_list(ids),))
    events = [
        event for row in rows if (event := _event(row, now))[1:3] in listened_to or (event[1], ALL_ENDS) in listened_to
    ]
    if events:
        yield Batch(_SQL["announce"], events)


def _event(row: Row, now: int) -> Row:
    job_id, tenant_id, kind, queue, status, error, tries, losses, correlation_id, trace, source, trigger_id = row
    payload = JobEnded(
        job_id=job_id,
        kind=kind,
        queue=queue,
        status=status,
        error=None if error is None else error.partition("\n")[0],
        tries=tries,
        losses=losses,
        correlation_id=correlation_id,
        source=source,
        trigger_id=trigger_id,
    )
    trace = trace or trace_id(None, job_id)
    return (new_id(), tenant_id, engine_event(status), _encode(payload).decode(), correlation_id, trace, job_id, now)
