"""Triggers: schedules and event triggers."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.checks import check_trigger, check_trigger_change
from headway.model.trigger import NewTrigger, Trigger, TriggerChange, TriggerType
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.postgres.engine.verbs import call, first, read
from headway.store.postgres.triggers.encode import change_text, fields_of, value_text

# with its template as m
TRIGGER_COLUMNS = """
       t.id, t.tenant_id, coalesce(n.slug, t.tenant_id::text), t.type, t.name, t.kind, t.template_id, m.kind,
       t.payload::text, t.options::text, t.description, t.enabled, t.origin, t.created_by, t.created_at, t.updated_at,
       t.declared_at, t.revision, t.cron, t.every_ms, t.tz, t.catch_up, t.catch_up_window_ms, t.overlap, t.jitter_ms,
       t.start_at, t.end_at, t.next_fire_at, t.event, t."when"::text, t.dedupe_window_ms, t.dedupe_key, t.signal,
       t.signal_to, t.last_fired_at, t.last_job_id, t.error, t.label
"""
_TRIGGERS = f"""
select {TRIGGER_COLUMNS}
  from headway.triggers t
  left join headway.tenants n on n.id = t.tenant_id
  left join headway.templates m on m.id = t.template_id
"""  # noqa: S608 - texts of this file
_TRIGGER = _TRIGGERS + " where t.id = $1::uuid"
_FIND_TRIGGERS = (
    _TRIGGERS
    + """
 where ($1::uuid is null or t.tenant_id = $1)
   and ($2::text is null or t.type = $2)
   and ($3::text is null or t.name = $3)
   and ($4::text[] is null or t.event = any ($4))
   and ($5::uuid is null or t.id > $5)
   and ($7::uuid is null or t.id = $7)
 order by t.id
 limit $6::integer
"""
)


class TriggerVerbs:
    def create_trigger(self, trigger: NewTrigger, *, actor: str | None) -> Op[Trigger]:
        def steps() -> Steps[Trigger]:
            check_trigger(trigger)
            rows = yield Statement("select headway.create_trigger($1::json, $2)", [value_text(trigger), actor])
            return read_trigger((yield Statement(_TRIGGER, [rows[0][0]]))[0])

        return Op(steps, writes=True, refusable=True, atomic=True)

    def change_trigger(
        self, trigger_id: str, change: TriggerChange, *, tenant_id: str | None, actor: str | None
    ) -> Op[Trigger | None]:
        def steps() -> Steps[Trigger | None]:
            check_trigger_change(change)
            rows = yield Statement(
                "select headway.change_trigger($1::uuid, $2::json, $3::uuid, $4)",
                [trigger_id, change_text(change), tenant_id, actor],
            )
            return read_trigger((yield Statement(_TRIGGER, [trigger_id]))[0]) if rows[0][0] else None

        return Op(steps, writes=True, refusable=True, atomic=True)

    def delete_trigger(self, trigger_id: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        return call("select headway.delete_trigger($1::uuid, $2::uuid, $3)", [trigger_id, tenant_id, actor], first)

    def triggers(
        self,
        *,
        tenant_id: str | None,
        type: TriggerType | None,  # noqa: A002
        name: str | None,
        events: Sequence[str] | None,
        limit: int,
        after: str | None,
        only: str | None = None,
    ) -> Op[list[Trigger]]:
        return read(
            _FIND_TRIGGERS,
            [tenant_id, type, name, None if events is None else list(events), after, limit, only],
            lambda rows: [read_trigger(row) for row in rows],
        )


def read_trigger(row: Row) -> Trigger:
    """A trigger from TRIGGER_COLUMNS."""
    return Trigger(**fields_of(Trigger, row))
