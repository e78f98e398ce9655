"""Payloads that are too large for their row: written as artifacts of their jobs before these are enqueued."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from headway.app.base import VerbBase
from headway.errors import HeadwayError, NotAllowed, StoreError
from headway.model.artifact import NewPayload, TrashedBytes, WrittenPayload, path_of
from headway.model.ids import new_id
from headway.model.job import Enqueued, NewJob
from headway.model.spill import is_over, reference
from headway.store.ops import Op, Steps

Spilled = Sequence[tuple[int, WrittenPayload]]
"""Payloads that were written, each with the index of its job in the call."""


class PayloadVerbs(VerbBase):
    """First the bytes are noted as trash, then written, then the transaction that enqueues the job makes them its
    artifact; refused, they are deleted. Killed at any point, the bytes are known: a sweep deletes what no job has an
    hour later."""

    def _spilled(self, batch: list[NewJob], conn: Any) -> tuple[list[NewJob], Spilled]:
        """The jobs, with references in place of payloads that are over the limit of rows. Only kinds that let them
        spill have such payloads. Raises `ArtifactsUnavailable`, `NotAllowed`."""
        limit = self.payload_limit
        large = {index: job for index, job in enumerate(batch) if is_over(job.payload, limit)}
        if not large:
            return batch, ()
        if conn is not None and self._store.dialect == "sqlite":
            raise within_a_transaction(next(iter(large.values())).kind, limit)
        store = self._places.own.name
        news = [NewPayload(new_id(), job.tenant_id, job.id, store) for job in large.values()]
        self._store.run(self._store.ops.begin_payloads(news))
        jobs, written = list(batch), []
        for (index, job), new in zip(large.items(), news, strict=True):
            found = self._places.write_payload(new, job.payload)
            written.append((index, WrittenPayload(new.id, job.id, found.size, found.sha256)))
            jobs[index] = msgspec.structs.replace(job, payload=reference(new.id))
        return jobs, written

    def _keeping(self, written: Spilled, op: Op[list[Enqueued]]) -> Op[list[Enqueued]]:
        """The op, which enqueues the jobs of these payloads; each belongs to the job that has it then."""

        def steps() -> Steps[list[Enqueued]]:
            done = yield from op.steps()
            kept = [msgspec.structs.replace(each, job_id=done[index].id) for index, each in written]
            yield from self._store.ops.keep_payloads(kept).steps()
            return done

        return Op(steps, writes=True, refusable=True, atomic=True)

    def _drop(self, batch: Sequence[NewJob], written: Spilled, error: HeadwayError) -> None:
        """Delete the payloads of jobs that were refused. A `StoreError` does not tell what became of them: the sweep
        looks later."""
        if written and not isinstance(error, StoreError):
            store = self._places.own.name
            with suppress(HeadwayError):
                self._places.discard(
                    [
                        TrashedBytes(each.id, store, path_of(batch[index].tenant_id, each.job_id, each.id))
                        for index, each in written
                    ]
                )


def within_a_transaction(kind: str, limit: int) -> NotAllowed:
    """Nothing can be noted in SQLite's file while the caller's transaction has its lock."""
    return NotAllowed(
        f"the payload of this {kind} is over the limit of {limit:,} bytes, and cannot spill within your own "
        "transaction on SQLite, which may hold the file's only lock: enqueue it without conn=, or store the data "
        "yourself and pass a reference to it"
    )
