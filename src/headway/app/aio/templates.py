"""Generated from app/templates.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Unpack
from uuid import UUID

from headway.app.aio.enqueue import AsyncEnqueueVerbs
from headway.app.templates import TemplateVerbs
from headway.define.option_types import TemplateChanges, UsingOptions
from headway.model.job import Enqueued, NewJob
from headway.model.template import Template


class AsyncTemplateVerbs(TemplateVerbs, AsyncEnqueueVerbs):
    """The async twins of the verbs of `TemplateVerbs`."""

    async def acreate_template(
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
        await self._aensure_known(self._own_tenant, tenant, create=True)
        return await self._aread(self._create_template(name, kind, payload, options, description, tenant, actor), conn)

    async def aget_template(self, name: str | UUID, *, tenant: str | UUID | None = None) -> Template:
        """One template as it is now; raises `NotFound`."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self._aread(self._template(name, tenant))

    async def atemplates(
        self, *, tenant: str | UUID | None = None, limit: int = 100, after: str | UUID | None = None
    ) -> list[Template]:
        """The templates, oldest first; for the next page give the last one's id as `after`."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self._aread(self._templates(tenant, limit, after))

    async def achange_template(
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
        await self._aensure_known(self._own_tenant, tenant)
        return await self._aread(self._change_template(name, tenant, actor, if_match, changes), conn)

    async def adelete_template(
        self,
        name: str | UUID,
        *,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> None:
        """Delete a template; raises `NotFound`, and `NotAllowed` while a schedule or trigger uses it."""
        await self._aensure_known(self._own_tenant, tenant)
        await self._arun(self._delete_template(name, tenant, actor, if_match), conn)

    async def arun_template(
        self, name: str | UUID, payload: Mapping[str, Any] | None = None, **options: Unpack[UsingOptions]
    ) -> Enqueued:
        """Enqueue a job from a template, with these fields over its payload and these options over its own.

        The job keeps the template's id and revision; later changes of the template do not affect it.
        """
        await self._aensure_known(self._own_tenant, options.get("tenant"))
        conn = options.get("conn")
        job = await self.abuild_from_template(name, payload, **options)
        return (await self._astore_jobs([self._for_own_tenant(job)], None, conn))[0]

    async def abuild_from_template(
        self,
        name: str | UUID,
        payload: Mapping[str, Any] | None = None,
        *,
        stored: bool = False,
        **options: Unpack[UsingOptions],
    ) -> NewJob:
        """What `run_template` would store, for `enqueue_many`; `stored` as `job_builder` takes it."""
        await self._aensure_known(self._own_tenant, options.get("tenant"))
        conn = options.pop("conn", None)
        tenant = options.pop("tenant", None)
        await self.alearn(conn)
        return self._template_job(await self._arun(self._template(name, tenant), conn), payload, options, stored=stored)
