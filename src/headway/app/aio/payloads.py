"""Generated from app/payloads.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from headway.app.aio.base import AsyncVerbBase
from headway.app.payloads import PayloadVerbs, Spilled, within_a_transaction
from headway.errors import HeadwayError, StoreError
from headway.model.artifact import NewPayload, TrashedBytes, WrittenPayload, path_of
from headway.model.ids import new_id
from headway.model.job import NewJob
from headway.model.spill import is_over, reference


class AsyncPayloadVerbs(PayloadVerbs, AsyncVerbBase):
    """The async twins of the verbs of `PayloadVerbs`."""

    async def _aspilled(self, batch: list[NewJob], conn: Any) -> tuple[list[NewJob], Spilled]:
        """The jobs, with references in place of payloads that are over the limit of rows. Only kinds that let them
        spill have such payloads. Raises `ArtifactsUnavailable`, `NotAllowed`."""
        limit = self.payload_limit
        large = {index: job for index, job in enumerate(batch) if is_over(job.payload, limit)}
        if not large:
            return (batch, ())
        if conn is not None and self._store.dialect == "sqlite":
            raise within_a_transaction(next(iter(large.values())).kind, limit)
        store = self._places.own.name
        news = [NewPayload(new_id(), job.tenant_id, job.id, store) for job in large.values()]
        await self._store.arun(self._store.ops.begin_payloads(news))
        jobs, written = (list(batch), [])
        for (index, job), new in zip(large.items(), news, strict=True):
            found = await self._places.awrite_payload(new, job.payload)
            written.append((index, WrittenPayload(new.id, job.id, found.size, found.sha256)))
            jobs[index] = msgspec.structs.replace(job, payload=reference(new.id))
        return (jobs, written)

    async def _adrop(self, batch: Sequence[NewJob], written: Spilled, error: HeadwayError) -> None:
        """Delete the payloads of jobs that were refused. A `StoreError` does not tell what became of them: the sweep
        looks later."""
        if written and (not isinstance(error, StoreError)):
            store = self._places.own.name
            with suppress(HeadwayError):
                await self._places.adiscard(
                    [
                        TrashedBytes(each.id, store, path_of(batch[index].tenant_id, each.job_id, each.id))
                        for index, each in written
                    ]
                )
