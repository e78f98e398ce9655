"""Generated from app/webhooks.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from headway.app.aio.connectors import AsyncConnectorVerbs
from headway.app.aio.enqueue import AsyncEnqueueVerbs
from headway.app.webhooks import TEST_EVENT, WebhookKeys, WebhookVerbs, _keys, _master
from headway.errors import InvalidJob
from headway.model.connector import WEBHOOK
from headway.model.duration import Duration
from headway.model.http_url import read_url
from headway.model.job import Enqueued


class AsyncWebhookVerbs(WebhookVerbs, AsyncConnectorVerbs, AsyncEnqueueVerbs):
    """The async twins of the verbs of `WebhookVerbs`."""

    async def aadd_webhook(
        self,
        url: str,
        events: Sequence[str],
        *,
        name: str | None = None,
        headers: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        description: str | None = None,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        conn: Any = None,
    ) -> WebhookKeys:
        """Deliver these events (`order.paid`, `order.*`, `headway.job.dead`) to this URL, from now on: stores the
        endpoint and a trigger for each. It is named after the URL's host unless you name it.

        `options`: `timeout`, `ordered` (one after the other, by a train), `signatures` (["v1"], or with "v1a"). Raises
        `ConfigError` without the master secret, `Duplicate`, `InvalidJob`.
        """
        await self._aensure_known(self._own_tenant, tenant, create=True)
        master = _master()
        if not events:
            raise InvalidJob("which events? Give some, such as order.* or headway.job.dead")
        made = await self.acreate_connector(
            name or read_url(url).host,
            url,
            kind=WEBHOOK,
            events=events,
            headers=headers,
            options=options,
            description=description,
            tenant=tenant,
            actor=actor,
            conn=conn,
        )
        return _keys(master, made)

    async def arotate_webhook(
        self,
        name: str | UUID,
        *,
        overlap: Duration = "1d",
        tenant: str | UUID | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> WebhookKeys:
        """Give an endpoint a new secret. For the time of `overlap`, deliveries are signed by the old one, too. With
        `if_match` only if its `revision` is one of these: asked twice, it rotates once. Raises `NotFound`,
        `ConfigError` without the master secret, `ChangedMeanwhile`, `NotAllowed` if it was changed meanwhile."""
        await self._aensure_known(self._own_tenant, tenant)
        master = _master()
        return _keys(master, await self._arun(self._rotate_webhook(name, overlap, tenant, actor, if_match), conn))

    async def atest_webhook(
        self, name: str | UUID, *, tenant: str | UUID | None = None, actor: str | None = None, conn: Any = None
    ) -> Enqueued:
        """Enqueue a delivery of the event headway.webhook.test to an endpoint; gives its job. Raises `NotFound`."""
        await self._aensure_known(self._own_tenant, tenant)
        endpoint = await self._arun(self._endpoint(name, tenant), conn)
        payload = {"endpoint": endpoint.id, "type": TEST_EVENT, "data": {"endpoint": endpoint.name}}
        by = None if actor is None else str(actor)
        return await self.aenqueue(WEBHOOK, payload, tenant=UUID(endpoint.tenant_id), created_by=by, conn=conn)
