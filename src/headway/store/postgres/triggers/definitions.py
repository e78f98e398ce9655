"""Definitions: what is stored of a kind, and what workers declare."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.checks import check_declaration, check_definition_change
from headway.model.definition import Definition, DefinitionChange
from headway.model.trigger import Declaration, identified
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.postgres.engine.verbs import call, first, read
from headway.store.postgres.triggers.encode import change_text, fields_of, values_text

_DEFINITIONS = """
select d.kind, d.description, d.schema::text, d.timeout_ms, d.max_attempts, d.queue, d.enqueuer_may::text,
       d.policy::text, d.computed, d.active, d.changed, d.origin, d.revision, d.created_at, d.updated_at, d.tenants,
       case when d.tenants is not null then array(
         select t.id::text from headway.tenants t where t.slug = any (d.tenants) or t.id::text = any (d.tenants)) end
  from headway.definitions d
 where $1::text[] is null or d.kind = any ($1)
 order by d.kind
"""


class DefinitionVerbs:
    def change_definition(self, kind: str, change: DefinitionChange, *, actor: str | None) -> Op[Definition]:
        def steps() -> Steps[Definition]:
            check_definition_change(kind, change)
            yield Statement("select headway.change_definition($1, $2::json, $3)", [kind, change_text(change), actor])
            return _definition((yield Statement(_DEFINITIONS, [[kind]]))[0])

        return Op(steps, writes=True, atomic=True)

    def delete_definition(self, kind: str, *, actor: str | None) -> Op[bool]:
        return call("select headway.delete_definition($1, $2)", [kind, actor], first)

    def declare(self, declaration: Declaration) -> Op[tuple[str, ...]]:
        def steps() -> Steps[tuple[str, ...]]:
            check_declaration(declaration)
            schedules = declaration.schedules
            if names := sorted({each.tenant for each in schedules if not each.tenant_id}):
                rows = yield Statement("select name, id from headway.tenants_named($1::text[], true)", [names])
                schedules = identified(schedules, {name: str(found) for name, found in rows})
            rows = yield Statement(
                "select headway.declare($1::json, $2::json)",
                [values_text(declaration.definitions), values_text(schedules)],
            )
            return tuple(map(str, rows[0][0]))

        return Op(steps, writes=True)

    def definitions(self, kinds: Sequence[str] | None) -> Op[list[Definition]]:
        params = [None if kinds is None else list(kinds)]
        return read(_DEFINITIONS, params, lambda rows: [_definition(row) for row in rows])


def _definition(row: Row) -> Definition:
    fields = fields_of(Definition, row)
    fields["changed"] = tuple(fields["changed"])
    for name in ("tenants", "tenant_ids"):
        fields[name] = None if fields[name] is None else tuple(fields[name])
    return Definition(**fields)
