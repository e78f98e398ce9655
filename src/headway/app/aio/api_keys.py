"""Generated from app/api_keys.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from headway.app.aio.base import AsyncVerbBase
from headway.app.api_keys import ApiKeyVerbs, CreatedKey
from headway.model.access import ApiKey, Role
from headway.model.duration import Duration
from headway.model.key_text import Mode, new_key


class AsyncApiKeyVerbs(ApiKeyVerbs, AsyncVerbBase):
    """The async twins of the verbs of `ApiKeyVerbs`."""

    async def acreate_api_key(
        self,
        name: str,
        role: Role,
        *,
        tenant: str | UUID | None = None,
        queues: Sequence[str] = (),
        kinds: Sequence[str] = (),
        expires: Duration | datetime | None = None,
        mode: Mode = "live",
        actor: str | None = None,
        conn: Any = None,
    ) -> CreatedKey:
        """Make a key for the HTTP API. Its `text` is shown only now.

        A superadmin's key has no tenant. A worker's is for all tenants unless you name one; every other role's is for
        the tenant that you name, or else the app's own. `queues` and `kinds` narrow what viewer, producer, operator,
        admin and worker keys see and touch. Raises `InvalidJob`.
        """
        await self._aensure_known(self._own_tenant, tenant)
        made = new_key(mode)
        op = self._create_api_key(name, role, tenant, queues, kinds, expires, made.id, made.secret_hash, mode, actor)
        return CreatedKey(made.text, await self._arun(op, conn))

    async def aapi_keys(self, *, tenant: str | UUID | None = None) -> list[ApiKey]:
        """The keys, oldest first, without their secrets; revoked and expired ones too."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self._arun(self._api_keys(tenant))

    async def aapi_key(self, key_id: str) -> ApiKey:
        """One key, without its secret. Raises `NotFound`."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._api_key(key_id))

    async def arevoke_api_key(
        self, key_id: str, *, with_made: bool = False, actor: str | None = None, conn: Any = None
    ) -> ApiKey:
        """Revoke a key, forever: within 5 seconds no server accepts it. `with_made` revokes the keys that it made, too,
        and theirs, and disables the schedules and triggers that any of these made. Raises `NotFound`."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._revoke_api_key(key_id, with_made, actor), conn)
