"""Templates: created, changed and deleted under names that are unique in their tenant; audited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.model import audit, refusals
from headway.model.checks import check_owner, check_template, check_template_change
from headway.model.template import NewTemplate, Template, TemplateChange
from headway.model.trigger import trigger_noun
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.engine.decode import to_template
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, given, json_list
from headway.store.sqlite.fleet.tenants import name_tenants
from headway.store.sqlite.jobs.audit import record, record_change

_SQL = statements("triggers/templates")
_CHANGEABLE = TemplateChange.__struct_fields__


class TemplateVerbs(Verbs):
    def create_template(self, template: NewTemplate, *, actor: str | None) -> Op[Template]:
        def steps() -> Steps[Template]:
            check_template(template)
            now = self._clock.now()
            there = yield from read_templates([template.id])
            if there:
                check_owner("template", template.id, template.tenant_id, there[template.id].tenant_id)
                return there[template.id]
            yield from name_tenants([template], now)
            yield from _refuse_taken(template.tenant_id, template.name)
            yield Statement(_SQL["insert"], (*_row(template), now))
            yield record(now, template.tenant_id, None, actor, "template.created", template.name)
            return (yield from read_templates([template.id]))[template.id]

        return SqliteOp(steps, writes=True)

    def change_template(
        self, template_id: str, change: TemplateChange, *, tenant_id: str | None, actor: str | None
    ) -> Op[Template | None]:
        def steps() -> Steps[Template | None]:
            check_template_change(change)
            now = self._clock.now()
            rows = yield Statement(_SQL["changing"], (template_id, tenant_id))
            if not rows:
                return None
            tenant, *current = rows[0]
            before: dict[str, Any] = dict(zip(_CHANGEABLE, current, strict=True))
            after = before | given(change)
            if after["name"] != before["name"]:
                yield from _refuse_taken(tenant, after["name"])
            yield Statement(_SQL["change"], (template_id, *after.values(), now))
            detail = audit.fields_changed(before["name"], change)
            values = audit.values_changed(before, after)
            yield record_change(now, tenant, None, actor, "template.changed", detail, values)
            return (yield from read_templates([template_id]))[template_id]

        return SqliteOp(steps, writes=True)

    def delete_template(self, template_id: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        def steps() -> Steps[bool]:
            rows = yield Statement(_SQL["changing"], (template_id, tenant_id))
            if not rows:
                return False
            tenant, name = rows[0][:2]
            users = yield Statement(_SQL["used_by"], (template_id,))
            if users:
                raise refusals.template_used(name, [f'{trigger_noun(type_)} "{user}"' for type_, user in users])
            yield Statement(_SQL["delete"], (template_id,))
            yield record(self._clock.now(), tenant, None, actor, "template.deleted", name)
            return True

        return SqliteOp(steps, writes=True)

    def templates(
        self, ids: Sequence[str] | None, *, tenant_id: str | None, name: str | None, limit: int, after: str | None
    ) -> Op[list[Template]]:
        def steps() -> Steps[list[Template]]:
            page = (tenant_id, name, after or "", limit)
            if ids is not None:
                rows = yield Statement(_SQL["page_of_ids"], (*page, json_list(ids)))
            elif tenant_id and name and not after:
                rows = yield Statement(_SQL["named"], (tenant_id, name))
            else:
                rows = yield Statement(_SQL["page"], page)
            return list((yield from read_templates([template_id for (template_id,) in rows])).values())

        return SqliteOp(steps, writes=False)


def read_templates(ids: Sequence[str]) -> Steps[dict[str, Template]]:
    """Those of these templates that exist, in order of id."""
    if not ids:
        return {}
    rows = yield Statement(_SQL["read"], (json_list(ids),))
    return {row[0]: to_template(row) for row in rows}


def _row(template: NewTemplate) -> tuple[Any, ...]:
    return (
        template.id,
        template.tenant_id,
        template.name,
        template.kind,
        template.payload,
        template.options,
        template.description,
        template.created_by,
    )


def _refuse_taken(tenant_id: str, name: str) -> Steps[None]:
    if (yield Statement(_SQL["named"], (tenant_id, name))):
        raise refusals.name_taken("a template", name)
