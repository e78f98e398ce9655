"""Generated from app/audit_chain.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.app.aio.base import AsyncVerbBase
from headway.app.audit_chain import _PAGE, AuditChainVerbs, AuditCheck, _Check, _expected
from headway.model.audit_chain import MOST, AuditSeal


class AsyncAuditChainVerbs(AuditChainVerbs, AsyncVerbBase):
    """The async twins of the verbs of `AuditChainVerbs`."""

    async def aseal_audit(self) -> int:
        """Seal all entries that have no seal yet, without waiting for a worker; gives how many."""
        await self._aensure_known(self._own_tenant)
        total = 0
        while sealed := (await self._arun(self._store.ops.seal_audit(limit=MOST))):
            total += sealed
        return total

    async def averify_audit(self, *, seal: str | None = None, newest: int | None = None) -> AuditCheck:
        """Check that every sealed entry is as it was sealed, and that none is missing.

        `seal` is the `newest` of an earlier check, such as `17:5f1b…`: the chain must still hold it, so that nobody
        can have made all of it anew. `newest` checks only so many of the last seals. Raises `InvalidJob` for what is no
        seal.
        """
        await self._aensure_known(self._own_tenant)
        expected = None if seal is None else _expected(seal)
        check = _Check(expected, whole=newest is None)
        state = await self._arun(self._store.ops.audit_state())
        if newest is not None:
            await self._acheck_seals(check, await self._arun(self._store.ops.newest_audit_seals(limit=newest)))
            return check.over(state)
        after = 0
        last = await self._arun(self._store.ops.newest_audit_seals(limit=1))
        while (
            last
            and after < last[0].n
            and (found := (await self._arun(self._store.ops.audit_seals(after=after, limit=_PAGE))))
        ):
            await self._acheck_seals(check, found)
            after = found[-1].n
        return check.over(state)

    async def aerase_audit(self, entries: Sequence[int], *, actor: str | None = None, conn: Any = None) -> int:
        """Take the words out of these sealed entries: who it was, the detail, old and new values, request and address.

        When it was, the action, the tenant and the job stay, and so does the hash, so that the chain is whole. Audited.
        Returns how many were erased.
        """
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._store.ops.erase_audit(list(entries), actor=actor), conn)

    async def _acheck_seals(self, check: _Check, seals: list[AuditSeal]) -> None:
        for seal in seals:
            entries = await self._arun(self._store.ops.sealed_entries(seal.n))
            wrong = check.wrong(seal, entries)
            if wrong:
                first = await self._arun(self._store.ops.audit_seals(after=0, limit=1))
                entries = await self._arun(self._store.ops.sealed_entries(seal.n))
                if not first or first[0].n >= seal.n:
                    check.restart()
                if not first or first[0].n > seal.n:
                    continue
                wrong = check.wrong(seal, entries)
            check.add(seal, entries, wrong)
