"""What starts jobs, as it is stored, on PostgreSQL: definitions, templates and triggers, their verbs and reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headway.model.definition import Definition, DefinitionChange
from headway.model.template import NewTemplate, Template, TemplateChange
from headway.model.trigger import Declaration, NewTrigger, Trigger, TriggerChange, TriggerType, identified
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.postgres.jobs.reads import call, first, plain, read, shown

# JSON as text: on a caller's connection, its library would decode it
TEMPLATE_COLUMNS = """
       m.id, m.tenant_id, coalesce(mn.slug, m.tenant_id::text), m.name, m.kind, m.payload::text, m.options::text,
       m.description, m.revision, m.created_by, m.created_at, m.updated_at
"""
# with its template as m
TRIGGER_COLUMNS = """
       t.id, t.tenant_id, coalesce(n.slug, t.tenant_id::text), t.type, t.name, t.kind, t.template_id, m.kind,
       t.payload::text, t.options::text, t.description, t.enabled, t.origin, t.created_by, t.created_at, t.updated_at,
       t.declared_at, t.revision, t.cron, t.every_ms, t.tz, t.catch_up, t.catch_up_window_ms, t.overlap, t.jitter_ms,
       t.start_at, t.end_at, t.next_fire_at, t.event, t."when"::text, t.dedupe_window_ms, t.dedupe_key, t.last_fired_at,
       t.last_job_id, t.error
"""
_TEMPLATES = f"""
select {TEMPLATE_COLUMNS}
  from headway.templates m
  left join headway.tenants mn on mn.id = m.tenant_id
"""  # noqa: S608 - texts of this file
_TEMPLATE = _TEMPLATES + " where m.id = $1::uuid"
_FIND_TEMPLATES = (
    _TEMPLATES
    + """
 where ($1::uuid[] is null or m.id = any ($1))
   and ($2::uuid is null or m.tenant_id = $2)
   and ($3::text is null or m.name = $3)
   and ($4::uuid is null or m.id > $4)
 order by m.id
 limit $5::integer
"""
)
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
   and ($4::text is null or t.event = $4)
   and ($5::uuid is null or t.id > $5)
 order by t.id
 limit $6::integer
"""
)
_DEFINITIONS = """
select d.kind, d.description, d.schema::text, d.timeout_ms, d.max_attempts, d.queue, d.enqueuer_may::text,
       d.policy::text, d.computed, d.active, d.changed, d.origin, d.revision, d.created_at, d.updated_at
  from headway.definitions d
 where $1::text[] is null or d.kind = any ($1)
 order by d.kind
"""
_JSON = frozenset({"schema", "policy", "enqueuer_may", "payload", "options", "when"})  # travel as they are written


