"""Due: which schedules and events must fire now, with their triggers and templates."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from headway.errors import InvalidPayload
from headway.model import codec
from headway.model.event import Event
from headway.model.trigger import DUE_BYTES, Due, PendingEvent, ResolvedTrigger, Trigger, resolved
from headway.store.ops import Op, Row, Rows, Statement, Steps
from headway.store.postgres.engine.decode import utc
from headway.store.postgres.triggers.events import EVENT_COLUMNS, read_event
from headway.store.postgres.triggers.templates import TEMPLATE_COLUMNS, read_template
from headway.store.postgres.triggers.triggers import TRIGGER_COLUMNS, read_trigger

_DUE = (
    "select now, schedules, events, next_due_ms, computed, defined"
    " from headway.due($1::text[], $2::uuid[], $3::integer)"
)
# of the schedules that were due a moment ago, those that still are
_DUE_SCHEDULES = f"""
select {TRIGGER_COLUMNS}, {TEMPLATE_COLUMNS}
  from headway.triggers t
  left join headway.tenants n on n.id = t.tenant_id
  left join headway.templates m on m.id = t.template_id
  left join headway.tenants mn on mn.id = m.tenant_id
 where t.id = any ($1::uuid[])
   and t.enabled
   and t.next_fire_at <= $2::timestamptz
 order by t.next_fire_at, t.id
"""  # noqa: S608 - texts of these files
_DUE_EVENTS = f"""
select {EVENT_COLUMNS}
  from headway.events e
  left join headway.tenants en on en.id = e.tenant_id
 where e.id in (
         select f.id
           from (select s.id, sum(s.size) over (order by s.before, s.id) - s.size as before
                   from (select w.id, w.size,
                                sum(w.size) over (partition by w.tenant_id order by w.id) - w.size as before
                           from (select p.id, p.tenant_id, octet_length(p.payload::text) as size
                                   from headway.events p
                                  where p.id = any ($1::uuid[])
                                    and p.status = 'pending') w) s) f
          where f.before < {DUE_BYTES})
 order by e.id
"""  # noqa: S608 - texts of these files
# each trigger once, with all of the events that it is on
_LISTENING = f"""
select h.events, {TRIGGER_COLUMNS}, {TEMPLATE_COLUMNS}
  from (select t.id, array_agg(e.id) as events
          from headway.events e
          join headway.triggers t
            on t.tenant_id = e.tenant_id and t.event = any (headway.event_patterns(e.name))
           and t.enabled and t.type = 'event'
           and t.created_at <= e.emitted_at
           and not exists (select from headway.fires f where f.event_id = e.id and f.trigger_id = t.id)
         where e.id = any ($1::uuid[])
           and e.status = 'pending'
         group by t.id) h
  join headway.triggers t on t.id = h.id
  left join headway.tenants n on n.id = t.tenant_id
  left join headway.templates m on m.id = t.template_id
  left join headway.tenants mn on mn.id = m.tenant_id
 order by t.id
"""  # noqa: S608 - texts of these files


class DueVerbs:
    def due(self, *, kinds: Sequence[str], declared: Sequence[str], limit: int) -> Op[Due]:
        def steps() -> Steps[Due]:
            ((now, schedules, events, next_due_ms, computed, defined),) = yield Statement(
                _DUE, [list(kinds), list(declared), limit]
            )
            rows = (yield Statement(_DUE_SCHEDULES, [schedules, now])) if schedules else []
            due = tuple(each for row in rows if (each := _resolved_trigger(row)) is not None)
            # triggers after the events: one that fired meanwhile is not listed for an event that is still pending
            waiting = (yield Statement(_DUE_EVENTS, [events])) if events else []
            listening = (yield Statement(_LISTENING, [[row[0] for row in waiting]])) if waiting else []
            return Due(
                now=utc(now),
                schedules=due,
                events=_pending_events(waiting, listening, computed),
                # what cannot be read stays due: do not ask again at once, forever
                next_due_ms=None if rows and not due else next_due_ms,
                more=len(waiting) < len(events or ()),
                defined=defined,
            )

        return Op(steps, writes=False)


_OF_TRIGGER = len(Trigger.__struct_fields__)
_PAYLOAD = Event.__struct_fields__.index("payload")


def _resolved_trigger(row: Row, computed: Collection[str] = ()) -> ResolvedTrigger | None:
    """A trigger with its template, or None where one of them cannot be read: it must not stop the others."""
    trigger = read_trigger(row[:_OF_TRIGGER])
    template = None if row[_OF_TRIGGER] is None else read_template(row[_OF_TRIGGER:])
    return resolved(trigger, template, computed=(trigger.kind or trigger.template_kind) in computed)


def _pending_events(waiting: Rows, listening: Rows, computed: Collection[str]) -> tuple[PendingEvent, ...]:
    """Events, in order, with the triggers on them."""
    by_event: dict[str, list[ResolvedTrigger]] = {str(row[0]): [] for row in waiting}
    for row in listening:
        trigger = _resolved_trigger(row[1:], computed)
        if trigger is not None:
            for event_id in map(str, row[0]):
                by_event.setdefault(event_id, []).append(trigger)
    return tuple(_pending_event(row, tuple(by_event[str(row[0])])) for row in waiting)


def _pending_event(row: Row, triggers: tuple[ResolvedTrigger, ...]) -> PendingEvent:
    event = read_event(row)
    try:
        codec.read(row[_PAYLOAD])
    except InvalidPayload as error:
        return PendingEvent(event=msgspec.structs.replace(event, payload=None), triggers=triggers, fault=str(error))
    return PendingEvent(event=event, triggers=triggers)
