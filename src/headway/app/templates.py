"""The verbs of templates: a kind, a payload and options, stored under a name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Unpack
from uuid import UUID

import msgspec

from headway.app.base import renamed, then
from headway.app.enqueue import EnqueueVerbs
from headway.clock import from_micros
from headway.define.checks import name as checked_name
from headway.define.option_types import TemplateChanges, UsingOptions
from headway.define.options import check_stored_options
from headway.define.trigger_jobs import template_job
from headway.errors import InvalidJob, NotFound
from headway.model.codec import check_text, encode
from headway.model.ids import given_id, new_id
from headway.model.job import Enqueued, NewJob
from headway.model.template import NewTemplate, Template, TemplateChange
from headway.store.ops import Op, Steps

_CHANGES = ("name", "kind", "payload", "options", "description")
_OPTIONS_LIMIT = 65_536


class TemplateVerbs(EnqueueVerbs):
    """Name a template by its name, in this app's tenant or the given one; or by its id, a `UUID`."""

    def create_template(
        self,
        name: str,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        description: str = "",
        tenant: str | UUID | None = None,
        actor: str | None = None,
        conn: Any = None,
    ) -> Template:
        """Store a template; `options` are those of `using()` that fit any job. Raises `Duplicate`, `InvalidJob`.

        The payload may be incomplete: it is validated when a job is made from it.
        """
        return self._read(self._create_template(name, kind, payload, options, description, tenant, actor), conn)

    def get_template(self, name: str | UUID, *, tenant: str | UUID | None = None) -> Template:
        """One template as it is now; raises `NotFound`."""
        return self._read(self._template(name, tenant))

    def templates(
        self, *, tenant: str | UUID | None = None, limit: int = 100, after: str | UUID | None = None
    ) -> list[Template]:
        """The templates, oldest first; for the next page give the last one's id as `after`."""
        return self._read(self._templates(tenant, limit, after))

    def change_template(
        self,
        name: str | UUID,
        *,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
        **changes: Unpack[TemplateChanges],
    ) -> Template:
        """Change name (`new_name=`), kind, payload, options or description; jobs made before stay as they are. With
        `if_match` only if its `revision` is one of these; raises `ChangedMeanwhile`."""
        return self._read(self._change_template(name, tenant, actor, if_match, changes), conn)

    def delete_template(
        self,
        name: str | UUID,
        *,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> None:
        """Delete a template; raises `NotFound`, and `NotAllowed` while a schedule or trigger uses it."""
        self._run(self._delete_template(name, tenant, actor, if_match), conn)

    def run_template(
        self, name: str | UUID, payload: Mapping[str, Any] | None = None, **options: Unpack[UsingOptions]
    ) -> Enqueued:
        """Enqueue a job from a template, with these fields over its payload and these options over its own.

        The job keeps the template's id and revision; later changes of the template do not affect it.
        """
        conn = options.get("conn")
        job = self.build_from_template(name, payload, **options)
        return self._store_jobs([self._for_own_tenant(job)], None, conn)[0]

    def build_from_template(
        self,
        name: str | UUID,
        payload: Mapping[str, Any] | None = None,
        *,
        stored: bool = False,
        **options: Unpack[UsingOptions],
    ) -> NewJob:
        """What `run_template` would store, for `enqueue_many`; `stored` as `job_builder` takes it."""
        conn = options.pop("conn", None)
        tenant = options.pop("tenant", None)
        self.learn(conn)
        return self._template_job(self._run(self._template(name, tenant), conn), payload, options, stored=stored)

    def _template_job(
        self, template: Template, payload: Mapping[str, Any] | None, options: UsingOptions, *, stored: bool
    ) -> NewJob:
        if payload is not None and not isinstance(payload, Mapping):
            raise InvalidJob(f"the payload is a mapping of what goes over the template's, not {type(payload).__name__}")
        job = template_job(
            template,
            dict(payload or {}),
            dict(options),
            self._definitions.as_stored if stored else self._definitions,
            now=from_micros(self.clock.now()),
            limit=self.payload_limit,
            spill_limit=self.spill_limit,
        )
        return msgspec.structs.replace(job, tenant=template.tenant or template.tenant_id, tenant_id=template.tenant_id)

    def _create_template(
        self,
        name: str,
        kind: str,
        payload: Mapping[str, Any] | None,
        options: Mapping[str, Any] | None,
        description: str,
        tenant: str | UUID | None,
        actor: str | None,
    ) -> Op[Template]:
        owner = self._named_tenant(tenant)
        given = {"name": name, "kind": kind, "payload": payload, "options": options, "description": description}
        row = NewTemplate(
            id=new_id(),
            tenant=owner,
            tenant_id=self._id_for(owner),
            created_by=actor and str(actor),
            **self._template_fields(given),
        )
        return self._store.ops.create_template(row, actor=actor)

    def _template_fields(self, given: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, value in given.items():
            match name:
                case "name" | "kind":
                    made[name] = checked_name(value, name)
                case "payload" | "options":
                    if value is not None and not isinstance(value, Mapping):
                        raise InvalidJob(f"a template's {name} are a mapping, not {type(value).__name__}")
                    fields = dict(value or {})
                    if name == "options":
                        check_stored_options(fields)
                    made[name] = encode(
                        fields, limit=self.payload_limit if name == "payload" else _OPTIONS_LIMIT, what=name
                    )
                case "description":
                    made[name] = check_text(value, name, limit=500) if value else ""
                case _:
                    raise InvalidJob(f"a template has no {name}: change {', '.join(_CHANGES)}")
        return made

    def _template(self, name: str | UUID, tenant: str | UUID | None) -> Op[Template]:
        if isinstance(name, UUID):
            seen = self._tenant_to_read(tenant)
            by_id = self._store.ops.templates([str(name)], tenant_id=seen, name=None, limit=1, after=None)
            return then(by_id, lambda found: found[0] if found else _no_such(name))
        owner = self._named_tenant(tenant)
        op = self._store.ops.templates(
            None, tenant_id=self._id_of(owner), name=checked_name(name, "template"), limit=1, after=None
        )
        return then(op, lambda found: found[0] if found else _missing(name, owner))

    def _templates(self, tenant: str | UUID | None, limit: int, after: str | UUID | None) -> Op[list[Template]]:
        return self._store.ops.templates(
            None,
            tenant_id=self._tenant_to_read(tenant),
            name=None,
            limit=limit,
            after=None if after is None else given_id(after, "after"),
        )

    def _change_template(
        self,
        name: str | UUID,
        tenant: str | UUID | None,
        actor: str | None,
        if_match: Collection[str] | None,
        changes: Mapping[str, Any],
    ) -> Op[Template]:
        given = renamed(changes)
        if not given:
            raise InvalidJob("nothing to change was given")
        change = TemplateChange(**self._template_fields(given))

        def steps() -> Steps[Template]:
            found = yield from self._found_to_change("template", self._template, name, tenant, if_match)
            op = self._store.ops.change_template(found.id, change, tenant_id=found.tenant_id, actor=actor)
            return (yield from op.steps()) or _missing(found.name, found.tenant)

        return Op(steps, writes=True, refusable=True, atomic=True, computes=True)

    def _delete_template(
        self, name: str | UUID, tenant: str | UUID | None, actor: str | None, if_match: Collection[str] | None
    ) -> Op[bool]:
        def steps() -> Steps[bool]:
            found = yield from self._found_to_change("template", self._template, name, tenant, if_match)
            op = self._store.ops.delete_template(found.id, tenant_id=found.tenant_id, actor=actor)
            return (yield from op.steps())

        return Op(steps, writes=True, atomic=True)


def _missing(name: str, tenant: str) -> Any:
    raise NotFound(f'tenant {tenant} has no template "{name}": headway templates list shows what there is')


def _no_such(template_id: UUID) -> Any:
    raise NotFound(f"there is no template {template_id} (or it is another tenant's)")
