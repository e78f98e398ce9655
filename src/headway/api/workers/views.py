"""What a worker over HTTP gets of a job that it may run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headway.api.wire.views import Json
from headway.clock import from_micros
from headway.model.job import Claim, Delivery, Job
from headway.model.machine import Checkpoint, Child, Turn
from headway.model.signal import Received
from headway.model.trace import is_traceparent, traceparent, tracestate

_encode = msgspec.json.encode
_NULL = msgspec.Raw(b"null")


class _Received(Received, frozen=True, array_like=True):
    payload: msgspec.Raw  # as it was sent


class _Checkpoint(Checkpoint, frozen=True, kw_only=True):
    signals: tuple[_Received, ...] = ()


_checkpoint = msgspec.json.Decoder(_Checkpoint).decode
_received = msgspec.json.Decoder(tuple[_Received, ...]).decode


class SignalReceived(msgspec.Struct):
    id: str
    name: str
    payload: Any
    sent_at: datetime
    traceparent: str | None = None  # of what sent it, if that was traced
    tracestate: str | None = None


class ClaimedJob(msgspec.Struct, kw_only=True):
    """A job to run now. Send (id, fence) with everything you report about it; `attempt_no` is `fence`, `definition_key`
    is `kind`. A machine has `step`, `state` (null: the payload is its state), `signals` and `children`."""

    id: str
    fence: int
    attempt_no: int
    tenant_id: str
    kind: str
    definition_key: str
    queue: str
    payload: Json
    tries: int
    losses: int
    max_attempts: int
    timeout_ms: int | None
    delivery: Delivery
    correlation_id: str | None
    trace_id: str  # the id of its trace, for log lines
    traceparent: str  # the header to hand on
    tracestate: str | None
    meta: Json
    state: Json
    version: int | None = None
    step: str | None = None
    signals: list[SignalReceived] = []
    children: list[Child] = []
    timed_out: bool = False  # its await ended without the signals
    awaiting: list[str] = []  # the names of the await that it comes after: its outcome consumes the signals of these
    # heartbeats may say where their text begins in what this execution logs, so that a repeated one adds nothing
    log_at: int | None = 0


def claimed(claim: Claim) -> tuple[ClaimedJob, Checkpoint | None]:
    job = ClaimedJob(
        id=claim.id,
        fence=claim.fence,
        attempt_no=claim.fence,
        tenant_id=claim.tenant_id,
        kind=claim.kind,
        definition_key=claim.kind,
        queue=claim.queue,
        payload=msgspec.Raw(claim.payload.encode()),
        tries=claim.tries,
        losses=claim.losses,
        max_attempts=claim.max_attempts,
        timeout_ms=claim.timeout_ms,
        delivery=claim.delivery,
        correlation_id=claim.correlation_id,
        trace_id=claim.trace,
        traceparent=claim.traceparent,
        tracestate=tracestate(claim.trace_id),
        meta=_NULL if claim.meta is None else msgspec.Raw(claim.meta.encode()),
        state=_NULL,
    )
    if claim.checkpoint is None:
        return job, None
    checkpoint = _checkpoint(claim.checkpoint)
    job.version, job.step = checkpoint.version, checkpoint.step
    if checkpoint.state:
        job.state = checkpoint.state
    job.signals = list(map(_signal, checkpoint.signals))
    job.timed_out = checkpoint.woken == "timeout"
    job.awaiting = list(checkpoint.awaiting)
    return job, checkpoint


def version_of(claim: Claim) -> int | None:
    """The version of a machine that has begun."""
    return None if claim.checkpoint is None else _checkpoint(claim.checkpoint).version


def continued(job: Job, fence: int, turn: Turn, signals: str | None) -> ClaimedJob:
    """The next step of a machine, which goes on at once."""
    return ClaimedJob(
        id=job.id,
        fence=fence,
        attempt_no=fence,
        tenant_id=job.tenant_id,
        kind=job.kind,
        definition_key=job.kind,
        queue=job.queue,
        payload=msgspec.Raw(_encode(job.payload)),
        tries=0,
        losses=0,
        max_attempts=job.max_attempts,
        timeout_ms=job.timeout_ms,
        delivery=job.delivery,
        correlation_id=job.correlation_id,
        trace_id=job.trace,
        traceparent=traceparent(job.trace_id, job.id),
        tracestate=tracestate(job.trace_id),
        meta=msgspec.Raw(_encode(job.meta)),
        version=turn.version,
        step=turn.step,
        state=msgspec.Raw(_encode(job.state) if turn.state is None else turn.state.encode()),
        signals=[] if signals is None else list(map(_signal, _received(signals))),
    )


def _signal(signal: Received) -> SignalReceived:
    sender = traceparent(signal.trace_id, signal.id) if is_traceparent(signal.trace_id) else None
    return SignalReceived(
        signal.id, signal.name, signal.payload, from_micros(signal.sent_at), sender, tracestate(signal.trace_id)
    )
