"""Execution: what a worker knows of one running job until its outcome is handed to the settler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from headway.define.claimed_step import ClaimedStep
from headway.define.context import Context, owner_of
from headway.define.flow_kind import ClaimedFlow
from headway.define.registry import AnyKind
from headway.model.job import Claim, Report
from headway.secrets import Known, Vault
from headway.worker.outcome_secrets import redacted_report

if TYPE_CHECKING:
    from headway.telemetry.tracing import Attempt
    from headway.worker.batches import Batch

Handler = AnyKind | ClaimedStep | ClaimedFlow
"""What runs a claim: its kind, the step of a machine, or a flow."""
StopReason = Literal["timeout", "cancel", "stop", "lost"]


class Execution:
    """One running job, from its claim to its outcome and the end of its handler."""

    __slots__ = (
        "batch",
        "begun",
        "claim",
        "ctx",
        "freed",
        "handler",
        "in_thread",
        "on_thread_end",
        "settled",
        "since",
        "slot_since",
        "span",
        "steps",
        "stop_reason",
        "task",
        "tenant",
        "thread_ended",
        "timer",
        "told_started",
        "vault",
        "worker_id",
    )

    def __init__(
        self, claim: Claim, handler: Handler, worker_id: str, tenant: str | None, since: float, vault: Vault
    ) -> None:
        self.claim = claim
        self.handler = handler
        self.worker_id = worker_id
        self.tenant = tenant
        self.since = since
        self.vault = vault
        self.slot_since = since  # when the first of a machine's steps in a row took the slot
        self.steps = 1
        self.task: asyncio.Task[None] | None = None
        self.ctx: Context | None = None
        self.stop_reason: StopReason | None = None  # why it was asked to stop, if it was
        self.begun = False
        self.told_started = False  # job.started was emitted
        self.settled = False
        self.freed = False
        self.in_thread = False
        self.thread_ended = False  # set by the thread itself
        self.on_thread_end: Callable[[], None] | None = None  # called in the thread, once nobody else waits for it
        self.timer: asyncio.TimerHandle | None = None
        self.span: Attempt | None = None
        self.batch: Batch | None = None  # the batch that it waits for

    def log_fields(self) -> Mapping[str, Any]:
        return {
            "tenant_id": self.claim.tenant_id,
            "job_id": self.claim.id,
            "kind": self.claim.kind,
            "attempt": self.claim.fence,
            "worker_id": self.worker_id,
            "trace_id": self.claim.trace,
        }

    @property
    def duration_ms(self) -> float:
        """How long it has been running, for the log."""
        return round((time.monotonic() - self.since) * 1_000, 1)

    def known(self) -> Known:
        """The secrets that its texts must not show."""
        return self.vault.known(owner_of(self.claim, self.tenant))

    def call(self, fn: Callable[[], Any]) -> Any:
        """Call its function in a thread."""
        try:
            return fn()
        finally:
            self.note_thread_end()

    def note_thread_end(self) -> None:
        """Called in the thread."""
        self.thread_ended = True
        if self.on_thread_end is not None:
            self.on_thread_end()

    def take_report(self) -> Report | None:
        """Progress and log of the job since the last report, without secrets."""
        report = None if self.ctx is None else self.ctx.take_report()
        return None if report is None else redacted_report(report, self.known())

    def interrupt(self) -> None:
        """Raise CancelledError in its handler, if it has begun."""
        if self.batch is not None:
            self.batch.interrupt(self)
        elif self.begun and self.task is not None:
            self.task.cancel()

    @property
    def can_end_alone(self) -> bool:
        """Whether an interruption ends this job and no other: it is async, or waits for its batch."""
        return self.handler.is_async or (self.batch is not None and self.batch.task is None)

    def ask_to_stop(self, reason: StopReason) -> None:
        """Remember why, and let a sync handler see `ctx.canceled`."""
        self.stop_reason = reason
        if self.ctx is not None:
            self.ctx.cancel()
