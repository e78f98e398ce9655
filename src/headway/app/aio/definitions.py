"""Generated from app/definitions.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Unpack

from headway.app.aio.base import AsyncVerbBase
from headway.app.definitions import DefinitionVerbs
from headway.define.option_types import DefinitionChanges
from headway.model.definition import Definition


class AsyncDefinitionVerbs(DefinitionVerbs, AsyncVerbBase):
    """The async twins of the verbs of `DefinitionVerbs`."""

    async def adefinitions(self) -> list[Definition]:
        """Every stored kind: those that workers declared, and those that operators created."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._listed_definitions())

    async def aget_definition(self, kind: str) -> Definition:
        """What is stored about a kind; raises `NotFound`."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._definition(kind))

    async def achange_definition(
        self,
        kind: str,
        *,
        reset: Sequence[str] = (),
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
        **changes: Unpack[DefinitionChanges],
    ) -> Definition:
        """Change description, schema, timeout, max_attempts, queue, enqueuer_may, tenants or active of a kind, for new
        jobs.

        A changed field no longer follows the code, until `reset` names it. `active=False` refuses new jobs of the kind.
        A kind that no worker has declared yet is created. With `if_match` only if its `revision` is one of these;
        raises `ChangedMeanwhile`, `NotFound`. Raises `InvalidJob`.
        """
        await self._aensure_known(self._own_tenant)
        changed = await self._arun(self._change_definition(kind, reset, actor, if_match, changes), conn)
        self._definitions.expire()
        return changed

    async def adelete_definition(self, kind: str, *, actor: str | None = None, conn: Any = None) -> None:
        """Delete a kind's definition and its changes; a worker that defines the kind writes it again when it starts."""
        await self._aensure_known(self._own_tenant)
        await self._arun(self._delete_definition(kind, actor), conn)
        self._definitions.expire()
