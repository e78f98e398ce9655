"""The verbs of flows: what was recorded, and how one goes on whose code does not fit that any more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec

from headway.app.base import VerbBase
from headway.app.journal_rows import all_rows
from headway.errors import InvalidJob, NotAllowed
from headway.model import codec, refusals
from headway.model.ids import as_id
from headway.model.job import Enqueued, Job, NewJob
from headway.model.journal import FLOW, Row
from headway.model.journal_row import (
    JournalRow,
    fork_point,
    payload_of_last_restart,
    replaced_results,
    set_aside_at,
    shown_rows,
)
from headway.model.machine import Checkpoint, Child
from headway.store.ops import Op, Steps


class FlowVerbs(VerbBase):
    """A flow is a job: it is enqueued, signaled, canceled, retried and forked by the verbs that others have."""

    def journal(self, job_id: str | UUID, *, everything: bool = False, raw: bool = False) -> list[JournalRow]:
        """What a flow has recorded, in order: the answers of its operations and the notes about them that count; with
        `everything` also what a retry or an accept has taken back. Raises `NotFound`, `NotAllowed` (not a
        flow)."""
        return self._read(self._journal(job_id, everything, raw), raw=raw)

    def accept(
        self, job_id: str | UUID, from_seq: int | None = None, *, actor: str | None = None, conn: Any = None
    ) -> int:
        """Let a flow go on with changed code: what it has recorded from row `from_seq` on is taken back, its signals
        are unread again, and it is due now. The default is the first row that the code does not fit, as its last
        attempt says. Steps behind it run again. Gives the number. Raises `NotFound`, `NotAllowed` (not a flow, running,
        over, or not set aside), `InvalidJob`."""
        accepted, queue = self._run(self._accept(job_id, from_seq, actor), conn)
        self._wake_up(queue, conn)
        return accepted

    # as ops

    def _journal(self, job_id: str | UUID, everything: bool, raw: bool) -> Op[list[JournalRow]]:
        def steps() -> Steps[list[JournalRow]]:
            job = yield from self._flow(job_id)
            rows = yield from self._rows(job.id)
            return shown_rows(rows, everything=everything, raw=raw)

        return Op(steps, writes=False)

    def _flow(self, job_id: str | UUID) -> Steps[Job]:
        job = yield from self._get(job_id, raw=True).steps()
        if job.step != FLOW:
            raise refusals.not_a_flow(job.id, job.kind)
        return job

    def _rows(self, job_id: str) -> Steps[list[Row]]:
        return (yield from all_rows(self._store.ops, job_id, tenant_id=self._visible_tenant).steps())

    def _called(self, job_id: str, fence: int | None, raw: bool) -> Steps[list[Child]]:
        """The jobs that a flow has called, in order."""
        rows = yield from self._rows(job_id)
        ids = [
            row.job_id
            for row in shown_rows(rows, raw=True)
            if row.kind == "called" and row.job_id is not None and fence in (None, row.fence)
        ]
        found = yield from self._store.ops.children_of_flow(ids).steps()
        children = [found[each] for each in dict.fromkeys(ids) if each in found]
        return children if raw else [msgspec.structs.replace(each, result=_value(each.result)) for each in children]

    def _accept(self, job_id: str | UUID, from_seq: int | None, actor: str | None) -> Op[tuple[int, str]]:
        key, ops = as_id(job_id), self._store.ops
        if from_seq is not None and (isinstance(from_seq, bool) or not isinstance(from_seq, int) or from_seq < 1):
            raise InvalidJob(
                f"from_seq={from_seq!r} is no row of a journal: give a number, as app.journal(id) shows it"
            )

        def steps() -> Steps[tuple[int, str]]:
            job = yield from self._flow(key)
            start = from_seq
            if start is None and job.status in ("scheduled", "queued"):
                attempts = yield from ops.attempts(key, tenant_id=self._visible_tenant, raw=True).steps()
                rows = yield from self._rows(key)
                start = set_aside_at(rows, attempts[-1].error if attempts else None)
            if start is None and job.status not in ("running", "succeeded", "failed", "dead", "canceled"):
                raise NotAllowed(
                    f"flow {key} is {job.status}, and its last attempt names no recorded answer that its code does not "
                    "fit: give from_seq, the first row that is to be taken back (app.journal shows them)"
                )
            yield from ops.forget(key, start or 1, tenant_id=self._visible_tenant, actor=actor).steps()
            return start or 1, job.queue

        return Op(steps, writes=True, repeatable=False, refusable=True, atomic=True)

    def _fork_flow(
        self,
        job: Job,
        copy: NewJob,
        before: str | int | None,
        results: Mapping[str, Any] | None,
        actor: str | None,
    ) -> Steps[Enqueued]:
        rows = yield from self._rows(job.id)
        start = fork_point(job.id, rows, before)
        given = replaced_results(job.id, rows, start, {} if results is None else results, limit=self.payload_limit)
        new = msgspec.structs.replace(
            copy,
            payload=payload_of_last_restart(rows) or copy.payload,
            source_ref=f"{copy.source_ref} before {start}",
            checkpoint=Checkpoint(version=job.version, step=FLOW, forked_from=job.id),
        )
        return (yield from self._store.ops.fork_flow(new, job.id, start, given, actor=actor).steps())


def _value(stored: Any) -> Any:
    return codec.shown(bytes(stored), what="result") if isinstance(stored, msgspec.Raw) else stored
