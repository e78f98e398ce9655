"""What is to be fired now, on PostgreSQL: schedules that are due, and events that wait."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.event import Event
from headway.model.trigger import Due, Heard, Met, Trigger
from headway.store.ops import Op, Row, Rows, Statement, Steps
from headway.store.postgres.events import EVENT_COLUMNS, read_event
from headway.store.postgres.reads import utc
from headway.store.postgres.triggers import TEMPLATE_COLUMNS, TRIGGER_COLUMNS, read_template, read_trigger

_DUE = "select now, schedules, events, next_due_ms, defined_at from headway.due($1::text[], $2::uuid[], $3::integer)"
# of what was due a moment ago: what is due still
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
select {EVENT_COLUMNS}, {TRIGGER_COLUMNS}, {TEMPLATE_COLUMNS}
  from headway.events e
  left join headway.tenants en on en.id = e.tenant_id
  left join headway.triggers t
    on t.tenant_id = e.tenant_id and t.event = e.name and t.enabled and t.type = 'event'
   and t.created_at <= e.emitted_at
   and not exists (select from headway.fires f where f.event_id = e.id and f.trigger_id = t.id)
  left join headway.tenants n on n.id = t.tenant_id
  left join headway.templates m on m.id = t.template_id
  left join headway.tenants mn on mn.id = m.tenant_id
 where e.id = any ($1::uuid[])
   and e.status = 'pending'
 order by e.id, t.id
"""  # noqa: S608 - texts of these files


class DueOps:
    """The verb of `Ops` that looks what is due."""

    def due(self, *, kinds: Sequence[str], declared: Sequence[str], limit: int) -> Op[Due]:
        def steps() -> Steps[Due]:
            ((now, schedules, events, next_due_ms, defined_at),) = yield Statement(
                _DUE, [list(kinds), list(declared), limit]
            )
            met = (yield Statement(_DUE_SCHEDULES, [schedules, now])) if schedules else []
            heard = (yield Statement(_DUE_EVENTS, [events])) if events else []
            return Due(
                now=utc(now),
                schedules=tuple(_met(row) for row in met),
                events=_heard(heard),
                next_due_ms=next_due_ms,
                defined_at=utc(defined_at),
            )

        return Op(steps, writes=False)


_OF_TRIGGER, _OF_EVENT = len(Trigger.__struct_fields__), len(Event.__struct_fields__)


def _met(row: Row) -> Met:
    template = row[_OF_TRIGGER:]
    return Met(
        trigger=read_trigger(row[:_OF_TRIGGER]), template=None if template[0] is None else read_template(template)
    )


def _heard(rows: Rows) -> tuple[Heard, ...]:
    """Events, in order, with the triggers on them: a row each, or one without a trigger."""
    events: dict[str, tuple[Row, list[Met]]] = {}
    for row in rows:
        _, met = events.setdefault(row[0], (row, []))
        if row[_OF_EVENT] is not None:
            met.append(_met(row[_OF_EVENT:]))
    return tuple(Heard(event=read_event(row[:_OF_EVENT]), met=tuple(met)) for row, met in events.values())
