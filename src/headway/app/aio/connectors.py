"""Generated from app/connectors.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Unpack
from uuid import UUID

from headway.app.aio.base import AsyncVerbBase
from headway.app.connectors import ConnectorVerbs
from headway.define.option_types import ConnectorChanges, ConnectorOptions
from headway.model.connector import (
    Connector,
)


class AsyncConnectorVerbs(ConnectorVerbs, AsyncVerbBase):
    """The async twins of the verbs of `ConnectorVerbs`."""

    async def acreate_connector(self, name: str, url: str, **options: Unpack[ConnectorOptions]) -> Connector:
        """Store where `connector.http.request` (or another `kind`) sends requests: the base URL, and headers for all of
        them, whose secrets are references: `{"Authorization": ["Bearer ", {"$secret": "SHOP_TOKEN"}]}`.

        `options` are limits: `timeout`, `max_response` (bytes), `redirects` (at most 5), `expect` (statuses that count
        as success). Raises `Duplicate`, `InvalidJob`.
        """
        await self._aensure_known(self._own_tenant, options.get("tenant"), create=True)
        conn = options.pop("conn", None)
        return await self._arun(self._create_connector(name, url, options), conn)

    async def aget_connector(self, name: str | UUID, *, tenant: str | UUID | None = None) -> Connector:
        """One configuration as it is now; raises `NotFound`."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self._arun(self._connector(name, tenant))

    async def aconnectors(
        self,
        *,
        kind: str | None = None,
        tenant: str | UUID | None = None,
        limit: int = 100,
        after: str | UUID | None = None,
    ) -> list[Connector]:
        """The configurations, oldest first; for the next page give the last one's id as `after`."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self._arun(self._connectors(kind, tenant, limit, after))

    async def achange_connector(
        self,
        name: str | UUID,
        *,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
        **changes: Unpack[ConnectorChanges],
    ) -> Connector:
        """Change name (`new_name=`), url, headers, options, events, description or enabled. Requests that are under way
        go on with what they read. With `if_match` only if its `revision` is one of these; raises `ChangedMeanwhile`."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self._arun(self._change_connector(name, tenant, actor, if_match, changes), conn)

    async def adelete_connector(
        self,
        name: str | UUID,
        *,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> None:
        """Delete a configuration; jobs that name it end dead. Raises `NotFound`."""
        await self._aensure_known(self._own_tenant, tenant)
        await self._arun(self._delete_connector(name, tenant, actor, if_match), conn)
