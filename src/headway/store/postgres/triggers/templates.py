"""Templates: a kind, a payload and options under a name."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.checks import check_template, check_template_change
from headway.model.template import NewTemplate, Template, TemplateChange
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.postgres.engine.verbs import read
from headway.store.postgres.triggers.encode import change_text, fields_of, value_text

# JSON as text: on a caller's connection, its library would decode it
TEMPLATE_COLUMNS = """
       m.id, m.tenant_id, coalesce(mn.slug, m.tenant_id::text), m.name, m.kind, m.payload::text, m.options::text,
       m.description, m.revision, m.created_by, m.created_at, m.updated_at
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


class TemplateVerbs:
    def create_template(self, template: NewTemplate, *, actor: str | None) -> Op[Template]:
        def steps() -> Steps[Template]:
            check_template(template)
            rows = yield Statement("select headway.create_template($1::json, $2)", [value_text(template), actor])
            return read_template((yield Statement(_TEMPLATE, [rows[0][0]]))[0])

        return Op(steps, writes=True, refusable=True, atomic=True)

    def change_template(
        self, template_id: str, change: TemplateChange, *, tenant_id: str | None, actor: str | None
    ) -> Op[Template | None]:
        def steps() -> Steps[Template | None]:
            check_template_change(change)
            rows = yield Statement(
                "select headway.change_template($1::uuid, $2::json, $3::uuid, $4)",
                [template_id, change_text(change), tenant_id, actor],
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


def read_template(row: Row) -> Template:
    """A template from TEMPLATE_COLUMNS."""
    return Template(**fields_of(Template, row))
