"""Events on PostgreSQL: what is emitted, retried and read."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model import codec
from headway.model.event import Event, EventStatus, NewEvent
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.postgres.engine.arrays import column
from headway.store.postgres.engine.decode import plain, shown
from headway.store.postgres.engine.verbs import call, id_list, read

EVENT_COLUMNS = """
       e.id, e.tenant_id, coalesce(en.slug, e.tenant_id::text), e.name, e.payload::text, e.status, e.emitted_at,
       e.handled_at, e.correlation_id, e.trace_id, e.created_by, e.job_id, e.error
"""
_EMIT = (
    "select headway.emit_many($1::uuid[], $2::text[], $3::json[], $4::uuid[], $5::text[], $6::text[], $7::text[],"
    " $8::text[], p_checked => true)"
)
_EVENTS = f"""
select {EVENT_COLUMNS}
  from headway.events e
  left join headway.tenants en on en.id = e.tenant_id
 where ($1::uuid[] is null or e.id = any ($1))
   and ($2::uuid is null or e.tenant_id = $2)
   and ($3::text[] is null or e.name = any ($3))
   and ($4::text[] is null or e.status = any ($4))
   and ($5::uuid is null or e.id < $5)
 order by e.id desc
 limit $6::integer
"""  # noqa: S608 - texts of this file


class EventVerbs:
    def emit(self, events: Sequence[NewEvent]) -> Op[list[str]]:
        def steps() -> Steps[list[str]]:
            if events:
                yield Statement(
                    _EMIT,
                    [
                        [event.id for event in events],
                        [event.name for event in events],
                        column(events, "payload", "null"),
                        [event.tenant_id for event in events],
                        column(events, "tenant", None),
                        column(events, "correlation_id", None),
                        column(events, "created_by", None),
                        column(events, "trace_id", None),
                    ],
                )
            return [event.id for event in events]

        return Op(steps, writes=True)

    def retry_events(self, ids: Sequence[str], *, tenant_id: str | None, actor: str | None) -> Op[list[str]]:
        return call(
            "select * from headway.retry_events($1::uuid[], $2::uuid, $3)",
            [list(ids), tenant_id, actor],
            id_list,
        )

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
        return read(
            _EVENTS,
            [_list(ids), tenant_id, _list(names), _list(statuses), before, limit],
            lambda rows: [read_event(row, raw) for row in rows],
        )


def _list(given: Sequence[str] | None) -> list[str] | None:
    return None if given is None else list(given)


def read_event(row: Row, raw: bool = False) -> Event:
    """An event from EVENT_COLUMNS; a payload that cannot be read is shown as its text."""
    fields = dict(zip(Event.__struct_fields__, map(plain, row), strict=True))
    fields["payload"] = (codec.as_stored if raw else shown)(fields["payload"])
    return Event(**fields)