class TriggerOps:
    """The verbs of `Ops` for definitions, templates and triggers."""

    # definitions

    def change_definition(self, kind: str, change: DefinitionChange, *, actor: str | None) -> Op[Definition]:
        def steps() -> Steps[Definition]:
            yield Statement("select headway.change_definition($1, $2::json, $3)", [kind, _change(change), actor])
            return definition((yield Statement(_DEFINITIONS, [[kind]]))[0])

        return Op(steps, writes=True, atomic=True)

    def delete_definition(self, kind: str, *, actor: str | None) -> Op[bool]:
        return call("select headway.delete_definition($1, $2)", [kind, actor], first)

    def declare(self, declaration: Declaration) -> Op[tuple[str, ...]]:
        def steps() -> Steps[tuple[str, ...]]:
            schedules = declaration.schedules
            if names := sorted({each.tenant for each in schedules if not each.tenant_id}):
                rows = yield Statement("select name, id from headway.tenants_named($1::text[], true)", [names])
                schedules = identified(schedules, {name: str(found) for name, found in rows})
            rows = yield Statement(
                "select headway.declare($1::json, $2::json)", [_values(declaration.definitions), _values(schedules)]
            )
            return tuple(map(str, rows[0][0]))

        return Op(steps, writes=True)

    def definitions(self, kinds: Sequence[str] | None) -> Op[list[Definition]]:
        params = [None if kinds is None else list(kinds)]
        return read(_DEFINITIONS, params, lambda rows: [definition(row) for row in rows])

    # templates

    def create_template(self, template: NewTemplate, *, actor: str | None) -> Op[Template]:
        def steps() -> Steps[Template]:
            rows = yield Statement("select headway.create_template($1::json, $2)", [_value(template), actor])
            return read_template((yield Statement(_TEMPLATE, [rows[0][0]]))[0])

        return Op(steps, writes=True, refusable=True, atomic=True)

    def change_template(
        self, template_id: str, change: TemplateChange, *, tenant_id: str | None, actor: str | None
    ) -> Op[Template | None]:
        def steps() -> Steps[Template | None]:
            rows = yield Statement(
                "select headway.change_template($1::uuid, $2::json, $3::uuid, $4)",
                [template_id, _change(change), tenant_id, actor],
            )
            return read_template((yield Statement(_TEMPLATE, [template_id]))[0]) if rows[0][0] else None

        return Op(steps, writes=True, refusable=True, atomic=True)

    def delete_template(self, template_id: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        def steps() -> Steps[bool]:
            rows = yield Statement(
                "select headway.delete_template($1::uuid, $2::uuid, $3)", [template_id, tenant_id, actor]
            )
            return bool(rows[0][0])

        return Op(steps, writes=True, refusable=True)

    def templates(
        self, ids: Sequence[str] | None, *, tenant_id: str | None, name: str | None, limit: int, after: str | None
    ) -> Op[list[Template]]:
        return read(
            _FIND_TEMPLATES,
            [None if ids is None else list(ids), tenant_id, name, after, limit],
            lambda rows: [read_template(row) for row in rows],
        )

    # triggers

    def create_trigger(self, trigger: NewTrigger, *, actor: str | None) -> Op[Trigger]:
        def steps() -> Steps[Trigger]:
            rows = yield Statement("select headway.create_trigger($1::json, $2)", [_value(trigger), actor])
            return read_trigger((yield Statement(_TRIGGER, [rows[0][0]]))[0])

        return Op(steps, writes=True, refusable=True, atomic=True)

    def change_trigger(
        self, trigger_id: str, change: TriggerChange, *, tenant_id: str | None, actor: str | None
    ) -> Op[Trigger | None]:
        def steps() -> Steps[Trigger | None]:
            rows = yield Statement(
                "select headway.change_trigger($1::uuid, $2::json, $3::uuid, $4)",
                [trigger_id, _change(change), tenant_id, actor],
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
        event: str | None,
        limit: int,
        after: str | None,
    ) -> Op[list[Trigger]]:
        return read(
            _FIND_TRIGGERS,
            [tenant_id, type, name, event, after, limit],
            lambda rows: [read_trigger(row) for row in rows],
        )


def definition(row: Row) -> Definition:
    fields = _fields(Definition, row)
    fields["changed"] = tuple(fields["changed"])
    return Definition(**fields)


def read_template(row: Row) -> Template:
    """A template from TEMPLATE_COLUMNS."""
    return Template(**_fields(Template, row))


def read_trigger(row: Row) -> Trigger:
    """A trigger from TRIGGER_COLUMNS."""
    return Trigger(**_fields(Trigger, row))


def _fields(struct: type[msgspec.Struct], row: Row) -> dict[str, Any]:
    fields = dict(zip(struct.__struct_fields__, map(plain, row), strict=True))
    for name in _JSON & fields.keys():
        fields[name] = shown(fields[name])
    return fields


def _plain(struct: msgspec.Struct) -> dict[str, Any]:
    """What a struct says, with JSON text as JSON; what is UNSET is not there."""
    return {
        name: msgspec.Raw(value.encode()) if name in _JSON and isinstance(value, str) else value
        for name in struct.__struct_fields__
        if (value := getattr(struct, name)) is not msgspec.UNSET
    }


def _value(struct: msgspec.Struct) -> str:
    return msgspec.json.encode(_plain(struct)).decode()


def _values(structs: Sequence[msgspec.Struct]) -> str:
    return msgspec.json.encode([_plain(struct) for struct in structs]).decode()


def _change(change: DefinitionChange | TemplateChange | TriggerChange) -> str:
    given = _plain(change)
    if not given.get("reset", True):
        del given["reset"]
    return msgspec.json.encode(given).decode()
