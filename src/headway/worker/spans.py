"""The span of an execution, where traces are on: telemetry that fails must not fail a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.define.claimed_step import ClaimedStep
from headway.logs import Seldom, get_logger
from headway.model.job import Settlement
from headway.worker.execution import Execution
from headway.worker.summary import name_of

if TYPE_CHECKING:
    from headway.telemetry.tracing import Attempt, Tracing

log = get_logger("headway.worker")
_says = Seldom(60)


def begin_span(tracing: Tracing, run: Execution) -> None:
    """Begin its span, which is current in this task, and make the span's context its claim's."""
    handler = run.handler
    try:
        if isinstance(handler, ClaimedStep):
            checkpoint = handler.checkpoint
            signals = [each for each in checkpoint.signals if each.name in checkpoint.awaiting]
            run.span = tracing.begin(run.claim, step=handler.step.name, worker_id=run.worker_id, signals=signals)
            handler.claim = run.span.claim
        else:
            run.span = tracing.begin(run.claim, step=None, worker_id=run.worker_id)
        run.claim = run.span.claim
    except Exception as error:
        tell(error)


def end_span(span: Attempt, outcome: Settlement | None) -> None:
    try:
        span.end(outcome, "given back" if outcome is None else name_of(outcome))
    except Exception as error:
        tell(error)


def tell(error: Exception) -> None:
    """Log it, but not for each span."""
    if _says():
        log.warning("a span could not be written: the job is not affected", exc_info=error)
